"""A mistake of one rank, between right calls: mistakes.py KIND. Each rank prints the error that its call ended with, then
"goes on", once the job has proved that it is still usable. KIND "exception": rank 1's program fails for a reason of its own, and
the others say when they heard of it, as steps.py does."""

import sys
import time

import numpy as np

import ronde.numpy as rnp
from ronde.exceptions import RondeError

kind = sys.argv[1]
rnp.init()
rank, size = rnp.rank(), rnp.size()
wrong = rank == 1


def reduce(name, values, op=rnp.Sum):
    return rnp.allreduce(values, op, name=name)


def mistake():
    if kind == "shape":
        reduce("gradient", np.zeros((3, 5) if wrong else (3, 4), np.float32))
    elif kind == "dtype":
        reduce("gradient", np.zeros(7, np.float64 if wrong else np.float32))
    elif kind == "op":
        reduce("gradient", np.zeros(7, np.float32), rnp.Max if wrong else rnp.Sum)
    elif kind == "root":
        rnp.broadcast(np.zeros(7, np.float32), 1 if wrong else 0, name="gradient")
    elif kind == "set":
        rnp.add_process_set([1, 2] if wrong else [0, 2])


for step in range(3):
    assert (reduce("steps", np.full(1000, rank + step, np.float32)) == sum(range(size)) + size * step).all()
print("ready", flush=True)
if kind == "exception":
    sys.stdin.readline()
    if wrong:
        print(f"raised at {time.monotonic():.2f}", flush=True)
        raise ValueError("a batch is damaged")
    try:
        while True:
            reduce("steps", np.ones(1000, np.float32))
    except RondeError as error:
        print(f"failed at {time.monotonic():.2f}: {type(error).__name__}: {error}", flush=True)
        sys.exit(3)
try:
    mistake()
    print("nothing was said", flush=True)
except RondeError as error:
    print(f"{type(error).__name__}: {error}".replace("\n", " | "), flush=True)
for step in range(3):
    assert (reduce("steps", np.full(1000, rank + step, np.float32)) == sum(range(size)) + size * step).all()
print("goes on", flush=True)
rnp.shutdown()
