"""A rank that times all-reduces: timed_allreduce.py CALLS BYTES...; rank 0 writes a line of JSON for each size, with the
time of each call in microseconds. All hosts have the same clock, for they are namespaces of one machine: a call lasts from the
last rank's begin to the last one's end."""

import json
import sys
import time

import numpy as np

import ronde.numpy as rnp

#: After so many equal calls they are replayed, without messages of agreement.
WARM_UP = 4

calls = int(sys.argv[1])
rnp.init()
for size in map(int, sys.argv[2:]):
    values = np.ones(size // 4, np.float32)
    spans = np.zeros((calls, 2), np.float64)
    for call in range(-WARM_UP, calls):
        rnp.barrier()
        begin = time.monotonic()
        rnp.allreduce_(values, rnp.Average, name=f"values of {size} bytes")
        spans[call] = begin, time.monotonic()  # those of the warm-up are written over
    of_all = rnp.allgather(spans[None], name=f"spans of {size} bytes")
    if rnp.rank() == 0:
        times = of_all[:, :, 1].max(axis=0) - of_all[:, :, 0].max(axis=0)
        print(json.dumps({"bytes": size, "us": [round(each * 1e6, 1) for each in times]}), flush=True)
rnp.shutdown()
