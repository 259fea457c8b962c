"""A rank of torch.distributed over the backend ronde, started in whatever way; it reduces in the job and a sub-group."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

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


def listening_ports() -> list[int]:
    """TCP ports at which this process listens."""
    own = {os.readlink(link) for link in Path("/proc/self/fd").iterdir() if os.path.lexists(link)}
    found = []
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, place, _, state, *_, inode = row.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in own:
                found.append(int(place.split(":")[1], 16))
    return found


def work_without_ports(rounds: int) -> None:
    """Under `ronde run`: again and again, and at last with another backend, which the ranks meet for in the same way."""
    for _ in range(rounds):
        dist.init_process_group("ronde")
        assert listening_ports() == []
        work()
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    assert isinstance(store, dist.FileStore), store
    work()


def spawned(rank: int, size: int, place: str) -> None:
    """What a process of mp.spawn runs."""
    import ronde.torch  # noqa: F401

    dist.init_process_group("ronde", init_method=place, rank=rank, world_size=size)
    work()
    print(f"rank {rank} done", flush=True)


def main() -> None:
    """As a rank that a launcher has started, or with --spawn as the parent of ranks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int)
    parser.add_argument("--port", type=int)
    parser.add_argument("--file", help="the ranks of --spawn meet there, not at a port")
    parser.add_argument("--without-ports", type=int, metavar="ROUNDS")
    arguments = parser.parse_args()
    if arguments.spawn:
        place = f"file://{arguments.file}" if arguments.file else f"tcp://127.0.0.1:{arguments.port}"
        mp.spawn(spawned, args=(arguments.spawn, place), nprocs=arguments.spawn)
        return
    import ronde.torch  # noqa: F401

    if arguments.without_ports:
        work_without_ports(arguments.without_ports)
        print(f"rank {os.environ['RANK']} done", flush=True)
        return
    for _ in range(6):  # again after destroy_process_group()
        dist.init_process_group("ronde")
        rank = dist.get_rank()
        work()
    print(f"rank {rank} done", flush=True)


if __name__ == "__main__":
    main()
