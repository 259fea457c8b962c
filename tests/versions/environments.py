"""A virtual environment for one line of the matrix: pip puts the line's packages into it, and Ronde's wheel."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Sequence

from matrix import Line

#: It only ends what hangs: a line's packages are some hundred megabytes.
INSTALL_LIMIT_S = 900
#: An environment takes up to 2 GB, and pip's cache as much again for a while.
MIN_FREE_BYTES = 6 << 30


class InstallationError(Exception):
    """pip's last lines."""


def pack_wheel(folder: Path) -> Path:
    """Ronde's wheel as it was installed into the development environment, packed again from the files that its RECORD lists.

    So each line gets what `make setup` has built, and no line waits for a compiler.
    """
    distribution = importlib.metadata.distribution("ronde")
    info = f"ronde-{distribution.version}.dist-info"
    tag = next(line for line in (distribution.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))[5:]
    path = folder / f"ronde-{distribution.version}-{tag}.whl"
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(path, "w") as wheel:
        for file in distribution.files or ():
            if file.suffix == ".pyc" or file.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                continue
            source = Path(str(distribution.locate_file(file)))
            # Commands lie outside of the packages' folder; a wheel has a place for them.
            name = f"ronde-{distribution.version}.data/scripts/{file.name}" if ".." in file.parts else str(file)
            wheel.write(source, name)
            data = source.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.writerow((name, f"sha256={digest}", len(data)))
        rows.writerow((f"{info}/RECORD", "", ""))
        wheel.writestr(f"{info}/RECORD", record.getvalue())
    return path


def make(line: Line, folder: Path, wheel: Path) -> None:
    """Makes it in ``folder``, which must not be there. InstallationError with what pip says, or if there is no room."""
    python = begin(folder, MIN_FREE_BYTES)
    pinned = f"{line.framework}=={line.version}"
    if line.beside:
        add_development(folder)
        here = importlib.metadata.version(line.framework).partition("+")[0] == line.version
        alone = [*([] if here else [pinned]), *line.alone]
    else:
        pip(python, "--no-compile", pinned, *line.together)
        alone = list(line.alone)
    pip(python, "--no-compile", "--no-deps", "--ignore-installed", str(wheel), *alone)
    code = f"import importlib.metadata as m; print(m.version({line.framework!r}).partition('+')[0])"
    found = _run([python, "-c", code]).strip()
    if found != line.version:
        raise InstallationError(f"{line.framework} {found} is there, not {line.version}")


def begin(folder: Path, min_free_bytes: int) -> Path:
    """An empty one; returns its Python. InstallationError if there is no room."""
    free = shutil.disk_usage(folder.parent).free
    if free < min_free_bytes:
        raise InstallationError(f"{free >> 20} MiB are free in {folder.parent}; {min_free_bytes >> 20} are needed")
    _run([sys.executable, "-m", "venv", "--without-pip", folder])
    return folder / "bin/python"


def add_development(folder: Path) -> None:
    """What the development environment holds, behind the environment's own packages, which so come first."""
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "development.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")


def pip(python: Path, *arguments: str) -> None:
    """Installs. The user's own settings of pip say where packages come from."""
    _run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet",
          "--only-binary", ":all:", *arguments])


def _run(command: Sequence[object]) -> str:
    try:
        ended = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise InstallationError(f"not installed within {INSTALL_LIMIT_S} s") from error
    if ended.returncode != 0:
        raise InstallationError(ended.stdout)
    return ended.stdout
