"""Steps that repeat, so that they are replayed: calls of several types that overlap, and others in their place later."""

import os
import sys

import numpy as np

import ronde.numpy as rnp

rnp.init()
rank, size = rnp.rank(), rnp.size()
print(f"pid {os.getpid()}", flush=True)
TYPES = (np.float32, np.float64, np.int64, np.float16)


def step(number, count):
    mine = [np.full(elements, (rank + 1) * (number % 7 + 1)).astype(dtype) for dtype in TYPES for elements in (1, 33, count)]
    ops = [(rnp.Sum, rnp.Max, rnp.Min)[place % 3] for place in range(len(mine))]
    handles = [rnp.allreduce_async(each, op, name=f"{place} {count}") for place, (each, op) in enumerate(zip(mine, ops))]
    average = rnp.allreduce_async(np.full(count, float(rank + number)), rnp.Average, name=f"average {count}",
                                  prescale_factor=2.0, postscale_factor=0.25)
    factors = {rnp.Sum: sum(range(1, size + 1)), rnp.Max: size, rnp.Min: 1}
    for handle, op, each in zip(handles, ops, mine):
        got = rnp.synchronize(handle)
        assert got.dtype == each.dtype and (got == factors[op] * (number % 7 + 1)).all(), (number, op, got[:3])
    got = rnp.synchronize(average)
    assert np.allclose(got, (number + (size - 1) / 2) / 2), (number, got[:3])


if "for ever" in sys.argv:
    number = 0
    while True:
        step(number, 1000)
        number += 1
for number in range(300):
    step(number, 1000)
for number in range(100):  # another pattern, and large ones
    step(number, 50_000)
    if number % 10 == 0:
        assert (rnp.broadcast(np.full(5, rank), 1, name="between") == 1).all()
for number in range(100):
    step(number, 1000)
rnp.barrier()
print("steps are right", flush=True)
rnp.shutdown()
