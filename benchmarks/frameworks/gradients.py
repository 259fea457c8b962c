"""What averaging the gradients of ResNet-50 costs by PyTorch, TensorFlow and JAX, in turns on ranks that keep step.

Rank 0 prints.

    ronde run -n 2 -- python benchmarks/frameworks/gradients.py [--turns 40]

The list is that of `ronde bench --gradients resnet50`: 161 tensors, 25,557,032 numbers, here of float32 and private. PyTorch
averages them in place by `grouped_allreduce_`. TensorFlow's and JAX's are averaged inside of a compiled function that makes them
first, as a backward pass does; beside it runs the same function with a process set of this rank alone, which has the same memory
and the same calls, but nobody to wait for: the difference is the average's. In JAX the list is also averaged alone, donated.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any, Callable, Dict, List, Tuple

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
import torch

import horovod.torch as hvd
import ronde.jax as rj
import ronde.numpy as rnp
import ronde.tensorflow as rt


def shapes() -> List[Tuple[int, ...]]:
    """ResNet-50's parameters, in the order in which a backward pass has their gradients."""
    made: List[Tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    channels = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            made += [(width, channels, 1, 1), (width,), (width,), (width, width, 3, 3), (width,), (width,)]
            made += [(4 * width, width, 1, 1), (4 * width,), (4 * width,)]
            if block == 0:
                made += [(4 * width, channels, 1, 1), (4 * width,), (4 * width,)]
            channels = 4 * width
    made += [(1000, 2048), (1000,)]
    return made[::-1]


Turn = Callable[[], object]


def of_torch() -> Dict[str, Turn]:
    torch.set_num_threads(1)
    tensors = [torch.ones(shape) for shape in shapes()]
    return {"PyTorch, grouped_allreduce_": lambda: hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="torch")}


def of_tensorflow(alone: Any) -> Dict[str, Turn]:
    variables = [tf.Variable(tf.ones(shape)) for shape in shapes()]
    factor = tf.constant(0.5)

    def function(ranks: Any, name: str) -> Turn:
        def averaged(factor: Any) -> Any:
            gradients = [variable * factor for variable in variables]
            averages = rt.grouped_allreduce(gradients, op=rt.Sum, name=name, process_set=ranks)
            return tf.add_n([tf.reshape(average, [-1])[0] for average in averages])

        compiled = tf.function(averaged)
        return lambda: compiled(factor)

    return {
        "TensorFlow, tf.function": function(rt.global_process_set, "all"),
        "TensorFlow, tf.function, one rank": function(alone, "alone"),
    }


def of_jax(alone: Any) -> Dict[str, Turn]:
    def function(ranks: Any) -> Turn:
        def step(parameters: List[jax.Array], factor: jax.Array) -> List[jax.Array]:
            averages = rj.grouped_allreduce([each * factor for each in parameters], op=rj.Sum, process_set=ranks)
            return [each - 0.01 * average for each, average in zip(parameters, averages)]

        return kept(jax.jit(step, donate_argnums=0))

    def kept(compiled: Callable[[List[jax.Array], jax.Array], List[jax.Array]]) -> Turn:
        state = [[jnp.ones(shape) for shape in shapes()]]
        factor = jnp.float32(0.5)

        def turn() -> None:
            state[0] = jax.block_until_ready(compiled(state[0], factor))

        return turn

    return {
        "JAX, jit": function(rj.global_process_set),
        "JAX, jit, one rank": function(alone),
        "JAX, jit, donated": kept(jax.jit(lambda arrays, _: rj.grouped_allreduce(arrays, op=rj.Sum), donate_argnums=0)),
    }


def medians(ways: Dict[str, Turn], turns: int) -> Dict[str, float]:
    """Of each way the median over the turns of the slowest rank's time, in milliseconds."""
    for way in ways.values():
        for _ in range(3):
            way()
    times = np.zeros((turns, len(ways)))
    for turn in range(turns):
        for at, way in enumerate(ways.values()):
            rnp.barrier()
            start = time.perf_counter()
            way()
            times[turn, at] = time.perf_counter() - start
    slowest = rnp.allreduce(times, rnp.Max, "times")
    return {name: statistics.median(slowest[:, at]) * 1e3 for at, name in enumerate(ways)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    turns = parser.parse_args().turns
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    hvd.init()
    cores = sorted(os.sched_getaffinity(0))
    if rnp.size() <= len(cores):
        os.sched_setaffinity(0, {cores[rnp.rank()]})
    # Each rank makes all sets, and uses the one of its own.
    alone = [hvd.add_process_set([rank]) for rank in range(rnp.size())][rnp.rank()]
    found = medians({**of_torch(), **of_tensorflow(alone), **of_jax(alone)}, turns)
    if rnp.rank() != 0:
        return
    reference = found["PyTorch, grouped_allreduce_"]
    for name, milliseconds in found.items():
        print(f"{name:<40} {milliseconds:8.2f} ms {milliseconds / reference:6.2f} of PyTorch's", flush=True)
    for name in ("TensorFlow, tf.function", "JAX, jit"):
        added = found[name] - found[f"{name}, one rank"]
        print(f"{name + ', the average':<40} {added:8.2f} ms {added / reference:6.2f} of PyTorch's", flush=True)


if __name__ == "__main__":
    main()
