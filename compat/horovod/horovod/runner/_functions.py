"""The caller's side of ``horovod.run``: hands a function to ranks and collects what they return.

Function and results lie in a folder that only this user can enter; nothing is unpickled from a port.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, TextIO

from horovod.runner.launch import launch_line, rank_count, rank_environment

#: How long ranks may take to end after an interruption; the launcher kills them long before.
_END_LIMIT_S = 30.0


def run_in_ranks(function: Callable[[], Any], settings: Any) -> List[Any]:
    """What the ranks' calls of the function returned, in rank order. RuntimeError as :func:`horovod.run`."""
    import cloudpickle

    ranks = rank_count(settings)
    with _private_folder() as folder:
        # Another Python has packages of its own, and ours may not suit it.
        path = {"entries": [os.path.abspath(entry) for entry in sys.path], "first": settings.executable is None}
        (folder / "sys.path").write_text(json.dumps(path), encoding="utf-8")
        (folder / "function").write_bytes(cloudpickle.dumps(function))
        executable = settings.executable or sys.executable
        task = [executable, str(Path(__file__).with_name("_task.py")), str(folder)]
        line = launch_line(settings, carried=folder) + task
        if settings.verbose:
            print(f"horovod.run: {shlex.join(line)}", file=sys.stderr, flush=True)
        code = _wait_for(line, rank_environment(settings))
        failure = _first_failure(folder)
        if failure is not None:
            raise RuntimeError(failure)
        missing = [rank for rank in range(ranks) if not (folder / f"result.{rank}").exists()]
        if missing or code != 0:
            whose = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
            who = f"; no result came from {whose}" if missing else ""
            raise RuntimeError(f"the ranks of horovod.run ended with code {code}{who}: what they printed says why")
        return [pickle.loads((folder / f"result.{rank}").read_bytes()) for rank in range(ranks)]


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder of mode 0700. Where this process is killed, the next job of this user removes it: as long as the file
    ``owner`` is locked it is in use (src/store/folder_owner.cc)."""
    process = os.getpid()
    name = tempfile.mkdtemp(prefix="ronde-run-", dir=_parent_folder())
    try:
        with open(f"{name}/owner.new", "xb") as owner:
            try:
                owner.write(Path("/proc/sys/kernel/random/boot_id").read_bytes().strip())
                owner.flush()
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rename(owner.name, f"{name}/owner")
            except OSError:
                pass  # no such locks there: nobody will take the folder for abandoned
            yield Path(name)
    finally:
        if os.getpid() == process:  # and not a child that was forked meanwhile
            shutil.rmtree(name, ignore_errors=True)


def _parent_folder() -> Optional[str]:
    """Where jobs look for folders that were left behind (src/store/private_folder.cc); functions and results may be too
    large for XDG_RUNTIME_DIR. None: neither can be written to, and Python looks for another."""
    candidates = (os.environ.get("TMPDIR", ""), "/tmp")
    return next((each for each in candidates if os.path.isabs(each) and os.access(each, os.W_OK | os.X_OK)), None)


def _first_failure(folder: Path) -> Optional[str]:
    """The text of the rank that failed first: the others' errors follow from it."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("failure.*[0-9]"))
    failures = sorted(found, key=lambda failure: failure["at"])
    if not failures:
        return None
    first = failures[0]
    others = f" (later also rank {', '.join(str(f['rank']) for f in failures[1:])})" if len(failures) > 1 else ""
    return f"rank {first['rank']} of horovod.run failed{others}:\n\n{first['traceback']}"


def _wait_for(line: List[str], environment: Dict[str, str]) -> int:
    """Runs the launcher to its end. Its output goes where this process's ``sys.stdout`` and ``sys.stderr`` go."""
    # They may have been replaced: by a notebook, by a test.
    replaced = sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__
    pipe = subprocess.PIPE if replaced else None
    sys.stdout.flush()
    leash = [sys.executable, str(Path(__file__).with_name("_leash.py")), str(os.getpid())]
    process = subprocess.Popen([*leash, *line], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment)
    pumps = []
    if replaced:
        pairs = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
        pumps = [threading.Thread(target=_pump, args=pair, daemon=True) for pair in pairs]
    for pump in pumps:
        pump.start()
    try:
        code = process.wait()
    except BaseException:  # Ctrl-C above all: the ranks must not outlive the call
        process.terminate()
        process.wait(_END_LIMIT_S)
        raise
    for pump in pumps:
        pump.join()
    return code


def _pump(source: Any, target: TextIO) -> None:
    with source:
        for data in source:
            target.write(data.decode("utf-8", "replace"))
            target.flush()
