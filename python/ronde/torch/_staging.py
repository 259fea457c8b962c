"""Tensors of accelerators on their way through host memory, since the engine reaches no other.

What goes to the engine waits for the kernels that the current stream of the tensor's device has at that moment, and what
comes back is a kernel of the then current stream. With CUDA the host memory is pinned, so that the copies are the
hardware's own; PyTorch keeps such memory for the next ones (``torch.cuda.host_memory_stats`` tells how much).
"""

from __future__ import annotations

import logging
from typing import Iterable, List, Sequence, Set, Tuple

import torch

from ronde.exceptions import UnsupportedError
from ronde.torch import _pinned
from ronde.torch._tensors import fill

__all__ = ["bring", "host_memory_for", "staged", "staged_together", "wait_for_kernels"]

_log = logging.getLogger("ronde")

#: Types of devices whose tensors were copied already.
_told: Set[str] = set()

#: Whether pinned memory was refused once: then all that follows is ordinary.
_is_refused = False


def staged(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a contiguous copy of it in host memory; outside autograd. The copy of another device's
    tensor waits for the work that the device's current stream has at this moment. UnsupportedError (a
    NotImplementedError) while a CUDA graph is captured."""
    if tensor.is_cpu:
        return _plain(tensor)
    return staged_together([tensor])[0]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def staged_together(tensors: Sequence[torch.Tensor], is_reduced: bool = False) -> List[torch.Tensor]:
    """:func:`staged` of several, with one wait for all that come from a device. ``is_reduced``: the copies are to be reduced
    in place, and the results go back by :func:`bring`."""
    made: List[torch.Tensor] = []
    devices: Set[torch.device] = set()
    for tensor in tensors:
        if tensor.is_cpu:
            made.append(_plain(tensor))
            continue
        _tell(tensor.device)
        there = tensor.detach()
        if not there.is_cuda:
            made.append(_plain(there.cpu()))  # it blocks: from a stream it returns when the values have come
            continue
        if torch.cuda.is_current_stream_capturing():
            raise UnsupportedError(
                "Ronde's operations cannot be captured in a CUDA graph, since tensors pass through host memory: call "
                "them between the graph's replays",
                3,
            )
        here = (_pinned.borrow(there) if is_reduced else None) if there.numel() > 0 else None
        if here is None:
            here = host_memory_for(there)
        here.copy_(_plain(there), non_blocking=True)  # to memory that is not pinned it blocks
        made.append(here)
        devices.add(there.device)
    for device in devices:
        torch.cuda.current_stream(device).synchronize()
    return made


def bring(copies: Iterable[Tuple[torch.Tensor, torch.Tensor]], waits: bool) -> None:
    """Copies ``(target, values in host memory)``, as :func:`ronde.torch._tensors.fill` does. Without ``waits`` what lies on a GPU
    has its values when the current stream has come so far, as after a kernel: for results that the calling thread's own
    call returns."""
    devices: Set[torch.device] = set()
    lent: List[Tuple[torch.device, torch.Tensor]] = []
    for target, values in copies:
        fill(target, values, non_blocking=target.is_cuda)
        if target.is_cuda:
            devices.add(target.device)
            if _pinned.is_lent(values):
                lent.append((target.device, values))
    if waits:
        for device in devices:
            torch.cuda.current_stream(device).synchronize()
    for device in {device for device, _ in lent}:
        event = None if waits else torch.cuda.current_stream(device).record_event()
        for at, values in lent:
            if at == device:
                _pinned.has_brought(values, event)


def host_memory_for(tensor: torch.Tensor) -> torch.Tensor:
    """Where the engine may write what is to go into this new, contiguous tensor: itself, unless it is on another
    device."""
    if tensor.is_cpu:
        return tensor
    global _is_refused
    if tensor.is_cuda and not _is_refused and tensor.numel() > 0:
        try:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        except RuntimeError as error:  # a limit of locked memory, say
            _is_refused = True
            _log.warning("Ronde: tensors are copied through memory that is not pinned, which is slower: %s", error)
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")


def wait_for_kernels(targets: Iterable[torch.Tensor]) -> None:
    """Until the current streams of the targets' devices are done with what they have at this moment: a result may be brought
    by another thread, whose stream knows nothing of these."""
    for device in {target.device for target in targets if target.is_cuda}:
        torch.cuda.current_stream(device).synchronize()


def _tell(device: torch.device) -> None:
    if device.type not in _told:
        _told.add(device.type)
        _log.warning("Ronde: tensors on device %s are copied through host memory, which is slower", device)
