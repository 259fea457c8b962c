"""Which threads are seen to wait, for another thread or by asking again and again: of that depends when what a backward pass has
left runs."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict

import pytest

torch = pytest.importorskip("torch")

from ronde.torch.distributed import _left_futures  # noqa: E402
from ronde.torch.distributed._blocked_threads import LOOKS, BlockedThreads  # noqa: E402

is_over = threading.Event()

WAITS = "def wait(is_over):\n    is_over.wait(20)\n"


def of_module(name: str) -> Callable[[], None]:
    """A function of a module with that name, which waits for the event."""
    module: Dict[str, Any] = {"__name__": name}
    exec(WAITS, module)
    return lambda: module["wait"](is_over)


def waits_for_a_result() -> None:
    with ThreadPoolExecutor(1) as other:
        other.submit(is_over.wait, 20).result()


def computes() -> None:
    while not is_over.is_set():
        sum(range(100_000))


def sleeps() -> None:
    while not is_over.is_set():
        time.sleep(5)


@pytest.mark.parametrize("does, is_blocked", [
    (of_module("program"), True),
    (waits_for_a_result, True),
    (of_module("ronde.torch.distributed._work"), False),  # for another rank
    (of_module("rondeau"), True),
    (computes, False),
    (sleeps, False),
])
def test_a_thread_is_blocked_if_it_waits_for_another(does, is_blocked):
    is_over.clear()
    begun = threading.Event()
    thread = threading.Thread(target=lambda: (begun.set(), does()), daemon=True)
    thread.start()
    assert begun.wait(20)
    blocked = BlockedThreads()
    found = []
    for _ in range(3 * LOOKS):
        time.sleep(0.005)
        found.append(blocked.look(thread.ident, thread.native_id))
    is_over.set()
    if does is not sleeps:
        thread.join(20)
    assert found[-1] == is_blocked and not any(found[: LOOKS - 1])


def test_a_thread_waits_by_asking_the_same_often_or_for_a_while(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_left_futures.time, "monotonic", lambda: now[0])
    one, other, third = object(), object(), object()
    assert [_left_futures._waits_for(one) for _ in range(100)] == [False] * 99 + [True]
    assert not _left_futures._waits_for(other) and not _left_futures._waits_for(third)
    now[0] += 1.01
    assert not _left_futures._waits_for(other), "twice in a while may be another bucket's hook"
    assert _left_futures._waits_for(other)
    _left_futures._left.asked.clear()  # as who leaves something does
    assert not _left_futures._waits_for(other) and not _left_futures._waits_for(one)
