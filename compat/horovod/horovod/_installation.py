"""Tells a folder ``horovod`` that holds files of two installations: whose module an import finds is then chance."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Iterator, Optional, Set

_FOLDER = Path(__file__).resolve().parent
_COMPILED = (".so", ".pyd", ".dylib")


def _recorded() -> Optional[Set[Path]]:
    """The files that the installer wrote for this distribution; None if it is used from a source tree."""
    for record in sorted(_FOLDER.parent.glob("horovod-*+ronde*.dist-info/RECORD")):
        with open(record, encoding="utf-8", newline="") as rows:
            return {_FOLDER.parent / row[0] for row in csv.reader(rows) if row}
    return None


def _foreign() -> Iterator[Path]:
    """Modules that are not of this distribution. It has none that is compiled."""
    recorded = _recorded()
    for path in sorted(_FOLDER.rglob("*")):
        if path.suffix in _COMPILED or (recorded is not None and path.suffix == ".py" and path not in recorded):
            yield path


def check() -> None:
    """Raises ImportError, in one sentence, if files of another installation lie among these."""
    stranger = next(_foreign(), None)
    if stranger is not None:
        raise ImportError(
            f"{_FOLDER} holds files of another installation of horovod ({stranger.relative_to(_FOLDER)}) beside "
            f"Ronde's: run `pip uninstall horovod` until nothing is left, delete {_FOLDER}, and install Ronde's again"
        )
