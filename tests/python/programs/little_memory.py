"""Trains where ranks may share less memory than the gradients take: files, also those in memory, are limited."""

import resource

import torch

import ronde.torch as hvd
from ronde import _shared_buffer


def main() -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 2**20,) * 2)
    hvd.init()
    parameters = [torch.nn.Parameter(torch.ones(count)) for count in (1000, 20_000_000, 10)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1))
    for _ in range(2):
        optimizer.zero_grad()
        sum((parameter * (hvd.rank() + 1.0)).sum() for parameter in parameters).backward()
        optimizer.step()
    assert all(bool((parameter.grad == 1.5).all()) for parameter in parameters)
    print("shared:", [_shared_buffer.holds(parameter.grad.data_ptr()) for parameter in parameters], flush=True)
    assert not _shared_buffer.holds(hvd.empty_shared(20_000_000).data_ptr())


main()
