"""mpi4py and Ronde reduce in turns in one process: beside_mpi4py.py mpi4py|ronde, which of them begins first.

That one also ends last: where Ronde is first, the process's exit ends both.
"""

import sys

import numpy as np

import ronde.numpy as rnp

FIRST = sys.argv[1]
if FIRST == "ronde":
    rnp.init()
from mpi4py import MPI  # noqa: E402  (it begins MPI, unless that has begun)

if FIRST == "mpi4py":
    rnp.init()
comm = MPI.COMM_WORLD
rank, size = rnp.rank(), rnp.size()
assert (rank, size) == (comm.Get_rank(), comm.Get_size()), (rank, size, comm.Get_rank(), comm.Get_size())

for step in range(50):  # from the second on Ronde replays
    for count in (1, 1000, 100_000):
        mine = np.arange(count) % 7 + rank + step
        everyones = size * (np.arange(count) % 7 + step) + size * (size - 1) // 2
        theirs = np.empty_like(mine)
        comm.Allreduce(mine, theirs)
        assert (theirs == everyones).all(), (step, count, theirs[:5])
        got = rnp.allreduce(mine.astype(np.float64), rnp.Sum, name=f"in turn {count}")
        assert (got == everyones).all(), (step, count, got[:5])
        request = comm.Iallreduce(mine, theirs)  # under way while Ronde's is
        got = rnp.allreduce(mine, rnp.Sum, name=f"meanwhile {count}")
        request.Wait()
        assert (got == everyones).all() and (theirs == everyones).all(), (step, count, got[:5], theirs[:5])
print("both are right", flush=True)
if FIRST == "mpi4py":
    rnp.shutdown()
    assert comm.allreduce(1) == size  # MPI is still there
