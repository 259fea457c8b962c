"""Ronde: a distributed training engine.

Importing this package loads neither the library nor a framework; ``ronde.torch`` and its like do.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["__version__", "cmake_prefix_path", "get_include"]

_FOLDER = Path(__file__).resolve().parent

__version__: str
"""Of this package, such as "0.1.0"."""

cmake_prefix_path: str = str(_FOLDER)
"""For C++ projects: ``cmake -DCMAKE_PREFIX_PATH=$(python -c "import ronde; print(ronde.cmake_prefix_path)")``, then
``find_package(ronde)`` and link ``ronde::ronde``."""


def get_include() -> str:
    """The folder to give to a compiler with ``-I`` so that ``#include <ronde/ronde.hpp>`` works. Raises nothing."""
    return str(_FOLDER / "include")


def __getattr__(name: str) -> str:
    # Asked of the installed package's metadata, whose only source is CMakeLists.txt; lazily, since it costs
    # milliseconds.
    if name == "__version__":
        from importlib.metadata import version

        return version("ronde")
    raise AttributeError(f"module 'ronde' has no attribute {name!r}")
