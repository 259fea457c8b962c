"""One rank of ``horovod.run``: calls the function that lies in a folder and leaves there what it returned.

Called as _task.py FOLDER under ``ronde run``, or under an MPI's launcher. It is
no module of a package: the caller's ``sys.path`` decides which
modules the function finds.
"""

import json
import os
import pickle
import sys
import time
import traceback
from pathlib import Path


#: Of `ronde run`, and of the launchers of MPI that it starts.
_RANK_VARIABLES = ("RONDE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def _leave(folder: Path, name: str, content: bytes) -> None:
    """Whole or not at all: the rank may be killed meanwhile."""
    unfinished = folder / f"{name}.part"
    unfinished.write_bytes(content)
    unfinished.rename(folder / name)


def main() -> int:
    """The exit code: 1 if the function, or the way to it or from it, has failed."""
    # On several hosts the launcher carries the caller's folder to each, and what is added there back.
    folder = Path(os.environ.get("RONDE_CARRIED_FOLDER") or sys.argv[1])
    rank = int(next(os.environ[name] for name in _RANK_VARIABLES if name in os.environ))
    try:
        callers = json.loads((folder / "sys.path").read_text(encoding="utf-8"))
        own = sys.path[1:]  # without this file's folder
        first, then = (callers["entries"], own) if callers["first"] else (own, callers["entries"])
        sys.path[:] = [*first, *(entry for entry in then if entry not in first)]
        import cloudpickle

        function = pickle.loads((folder / "function").read_bytes())
        _leave(folder, f"result.{rank}", cloudpickle.dumps(function()))
    except Exception:
        # Hosts share no other clock. The caller shows the text.
        failure = {"rank": rank, "at": time.time(), "traceback": traceback.format_exc()}
        _leave(folder, f"failure.{rank}", json.dumps(failure).encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
