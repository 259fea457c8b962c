"""What ``horovodrun --check-build`` prints: the truth about this installation."""

from __future__ import annotations

import importlib.util
import shutil
from typing import Iterable, List, Tuple


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _frameworks() -> List[Tuple[str, bool]]:
    return [("TensorFlow", _there("tensorflow")), ("PyTorch", _there("torch")), ("MXNet", False)]


def _lines(title: str, rows: Iterable[Tuple[str, bool]]) -> str:
    return "\n".join([f"{title}:", *(f"    [{'X' if there else ' '}] {name}" for name, there in rows)])


def build_table(version: str) -> str:
    """Frameworks, controllers and libraries, marked with an X where they can be used here."""
    mpi = any(shutil.which(name) for name in ("mpirun", "mpiexec"))
    return "\n\n".join(
        [
            f"Horovod v{version}:",
            _lines("Available Frameworks", _frameworks()),
            _lines("Available Controllers", [("Ronde", True), ("MPI", mpi), ("Gloo", False)]),
            _lines(
                "Available Tensor Operations",
                [("Ronde", True), ("NCCL", False), ("DDL", False), ("CCL", False), ("MPI", mpi), ("Gloo", False)],
            ),
        ]
    )
