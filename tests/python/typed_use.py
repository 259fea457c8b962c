"""A user's program as a type checker sees it: never run, checked by mypy (tools/lint)."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import horovod
import horovod.torch as horovod_torch
import ronde.torch as hvd
import torch
from ronde.exceptions import CollectiveError
from typing_extensions import assert_type

hvd.init(process_sets=[hvd.ProcessSet([0, 1])])
assert_type(hvd.rank(), int)
assert_type(hvd.is_initialized(), bool)

tensor = torch.ones(3)
assert_type(hvd.allreduce(tensor, op=hvd.Sum, compression=hvd.Compression.fp16), torch.Tensor)
assert_type(hvd.grouped_allreduce([tensor]), List[torch.Tensor])
assert_type(hvd.broadcast_(tensor, root_rank=0), torch.Tensor)
assert_type(hvd.gather(tensor, 0), Optional[torch.Tensor])
assert_type(hvd.alltoall(tensor), torch.Tensor)
assert_type(hvd.alltoall(tensor, splits=[1, 2]), Tuple[torch.Tensor, torch.Tensor])
assert_type(hvd.recv(tensor, src=1), int)
assert_type(hvd.allgather_object({"a": 1}), List[Any])
assert_type(hvd.sparse_allreduce_async(tensor.to_sparse())(), torch.Tensor)

# A handle knows what synchronize() returns.
handle: hvd.Handle[torch.Tensor] = hvd.allreduce_async(tensor, name="a")
assert_type(hvd.poll(handle), bool)
assert_type(hvd.synchronize(handle), torch.Tensor)
assert_type(hvd.synchronize(hvd.grouped_allgather_async([tensor])), List[torch.Tensor])
assert_type(hvd.synchronize(hvd.alltoall_async(tensor, [1, 2])), Tuple[torch.Tensor, torch.Tensor])
hvd.synchronize(tensor)  # type: ignore[arg-type] # no handle

hvd.allreduce(tensor, root_rank=0)  # type: ignore[call-arg] # there is no such argument
hvd.broadcast(tensor, root_rank="0")  # type: ignore[arg-type] # a rank is a number
hvd.DistributedOptimizer(tensor)  # type: ignore[arg-type] # a tensor is no optimizer
hvd.no_such_name()  # type: ignore[attr-defined] # nor is there such a function

model = torch.nn.Linear(3, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
optimizer.synchronize()
with optimizer.skip_synchronize():
    optimizer.step()

state = hvd.elastic.TorchState(model, optimizer, sampler=hvd.elastic.ElasticSampler([1, 2, 3]), epoch=0)


@hvd.elastic.run
def train(state: hvd.elastic.TorchState, epochs: int) -> float:
    return 0.5


assert_type(train(state, 3), float)

try:
    hvd.shutdown()
except CollectiveError as error:
    assert_type((error.code, error.rank, error.tensor), Tuple[int, int, str])

# Horovod's names are the same functions.
assert_type(horovod_torch.allreduce(tensor), torch.Tensor)
horovod_torch.broadcast(tensor, root_rank="0")  # type: ignore[arg-type] # a rank is a number
horovod.run(print, num_proc="2")  # type: ignore[arg-type] # a number too
