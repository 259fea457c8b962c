"""What a program that asks for MPI by Horovod's names is told, before init and in a job."""

import os

from horovod.common.basics import HorovodBasics

hvd = HorovodBasics("", "")
by_mpi = os.environ.get("RONDE_BACKEND") == "mpi"
assert hvd.mpi_enabled() is by_mpi and hvd.gloo_enabled() is not by_mpi
hvd.init()
os.environ["RONDE_BACKEND"] = "own"  # what counts is how the job goes

words = [
    "built" if hvd.mpi_built() else "not-built",
    "enabled" if hvd.mpi_enabled() else "without-mpi",
    "gloo" if hvd.gloo_enabled() else "without-gloo",
    "threads" if hvd.mpi_threads_supported() else "no-threads",
]
os.write(1, f"{' '.join(words)}\n".encode())  # at once: Open MPI marks each piece that it reads
hvd.shutdown()
