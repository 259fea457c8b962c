"""The lines of mpis.toml: an MPI's wheel, its environment, and how its launcher starts ranks on one host and on two."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List

import environments

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
WORK = ROOT / "build" / "mpis"
IMAGES, WEIGHTS = WORK / "images", WORK / "weights"
#: The largest environment, of Intel MPI, takes 0.3 GB.
MIN_FREE_BYTES = 1 << 30

#: What is tried with each; test_mpis.py has a test for each, and a line's `fails` names them.
CELLS = ("operations, 2 ranks", "operations, 3 ranks", "training, mpi, one host", "training, own, one host",
         "training, mpi, two hosts", "training, own, two hosts", "mpi4py first, mpi", "mpi4py first, own", "ronde first, mpi",
         "ronde first, own")

#: What every job gets.
ENVIRONMENT = {"RONDE_PROBE": "0", "RONDE_INIT_TIMEOUT_S": "120", "RONDE_TIMEOUT_S": "120", "RONDE_LOG_LEVEL": "info",
               "OMP_NUM_THREADS": "1"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

_KEYS = {"package", "version", "launcher", "says", "fails", "reason"}


@dataclass(frozen=True)
class Line:
    """One MPI."""

    package: str  # on PyPI
    version: str
    launcher: str  # one of _ONE_HOST
    says: str  # how its library's MPI_Get_library_version begins, as Ronde's log has it
    mpi4py: str  # the version beside it
    fails: Dict[str, str] = field(default_factory=dict)  # words of the failure, by cell
    reason: str = ""  # of that

    @property
    def name(self) -> str:
        """As users pick it."""
        return f"{self.package} {self.version}"

    @property
    def folder(self) -> Path:
        """Of its environment."""
        return WORK / f"{self.package}-{self.version}"

    @property
    def python(self) -> Path:
        """Of its environment: it has this MPI and mpi4py, and behind them what .venv has."""
        return self.folder / "bin/python"

    def words(self, bed: Any, hosts: int, ranks: int, environment: Dict[str, str]) -> List[str]:
        """What begins a command in the bed's first host, so that so many ranks run on so many hosts."""
        launcher = str(self.folder / "bin/mpirun")
        on_hosts = _TWO_HOSTS[self.launcher](bed, ranks, environment) if hosts == 2 else []
        return [launcher, *_ONE_HOST[self.launcher], *on_hosts, "-n", str(ranks)]

    def environment(self, backend: str) -> Dict[str, str]:
        """For the launcher, which hands it on to ranks of its host. The environment's programs come first, as in one that was
        activated: Intel's mpirun takes the first mpiexec.hydra of PATH."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**ENVIRONMENT, **_ENVIRONMENT[self.launcher], "RONDE_BACKEND": backend, "PATH": path}

    def make(self) -> None:
        """Its environment; once for the same packages. environments.InstallationError with what pip says."""
        wanted = f"{self.package}=={self.version} mpi4py=={self.mpi4py}"
        stamp = self.folder / "installed"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(self.folder, ignore_errors=True)
            WORK.mkdir(parents=True, exist_ok=True)
            python = environments.begin(self.folder, MIN_FREE_BYTES)
            # Intel's wheel asks for one of libfabric that is not to be had; what lacks it is Debian's.
            environments.pip(python, "--no-compile", "--no-deps", *wanted.split())
            stamp.write_text(wanted, encoding="utf-8")
        environments.add_development(self.folder)


# ---- Launchers

#: Four ranks share two cores, so none is bound. Everything else is as the launcher has it.
_ONE_HOST = {
    "orte": ["--oversubscribe", "--bind-to", "none"],
    "prte": ["--oversubscribe", "--bind-to", "none"],
    "hydra": [],
    "intel": [],
}
_ENVIRONMENT: Dict[str, Dict[str, str]] = {
    "orte": AS_ROOT,
    "prte": {**AS_ROOT, "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    "hydra": {},
    "intel": {"FI_PROVIDER": "tcp"},
}


def _slots(ranks: int) -> str:
    return f"rh1:{(ranks + 1) // 2},rh2:{ranks // 2}"


def _passed(environment: Dict[str, str]) -> List[str]:
    return [word for name in environment for word in ("-x", name)]


def _orte(bed: Any, ranks: int, environment: Dict[str, str]) -> List[str]:
    return ["--mca", "plm_rsh_agent", str(bed.ssh), "-H", _slots(ranks), *_passed(environment)]


def _prte(bed: Any, ranks: int, environment: Dict[str, str]) -> List[str]:
    return ["--prtemca", "plm_ssh_agent", str(bed.ssh), "-H", _slots(ranks), *_passed(environment)]


def _hydra(bed: Any, ranks: int, _: Dict[str, str]) -> List[str]:
    return ["-launcher", "ssh", "-launcher-exec", str(bed.ssh), "-hosts", "rh1,rh2", "-ppn", str((ranks + 1) // 2)]


_TWO_HOSTS = {"orte": _orte, "prte": _prte, "hydra": _hydra, "intel": _hydra}


def training(folder: Path) -> List[object]:
    """Behind a Python: a rank that trains, and leaves its weights in this folder."""
    return [FOLDER / "programs" / "training.py", folder, "--data", IMAGES, "--epochs", 1, "--batch", 64]


# ---- The data


def parse(text: str) -> List[Line]:
    """The lines, in their order. ValueError, naming the line, for one that is not well-formed."""
    data = tomllib.loads(text)
    return [_line(entry, data["mpi4py"]) for entry in data["mpis"]]


def rows(lines: List[Line]) -> List[str]:
    """The table of docs/launchers.md."""
    groups = {"operations": CELLS[:2], "training, one host": CELLS[2:4], "training, two hosts": CELLS[4:6],
              "mpi4py first": CELLS[6:8], "Ronde first": CELLS[8:]}
    made = [["wheel", *groups, "note"], ["---"] * (len(groups) + 2)]
    for line in lines:
        cells = []
        for group in groups.values():
            said = [f'{cell.split(", ")[1]}: "{line.fails[cell]}"' for cell in group if cell in line.fails]
            cells.append("; ".join(said) or "works")
        made.append([line.name, *cells, line.reason])
    return [f"| {' | '.join(row)} |" for row in made]


def _line(entry: Dict[str, Any], mpi4py: str) -> Line:
    where = f"{entry.get('package')} {entry.get('version')}"
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"{where}: unknown keys {sorted(unknown)}; there are {sorted(_KEYS)}")
    if not re.fullmatch(r"\d+(\.\d+)+", str(entry.get("version"))):
        raise ValueError(f"{where}: a version is digits and dots")
    if entry.get("launcher") not in _ONE_HOST:
        raise ValueError(f"{where}: launcher is one of {sorted(_ONE_HOST)}")
    fails = entry.get("fails", {})
    if wrong := [cell for cell, words in fails.items() if cell not in CELLS or not words]:
        raise ValueError(f"{where}: {wrong} is no cell, or has no words of the failure; there are {CELLS}")
    if fails and not entry.get("reason"):
        raise ValueError(f"{where}: what fails has a reason")
    return Line(entry["package"], entry["version"], entry["launcher"], entry["says"], mpi4py, fails, entry.get("reason", ""))


def load() -> List[Line]:
    """Of the file. Raises as :func:`parse`."""
    return parse((FOLDER / "mpis.toml").read_text(encoding="utf-8"))
