"""What the programs of all faces share: what each rank gives, what NumPy makes of it, and checks that are counted.

A check that cannot fail says nothing. So each program can be run with RONDE_VERSIONS_WRONG=1: what a rank gives is then not
what the others' expectation says, and the program succeeds only if every check of values has failed.
"""

from __future__ import annotations

import os
import sys
import zlib
from typing import Any, Callable, List, NoReturn, Sequence, Tuple

import numpy as np

#: What ranks give is made wrong on purpose.
WRONG = os.environ.get("RONDE_VERSIONS_WRONG") == "1"

TOLERANCE = 1e-5


def given(rank: int, name: str, shape: Sequence[int], dtype: str = "float32") -> Any:
    """What a rank gives to a call: small numbers by its rank and the call's name alone."""
    generator = np.random.default_rng([rank, zlib.crc32(name.encode())])
    values = generator.integers(1, 100, size=tuple(shape))
    return np.asarray(values, dtype) if np.dtype(dtype).kind in "iu" else np.asarray(values / 7, dtype)


def spoiled(values: Any) -> Any:
    """The values; with RONDE_VERSIONS_WRONG=1 others."""
    return values + np.ones((), values.dtype) if WRONG else values


class Checks:
    """Counts checks; a failed one ends nothing, since the other ranks go on."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self._failed: List[str] = []
        self._values = 0
        self._others = 0
        self._blind: List[str] = []

    def mine(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Any:
        """What this rank gives."""
        return spoiled(given(self.rank, name, shape, dtype))

    def all_of(self, name: str, shape: Sequence[int], dtype: str = "float32") -> List[Any]:
        """What each rank is expected to have given."""
        return [given(rank, name, shape, dtype) for rank in range(self.size)]

    def same(self, name: str, found: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
        """Values that Ronde has had to do with are those expected, and so are their type and shape."""
        self._values += 1
        found, expected = np.asarray(found), np.asarray(expected)
        problem = ""
        if found.shape != expected.shape or found.dtype != expected.dtype:
            problem = f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
        elif not np.allclose(found, expected, rtol=tolerance, atol=tolerance):
            off = np.max(np.abs(found.astype(complex) - expected.astype(complex)))
            problem = f"off by {off:g}: {found.ravel()[:6]}, expected {expected.ravel()[:6]}"
        if problem:
            self._failed.append(f"{name}: {problem}")
        else:
            self._blind.append(name)

    def holds(self, name: str, truth: bool, found: Any = "") -> None:
        """Something that does not follow from what ranks give."""
        self._others += 1
        if not truth:
            self._failed.append(f"{name}: does not hold: {found}")
            if WRONG:
                self._blind.append(name)

    def end(self) -> NoReturn:
        """Says what was found, and exits with 0 if all is as it must be."""
        if WRONG:
            print(f"rank {self.rank}: {self._values} checks of values, not failed: {self._blind}", flush=True)
            sys.exit(1 if self._blind or not self._values else 0)
        for problem in self._failed:
            print(f"rank {self.rank}: {problem}", flush=True)
        print(f"rank {self.rank}: {self._values + self._others} checks, {len(self._failed)} failed", flush=True)
        sys.exit(1 if self._failed or not self._values else 0)


def check_collectives(
    checks: Checks,
    hvd: Any,
    to: Callable[[Any], Any],
    way: str = "",
    run: Callable[..., Any] = lambda function, *tensors: function(*tensors),
    rows_of_all: Callable[[List[int]], Any] = lambda rows: {},
) -> None:
    """Each collective against NumPy. ``run`` calls a function of tensors, traced for instance; ``to`` makes a tensor of an
    array; ``rows_of_all`` says what an all-gather of unequal rows is told of them."""

    def call(kind: str, shape: Tuple[int, ...], dtype: str, do: Callable[[Any], Any]) -> Tuple[str, Any, List[Any]]:
        name = f"{kind}.{way}.{dtype}.{len(shape)}"
        result = run(do, to(checks.mine(name, shape, dtype)))
        return name, result, checks.all_of(name, shape, dtype)

    for dtype, ops in {"float32": ("Average", "Sum", "Min", "Max"), "int32": ("Sum", "Max")}.items():
        for op in ops:
            with_numpy = {"Average": np.mean, "Sum": np.sum, "Min": np.min, "Max": np.max}[op]
            name, result, all_of = call(f"allreduce {op}", (3, 5), dtype, lambda x: hvd.allreduce(x, op=getattr(hvd, op)))
            checks.same(name, result, with_numpy(all_of, axis=0).astype(dtype))
    large = (70001,)
    name, result, all_of = call("allreduce large", large, "float32", lambda x: hvd.allreduce(x, op=hvd.Sum))
    checks.same(name, result, np.sum(all_of, axis=0, dtype="float32"))
    names, shapes = [f"grouped.{way}.{each}" for each in range(3)], [(4,), (2, 3), (1,)]
    mine = [to(checks.mine(*each)) for each in zip(names, shapes)]
    results = run(lambda *tensors: hvd.grouped_allreduce(list(tensors), op=hvd.Sum), *mine)
    for name, shape, result in zip(names, shapes, results):
        checks.same(name, result, np.sum(checks.all_of(name, shape), axis=0, dtype="float32"))
    name, result, all_of = call("allgather", (2, 3), "int32", hvd.allgather)
    checks.same(name, result, np.concatenate(all_of))
    name, rows = f"allgather unequal.{way}", [1 + 2 * rank for rank in range(checks.size)]
    told = rows_of_all(rows)
    result = run(lambda x: hvd.allgather(x, **told), to(checks.mine(name, (rows[checks.rank], 2))))
    checks.same(name, result, np.concatenate([given(rank, name, (count, 2)) for rank, count in enumerate(rows)]))
    for root in range(checks.size):
        name, result, all_of = call(f"broadcast {root}", (7,), "float32", lambda x: hvd.broadcast(x, root))
        checks.same(name, result, all_of[root])
    if hasattr(hvd, "alltoall"):
        name, result, all_of = call("alltoall", (2 * checks.size, 2), "float32", hvd.alltoall)
        checks.same(name, result, np.concatenate([each[2 * checks.rank : 2 * checks.rank + 2] for each in all_of]))
    name, result, all_of = call("reducescatter", (5, 2), "float32", lambda x: hvd.reducescatter(x, op=hvd.Sum))
    checks.same(name, result, np.array_split(np.sum(all_of, axis=0, dtype="float32"), checks.size)[checks.rank])
