"""A shell command that leaves nothing behind: not when it is told to end, not when this process is killed."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from horovod.runner.util.threads import in_thread, on_event

#: Between being asked to end and being killed.
GRACEFUL_TERMINATION_TIME_S = 5

_GUARD = str(Path(__file__).with_name("_shell_guard.py"))


def forward_stream(src_stream: Any, dst_stream: Any, prefix: str, index: Optional[int], timestamp_output: bool) -> None:
    """Writes what comes from a binary stream to a text stream until its end, line by line; with an ``index`` each line
    after ``[index]<prefix>:`` and, if asked for, the time."""

    def write(line: str) -> None:
        if index is not None:
            now = time.asctime() if timestamp_output else ""
            line = f"{now}[{index}]<{prefix}>:{line}"
        dst_stream.write(line)
        dst_stream.flush()

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    while True:
        data = os.read(src_stream.fileno(), 65536)
        rest += decoder.decode(data, final=not data)
        *lines, rest = rest.replace("\r", "\r\0").replace("\n", "\n\0").split("\0")
        for line in lines:
            write(line)
        if not data:
            break
    if rest:
        write(rest)
    src_stream.close()


def execute(
    command: str,
    env: Optional[Mapping[str, str]] = None,
    stdout: Any = None,
    stderr: Any = None,
    index: Optional[int] = None,
    events: Optional[Sequence[Any]] = None,
    timestamp_output: bool = False,
) -> int:
    """Runs a shell command until it ends and returns its exit code, 128 + N where signal N has ended it.

    Args:
        command: for ``sh``.
        env: its environment; None: this process's.
        stdout, stderr: text streams for what it prints; None: this process's.
        index: is put before each line, with the stream's name.
        events: of ``threading`` or ``multiprocessing``: when one is set the command and what it has started get SIGTERM,
            and SIGKILL after 5 s; so they do when this call is interrupted, or this process is killed.
        timestamp_output: the time comes before the index.
    """
    told, tell = os.pipe()
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", _GUARD, str(told), str(GRACEFUL_TERMINATION_TIME_S), command],
        env=None if env is None else dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[told],
        start_new_session=True,
    )
    os.close(told)
    streams = [
        in_thread(forward_stream, (guard.stdout, stdout or sys.stdout, "stdout", index, timestamp_output)),
        in_thread(forward_stream, (guard.stderr, stderr or sys.stderr, "stderr", index, timestamp_output)),
    ]
    lock, is_open, stop = threading.Lock(), [True], threading.Event()

    def end() -> None:
        with lock:
            if is_open[0]:
                is_open[0] = False
                os.close(tell)

    for event in events or []:
        on_event(event, end, stop=stop, check_stop_interval_s=0.1, silent=True)
    try:
        guard.wait()
    except BaseException:  # Ctrl-C
        end()
        guard.wait()
        raise
    finally:
        stop.set()
        end()
    for stream in streams:
        stream.join()
    return guard.returncode
