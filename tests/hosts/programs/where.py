"""A job of ronde.numpy: says on one line who this rank is, by what its data moves, how many ranks' memory it has mapped,
and what its container has."""

import os
import re
import sys
from pathlib import Path

import numpy as np

import ronde.numpy as rnp
from ronde import _process

rnp.init()
rank, size = rnp.rank(), rnp.size()
for count in (10, 100_000, 2_000_000):  # the last needs more than a small /dev/shm has
    total = rnp.allreduce(np.arange(float(count)) + rank, rnp.Sum, name=f"of {count}")
    assert (total == np.arange(float(count)) * size + sum(range(size))).all()
shared = rnp.empty_shared(2_000_000, np.float32)
shared[:] = rank
rnp.allreduce_(shared, rnp.Sum, name="shared")
assert (shared == sum(range(size))).all()
memories = set(re.findall(r" (\d+) +/memfd:ronde ", Path("/proc/self/maps").read_text()))  # by inode
room = os.statvfs("/dev/shm")
line = f"{rank}/{size} local {rnp.local_rank()}/{rnp.local_size()} by {_process.backend()[0]} memories {len(memories)} "
sys.stdout.write(line + f"on {os.uname().nodename} pid {os.getpid()} shm {room.f_blocks * room.f_frsize}\n")
sys.stdout.flush()
rnp.barrier()
rnp.shutdown()
