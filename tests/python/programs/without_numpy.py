"""PyTorch works without NumPy, and so does what sends objects."""

import sys

sys.modules["numpy"] = None  # type: ignore[assignment]

import ronde.torch as hvd
import torch

hvd.init()
rank = hvd.rank()
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
model(torch.ones(1, 3)).sum().backward()
optimizer.step()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
told = hvd.broadcast_object({"from": rank}, root_rank=1)
all_of_them = hvd.allgather_object("x" * rank)
try:
    torch.ones(1).numpy()
    print("NumPy is there")
except RuntimeError:
    print(f"rank {rank}: {optimizer.param_groups[0]['lr']} {told} {all_of_them}")
