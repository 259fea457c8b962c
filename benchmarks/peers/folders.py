"""Where things are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent
RESULTS = SOURCES.parent / "results"
WORK = ROOT / "build" / "peers"
RELEASE = ROOT / "build" / "release"
VIEWS = ROOT / "build" / "include"  # RONDE_VIEWS of the presets
RONDE = RELEASE / "src/cli/ronde"
LIBRARY = RELEASE / "src/api/libronde.so"
