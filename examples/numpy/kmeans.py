"""k-means of points that are spread over the ranks: each step is one grouped all-reduce of sums and counts.

    ronde run -n 2 -- python examples/numpy/kmeans.py

The points are made, the same whatever the number of ranks, and each rank holds every size-th of them. So one rank and many find
the same centres, but for the rounding of their sums.
"""

from __future__ import annotations

import argparse

import numpy as np

import ronde.numpy as rnp


def make_points(count: int, dimensions: int, clusters: int, seed: int) -> np.ndarray:
    """Points around some centres, in no order."""
    generator = np.random.default_rng(seed)
    centres = generator.uniform(-10.0, 10.0, (clusters, dimensions))
    return centres[generator.integers(0, clusters, count)] + generator.normal(0.0, 1.0, (count, dimensions))


def nearest(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each point the index of the nearest centre, and the squared distance from it."""
    squared = (points**2).sum(1)[:, None] - 2.0 * points @ centres.T + (centres**2).sum(1)
    index = squared.argmin(1)
    return index, np.maximum(squared[np.arange(len(points)), index], 0.0)


def step(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, float]:
    """The means of all ranks' points, by nearest centre, and the sum of all squared distances. A centre that no point is
    nearest to stays where it is."""
    index, squared = nearest(points, centres)
    counts = np.bincount(index, minlength=len(centres)).astype(np.float64)
    sums = np.zeros_like(centres)
    np.add.at(sums, index, points)
    inertia = np.array(squared.sum())
    rnp.grouped_allreduce_([sums, counts, inertia], op=rnp.Sum, name="kmeans")
    moved = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1.0)[:, None], centres)
    return moved, float(inertia)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20000, help="of all ranks together (default 20000)")
    parser.add_argument("--dimensions", type=int, default=4)
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20, help="at most (default 20)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    rnp.init()
    everything = make_points(arguments.points, arguments.dimensions, arguments.clusters, arguments.seed)
    points = everything[rnp.rank() :: rnp.size()]
    # Rank 0 chooses where to begin; the others take its choice.
    centres = rnp.broadcast(everything[: arguments.clusters], root_rank=0)
    for number in range(arguments.steps):
        moved, inertia = step(points, centres)
        distance = float(np.abs(moved - centres).max())
        centres = moved
        if rnp.rank() == 0:
            print(f"step {number}: inertia {inertia:.6f}, moved {distance:.6f}", flush=True)
        if distance < 1e-9:
            break
    index, _ = nearest(points, centres)
    sizes = rnp.reduce(np.bincount(index, minlength=len(centres)), root_rank=0, op=rnp.Sum)
    if rnp.rank() == 0:
        print(f"{rnp.size()} ranks; points by cluster: {sorted(sizes.tolist())}")


if __name__ == "__main__":
    main()
