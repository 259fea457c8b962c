"""Ends with operations in flight, in the way that the argument says."""

import sys

import torch

import ronde.torch as hvd


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    handles = [hvd.allreduce_async_(torch.ones(100_000), name=f"flying.{i}") for i in range(20)]
    how = sys.argv[1]
    if how == "unmatched":
        handles.append(hvd.allreduce_async_(torch.ones(4), name=f"only on rank {hvd.rank()}"))
    if how == "kept":
        global keep  # the handles are destroyed after the exit handlers have run
        keep = handles
    print("ends", flush=True)
    if how == "exception":
        raise KeyError("the script's own error")


main()
