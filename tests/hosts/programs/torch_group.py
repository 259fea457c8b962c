"""torch.distributed over Ronde, and a group of every other rank."""

import torch
import torch.distributed as dist

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
dist.barrier()
dist.destroy_process_group()
print(f"right {rank}", flush=True)
