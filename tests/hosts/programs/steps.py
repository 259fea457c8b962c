"""Says "ready", and then all-reduces until something ends that: steps.py ELEMENTS [STEPS [PAUSE_S [broadcast | told]]], where
"broadcast" has the last rank broadcast instead, so that the others only receive, and "told" has every rank wait for a line on
its standard input before the first step. After every step "step N".
When a call fails, "failed at T:", by the monotonic clock, which all hosts of a bed share, and the error's kind and text; the
process then lives on until its standard input ends, with code 3, as others' do that clean up."""

import sys
import time

import numpy as np

import ronde.numpy as rnp
from ronde.exceptions import RondeError

count = int(sys.argv[1])
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10**9
pause_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
broadcasts = sys.argv[4:] == ["broadcast"]
try:
    rnp.init()
    rank, size = rnp.rank(), rnp.size()
    print("ready", flush=True)
    if sys.argv[4:] == ["told"]:
        sys.stdin.readline()
    for step in range(steps):
        if pause_s:
            time.sleep(pause_s)
        values = np.full(count, float(rank + step), np.float32)
        if broadcasts:
            rnp.broadcast_(values, size - 1, name="steps")
            expected = size - 1 + step
        else:
            rnp.allreduce_(values, rnp.Sum, name="steps")
            expected = sum(range(size)) + step * size
        assert (values == expected).all(), ("wrong values", step, values[:5])
        print(f"step {step}", flush=True)
    print("right", flush=True)
    rnp.shutdown()
except RondeError as error:
    print(f"failed at {time.monotonic():.2f}: {type(error).__name__}: {error}", flush=True)
    sys.stdin.read()
    sys.exit(3)
