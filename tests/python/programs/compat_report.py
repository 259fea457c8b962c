"""A script for Horovod that says who it is and what it was told."""

import sys

import horovod.torch as hvd
import torch

hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum, name="total").item()
print(f"rank {hvd.rank()} of {hvd.size()} total {total:g} words {' '.join(sys.argv[1:])}")
print("to stderr", file=sys.stderr)
