"""What goes wrong, under Horovod's names."""

from __future__ import annotations

from ronde.exceptions import CollectiveError as HorovodInternalError
from ronde.exceptions import HostsUpdatedInterrupt

__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "get_version_mismatch_message",
]


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """Says that a framework is of another version than the one something was built for."""
    return (
        f"built for {name} {version}, but {name} {installed_version} is installed: install the version it was built "
        "for, or build it again"
    )


class HorovodVersionMismatchError(ImportError):
    """A framework is of another version than expected. Ronde never raises it: nothing of it is built for a version."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
