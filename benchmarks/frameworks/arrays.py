"""What a call of `ronde.numpy` and of `ronde.jax` costs, on ranks that keep step. Rank 0 prints; in microseconds.

    ronde run -n 2 -- python benchmarks/frameworks/arrays.py [--quick]

NumPy: an all-reduce of 8 bytes, prepared and by name. JAX: programs of 1, 10 and 100 collectives of 4 KiB that do not depend on each
other, and in a chain, beside the same programs without collectives; the slope is what one collective adds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np

import ronde.jax as rj
import ronde.numpy as rnp


def measured(call: Callable[[], object], rounds: int, calls: int) -> tuple[float, float]:
    """The least and the median time of a call, over rounds of so many calls; all ranks begin each round together."""
    for _ in range(calls):
        call()
    times = []
    for _ in range(rounds):
        rnp.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return min(times), statistics.median(times)


def tell(what: str, times: tuple[float, float]) -> None:
    if rnp.rank() == 0:
        print(f"{what:<48} {times[0]:9.2f} least {times[1]:9.2f} median", flush=True)


def of_numpy(rounds: int) -> None:
    values = np.zeros(1)
    prepared = rnp.allreduce_init(values, "prepared", op=rnp.Sum)
    tell("NumPy, 8 B, prepared", measured(prepared, rounds, 1000))
    tell("NumPy, 8 B, by name, in place", measured(lambda: rnp.allreduce_(values, rnp.Sum, "named"), rounds, 1000))
    tell("NumPy, 8 B, by order, in place", measured(lambda: rnp.allreduce_(values, rnp.Sum), rounds, 1000))
    tell("NumPy, 8 B, by name, into a new array", measured(lambda: rnp.allreduce(values, rnp.Sum, "new"), rounds, 1000))


def of_jax(rounds: int) -> None:
    def independent(count: int, reduce: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], object]:
        return jax.jit(lambda x: [reduce(x * (i + 1)) for i in range(count)])

    def chained(count: int, reduce: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], object]:
        def program(x: jax.Array) -> jax.Array:
            for _ in range(count):
                x = reduce(x)
            return x

        return jax.jit(program)

    x = jnp.ones(1024)
    for kind, make in (("independent", independent), ("chained", chained)):
        ends = []
        for count in (1, 10, 100):
            program, empty = make(count, rj.allreduce), make(count, lambda x: x)
            with_calls = measured(lambda: jax.block_until_ready(program(x)), rounds, 5)
            without = measured(lambda: jax.block_until_ready(empty(x)), rounds, 5)
            tell(f"JAX, {count} {kind}", with_calls)
            tell(f"JAX, {count} {kind}, without collectives", without)
            ends.append(with_calls[0] - without[0])
        tell(f"JAX, {kind}: one more of 100 (slope)", ((ends[2] - ends[0]) / 99,) * 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs")
    rounds = 3 if parser.parse_args().quick else 40
    rnp.init()
    of_numpy(rounds)
    of_jax(rounds)


if __name__ == "__main__":
    main()
