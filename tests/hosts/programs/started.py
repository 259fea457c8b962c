"""A job of ronde.numpy: says on one line who this rank is and what the ranks' sum is, and then how they reach each other."""

import os
import sys

import numpy as np

import ronde.numpy as rnp

rnp.init()
rank, size = rnp.rank(), rnp.size()
total = rnp.allreduce(np.arange(1000.0) + rank, rnp.Sum)
assert (total == np.arange(1000.0) * size + sum(range(size))).all()
print(f"{rank}/{size} local {rnp.local_rank()}/{rnp.local_size()} cross {rnp.cross_rank()}/{rnp.cross_size()} "
      f"on {os.uname().nodename}", flush=True)
if "again" in sys.argv:  # another job of the same process
    rnp.shutdown()
    rnp.init()
    assert rnp.allreduce(np.ones(1), rnp.Sum)[0] == size
rnp.barrier()
rnp.shutdown()
