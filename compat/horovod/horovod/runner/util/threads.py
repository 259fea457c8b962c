"""Functions on threads of their own."""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Dict, Optional, Sequence


def in_thread(
    target: Callable[..., Any],
    args: Sequence[Any] = (),
    name: Optional[str] = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Runs ``target(*args)`` on a new thread, which is returned. ``silent``: what it raises is not shown. ValueError if
    ``args`` is no tuple or list."""
    if not isinstance(args, (tuple, list)):
        raise ValueError(f"args must be a tuple or list, not {type(args).__name__}: for one argument give (argument,)")

    def run() -> None:
        try:
            target(*args)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: Any,
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    stop: Any = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Runs ``func(*args)`` on a thread of its own once ``event`` is set; never, if ``stop`` is set before, which is looked
    at so often. Both are events, of ``threading`` or ``multiprocessing``. ValueError without an event."""
    if event is None:
        raise ValueError("on_event needs an event")

    def run() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(run, daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[Sequence[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> Optional[Dict[int, Any]]:
    """Runs ``fn(*args)`` for each of ``args_list`` on so many threads at most, and returns the results by their number; at
    once, with None, unless it is to block. The first call that raises has its exception raised here."""
    todo: "queue.SimpleQueue[int]" = queue.SimpleQueue()
    for number in range(len(args_list)):
        todo.put(number)
    results: Dict[int, Any] = {}
    errors: Dict[int, Exception] = {}

    def work() -> None:
        try:
            while True:
                number = todo.get_nowait()
                try:
                    results[number] = fn(*args_list[number])
                except Exception as error:
                    errors[number] = error
        except queue.Empty:
            pass

    threads = [in_thread(work) for _ in range(min(len(args_list), max_concurrent_executions))]
    if not block_until_all_done:
        return None
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return dict(sorted(results.items()))
