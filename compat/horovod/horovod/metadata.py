"""Which versions of frameworks this was built for: of none, since nothing is compiled against a framework."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict


def versions() -> Dict[str, str]:
    """What ``metadata.json`` holds: framework -> version."""
    return dict(json.loads(Path(__file__).with_name("metadata.json").read_text(encoding="utf-8")))
