"""A rank of torch.distributed over the backend ronde, started in whatever way; it reduces in the job and a sub-group."""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work() -> None:
    """Requires: a default group of at least two ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    assert total.item() == size * (size - 1) / 2, total
    last_two = dist.new_group([size - 2, size - 1])
    if rank >= size - 2:
        pair = torch.ones(1)
        dist.all_reduce(pair, group=last_two)
        assert pair.item() == 2.0, pair
    dist.barrier()
    dist.destroy_process_group()


def spawned(rank: int, size: int, port: int) -> None:
    """What a process of mp.spawn runs."""
    import ronde.torch  # noqa: F401

    dist.init_process_group("ronde", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    work()
    print(f"rank {rank} done", flush=True)


def main() -> None:
    """As a rank that a launcher has started, or with --spawn as the parent of ranks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int)
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    if arguments.spawn:
        mp.spawn(spawned, args=(arguments.spawn, arguments.port), nprocs=arguments.spawn)
        return
    import ronde.torch  # noqa: F401

    for _ in range(6):  # again after destroy_process_group()
        dist.init_process_group("ronde")
        rank = dist.get_rank()
        work()
    print(f"rank {rank} done", flush=True)


if __name__ == "__main__":
    main()
