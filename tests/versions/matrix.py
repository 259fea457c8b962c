"""The lines of matrix.toml: a version of a framework, what is installed with it, and what is expected of each face."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Tuple

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
MATRIX = FOLDER / "matrix.toml"


@dataclass(frozen=True)
class Face:
    """A module of Ronde as one framework's user sees it, and the program that tries it."""

    title: str
    command: Tuple[str, ...]
    environment: Dict[str, str] = field(default_factory=dict)


def _keras(backend: str) -> Face:
    return Face(f"ronde.keras, {backend}", ("face_keras.py", "ronde.keras"), {"KERAS_BACKEND": backend})


FACES = {
    "numpy": Face("ronde.numpy", ("face_numpy.py",)),
    "torch": Face("ronde.torch", ("face_torch.py",)),
    "tensorflow": Face("ronde.tensorflow", ("face_tensorflow.py",)),
    "tensorflow_keras": Face("ronde.tensorflow.keras", ("face_keras.py", "ronde.tensorflow.keras")),
    "tensorflow_keras_2": Face("ronde.tensorflow.keras, tf_keras", ("face_keras.py", "ronde.tensorflow.keras"),
                               {"TF_USE_LEGACY_KERAS": "1"}),
    "keras": _keras("tensorflow"),
    "keras_torch": _keras("torch"),
    "keras_jax": _keras("jax"),
    "jax": Face("ronde.jax", ("face_jax.py",)),
}

#: What a face may be expected to do: to pass its program, to say in a sentence with these words that it cannot, or to fail
#: with these words in the framework's own.
EXPECTATION = re.compile(r"works|(refused|fails): \S.*")

_KEYS = {"version", "with", "alone", "beside", "reason", "not_tried", *FACES}


@dataclass(frozen=True)
class Line:
    """One version of one framework."""

    framework: str  # the distribution's name
    version: str
    expected: Dict[str, str]  # by face
    together: Tuple[str, ...] = ()  # pinned packages that pip resolves together with it
    alone: Tuple[str, ...] = ()  # pinned packages that are installed without what they ask for
    beside: bool = False  # whether what it needs is looked for in the development environment
    reason: str = ""  # why something is pinned, or expected to be refused or to fail
    not_tried: str = ""  # why it cannot be tried; empty: it is tried

    @property
    def name(self) -> str:
        """As users pick it."""
        return f"{self.framework} {self.version}"


def parse(text: str) -> List[Line]:
    """The lines, in their order. ValueError, naming the line, for one that is not well-formed."""
    lines = []
    for framework, given in tomllib.loads(text).items():
        for entry in given["versions"]:
            lines.append(_line(framework, entry))
    names = [line.name for line in lines]
    if len(set(names)) != len(names):
        raise ValueError(f"twice in the matrix: {sorted({name for name in names if names.count(name) > 1})}")
    return lines


def _line(framework: str, entry: Dict[str, Any]) -> Line:
    where = f"{framework} {entry.get('version')}"
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"{where}: unknown keys {sorted(unknown)}; there are {sorted(_KEYS)}")
    if not re.fullmatch(r"\d+(\.\d+)+", str(entry.get("version"))):
        raise ValueError(f"{where}: a version is digits and dots")
    expected = {face: str(entry[face]) for face in FACES if face in entry}
    wrong = {face: words for face, words in expected.items() if not EXPECTATION.fullmatch(words)}
    if wrong or not expected:
        raise ValueError(f"{where}: one face at least 'works', 'refused: words' or 'fails: words': {wrong}")
    if any(words.startswith("fails") for words in expected.values()) and not entry.get("reason"):
        raise ValueError(f"{where}: what fails has a reason")
    for package in (*entry.get("with", ()), *entry.get("alone", ())):
        if not re.fullmatch(r"[\w-]+(==|<|<=)\d[\w.]*", package):
            raise ValueError(f"{where}: {package} is not pinned")
    beside = entry.get("beside", "")
    if beside not in ("", "development"):
        raise ValueError(f"{where}: beside is 'development' or not there")
    return Line(framework, entry["version"], expected, tuple(entry.get("with", ())), tuple(entry.get("alone", ())),
                bool(beside), entry.get("reason", ""), entry.get("not_tried", ""))


def load() -> List[Line]:
    """Of the file. Raises as :func:`parse`."""
    return parse(MATRIX.read_text(encoding="utf-8"))


def key(version: str) -> Tuple[int, ...]:
    """By which versions are ordered."""
    return tuple(map(int, version.split(".")))


def newest(lines: List[Line]) -> Dict[str, Line]:
    """By framework, the newest line that is tried."""
    tried = [line for line in lines if not line.not_tried]
    return {line.framework: line for line in sorted(tried, key=lambda each: key(each.version))}
