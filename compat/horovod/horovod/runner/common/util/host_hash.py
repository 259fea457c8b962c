"""Which processes share a host."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import Optional


def _namespaces() -> str:
    """Containers on one machine are hosts of their own: they may not share memory."""
    found = []
    for name in ("uts", "ipc", "mnt"):
        try:
            found.append(os.readlink(f"/proc/self/ns/{name}"))
        except OSError:
            found.append("")
    return " ".join(found)


def host_hash(salt: Optional[str] = None) -> str:
    """The host's name and a digest, equal in processes of one host (and container), and with one ``salt``."""
    name = socket.gethostname()
    text = " ".join([name, _namespaces(), *([] if salt is None else [salt])])
    return f"{name.split('.')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
