"""Two ranks fit a line with NumPy, each with its own data: what must work where nothing but Ronde's wheel is installed."""

import numpy as np

import ronde.numpy as rnp

rnp.init()
generator = np.random.default_rng(rnp.rank())
slope = np.zeros(3)
for step in range(200):
    points = generator.normal(size=(64, 3))
    error = points @ (slope - [1.0, -2.0, 3.0])
    slope -= 0.1 * rnp.allreduce(2.0 * points.T @ error / len(points), op=rnp.Average, name="slope")
everybody = rnp.allgather(slope.reshape(1, 3), name="everybody")
assert (everybody == slope).all(), "all ranks have the same bits"
assert np.abs(slope - [1.0, -2.0, 3.0]).max() < 1e-6, slope
print(f"rank {rnp.rank()} of {rnp.size()} has fitted the line")
