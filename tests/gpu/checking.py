"""What the programs of this folder share: the device, and checks that leave ranks in step whatever they find."""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import Any, Callable, List

import torch

#: Where tensors lie; ``cpu`` tries the programs themselves.
DEVICE = torch.device(os.environ.get("RONDE_TEST_DEVICE", "cuda"))
IS_GPU = DEVICE.type == "cuda"

_failures: List[str] = []
_checked = 0


def set_up() -> None:
    """All ranks share the first GPU, with the same arithmetic in each run."""
    if IS_GPU:
        torch.cuda.set_device(0)
        torch.backends.cudnn.deterministic = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    else:
        torch.set_num_threads(1)


def keep_busy() -> None:
    """The current stream has work for tens of milliseconds."""
    if IS_GPU:
        torch.cuda._sleep(50_000_000)


def stream() -> Any:
    """A context: another stream than the current one, where there are streams."""
    return torch.cuda.stream(torch.cuda.Stream()) if IS_GPU else torch.no_grad()


def expect(holds: bool, what: str) -> None:
    """Notes what does not hold, and goes on: the other ranks do so too."""
    global _checked
    _checked += 1
    if not holds:
        _failures.append(what)


def equal(made: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Both have the same shape, type and values, and what was made is on the device. The values are read on the host."""
    expect(made.device.type == DEVICE.type, f"{what}: on {made.device}")
    made, expected = made.detach().cpu(), expected.detach().cpu()
    is_equal = made.shape == expected.shape and made.dtype == expected.dtype and torch.equal(made, expected)
    text = "" if is_equal else f"{what}: {made.flatten()[:6].tolist()}, not {expected.flatten()[:6].tolist()}"
    expect(is_equal, f"{text}; {tuple(made.shape)} {made.dtype}")


def run(checks: List[Callable[[], Any]], rank: int) -> None:
    """Runs all, and ends the process: with 1 if anything was not as expected. Rank 0 tells how long each took."""
    for check in checks:
        began = time.monotonic()
        before = len(_failures)
        try:
            check()
        except Exception:
            _failures.append(traceback.format_exc())
        if rank == 0:
            verdict = "" if before == len(_failures) else "FAILED"
            print(f"{check.__name__:48} {time.monotonic() - began:6.2f} s {verdict}", flush=True)
        for failure in _failures[before : before + 5]:
            print(f"rank {rank}: {check.__name__}: {failure}", flush=True)
    print(f"rank {rank}: {_checked} checked, {len(_failures)} failed", flush=True)
    sys.stdout.flush()
    if _failures:
        sys.exit(1)
