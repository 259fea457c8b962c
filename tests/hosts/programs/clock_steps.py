"""All-reduces before and after a line on standard input; between, somebody changes this host's wall clock."""

import sys
import time

import numpy as np

import ronde.numpy as rnp

rnp.init()
rank, size = rnp.rank(), rnp.size()


def reduce(step):
    values = np.full(1000, float(rank + step), np.float32)
    rnp.allreduce_(values, rnp.Sum, name="steps")
    assert (values == sum(range(size)) + step * size).all(), (step, values[:5])


for step in range(50):
    reduce(step)
print(f"begins at {time.time():.2f}", flush=True)
sys.stdin.readline()
for step in range(200):
    reduce(step)
print(f"ends at {time.time():.2f}", flush=True)
rnp.shutdown()
