"""All-reduces on a host that gives little shared memory: little_memory.py BYTES. A rank whose variable LITTLE is 1 can make no
file, and so no memory to share, of more than BYTES."""

import os
import resource
import sys

import numpy as np

import ronde.numpy as rnp
from ronde.exceptions import RondeError

if os.environ.get("LITTLE") == "1":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
try:
    rnp.init()
    rank, size = rnp.rank(), rnp.size()
    for step in range(3):
        for count in (10, 100_000, 500_000):
            values = np.full(count, float(rank + step), np.float32)
            rnp.allreduce_(values, rnp.Sum, name=f"of {count}")
            assert (values == sum(range(size)) + step * size).all(), (step, count)
    shared = rnp.empty_shared(500_000, np.float32)
    shared[:] = rank
    rnp.allreduce_(shared, rnp.Sum, name="shared")
    assert (shared == sum(range(size))).all()
    print("right", flush=True)
    rnp.shutdown()
except RondeError as error:
    print(f"failed: {type(error).__name__}: {error}", flush=True)
    sys.exit(3)
