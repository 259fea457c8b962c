"""A zygote as the session of tests sees it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional, Sequence

_HERE = Path(__file__).resolve().parent

#: The program that stands in for what is forked: STAND_IN ADDRESS TASK...
STAND_IN = str(_HERE / "rank_stand_in.py")

#: How long a zygote may take to end, in seconds.
_END_LIMIT_S = 20.0


class ZygoteProcess:
    """Runs rank_zygote.py or program_zygote.py in a process, which takes requests of stand-ins at `address`."""

    def __init__(self, script: str, arguments: Sequence[str] = (), folder: Optional[Path] = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ronde-zygote-"))
        self.address = str(self._folder / "socket")
        with socket.socket(socket.AF_UNIX) as listener, open(self._folder / "log", "wb") as log:
            listener.bind(self.address)
            listener.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, str(_HERE / script), str(listener.fileno()), *arguments],
                cwd=folder,
                stdin=subprocess.PIPE,  # which ends it when it is closed, also by this process's death
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def say(self) -> str:
        """What it printed, if anything, for a failure's text."""
        text = (self._folder / "log").read_text(errors="replace")
        return f"\nThe process that they are forked from printed:\n{text}" if text else ""

    def quit(self) -> None:
        """Ends it, and whatever was forked from it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
