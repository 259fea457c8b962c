"""torch.distributed over Ronde, and a group of every other rank. Says on one line who this rank is."""

import os

import torch
import torch.distributed as dist

import ronde.torch as hvd
import ronde.torch.distributed  # noqa: F401

dist.init_process_group("ronde")
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.full((1000,), float(rank))
dist.all_reduce(tensor)
assert (tensor == sum(range(size))).all()
every_other = dist.new_group(list(range(0, size, 2)))
if rank % 2 == 0:
    tensor = torch.ones(10)
    dist.all_reduce(tensor, group=every_other)
    assert (tensor == (size + 1) // 2).all()
places = f"local {hvd.local_rank()}/{hvd.local_size()} cross {hvd.cross_rank()}/{hvd.cross_size()}"
dist.barrier()
dist.destroy_process_group()
print(f"{rank}/{size} {places} on {os.uname().nodename}", flush=True)
