"""The backend ``"ronde"`` of ``torch.distributed``, there as soon as ``ronde.torch`` is imported.

    import ronde.torch
    import torch.distributed as dist

    dist.init_process_group("ronde")     # under `ronde run`, `torchrun` or torch.multiprocessing.spawn
    model = torch.nn.parallel.DistributedDataParallel(model)

For tensors in host memory; those on a GPU pass through it (docs/gpus.md).
Under `ronde run` PyTorch's ranks, of any backend, then meet in a file and not at a port. What PyTorch does with it is in docs/from-ddp.md.
"""

from __future__ import annotations

import logging

import torch.distributed as _dist

__all__ = ["register"]


def register() -> None:
    """Makes the name "ronde" known to ``torch.distributed``, as importing ``ronde.torch`` does. Again, or where PyTorch
    has none of it: does nothing. Raises nothing."""
    if not _dist.is_available() or "RONDE" in _dist.Backend._plugins:
        return
    from ronde.torch.distributed._creation import create
    from ronde.torch.distributed._rendezvous import replace_env

    replace_env()
    _dist.Backend.register_backend("ronde", create, extended_api=True, devices=["cpu"])
    extensions = (
        (_share_buckets, "its buckets are copied"),
        (_order_joins, "its join() hangs"),
        (_follow_futures, "calls behind futures are paired by their order alone, though ranks may differ in it"),
        (_take_part, "what it does for its own backends only it does not do for Ronde's"),
    )
    for extend, what in extensions:
        try:
            extend()
        except (ImportError, AttributeError, TypeError) as error:  # a PyTorch that has these things elsewhere
            logging.getLogger("ronde").debug("Ronde: this PyTorch's DDP is not known, so %s: %s", what, error)


def _share_buckets() -> None:
    from ronde.torch.distributed._ddp_buckets import replace_reducer
    from ronde.torch.distributed._left_futures import look_at_waits

    replace_reducer()
    look_at_waits()


def _follow_futures() -> None:
    from ronde.torch.distributed._behind import follow_futures

    follow_futures()


def _take_part() -> None:
    from ronde.torch.distributed._own_ways import take_part

    take_part()


def _order_joins() -> None:
    from ronde.torch.distributed._join import prepare as prepare_joins

    prepare_joins()
