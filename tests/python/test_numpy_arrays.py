"""ronde.numpy: what counts as an array, where results go, what is refused, and the operation that comes back."""

from __future__ import annotations

import array
import collections
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

import ronde.numpy as rnp
from ronde.exceptions import DuplicateNameError, InvalidArgumentError, MismatchError, NotInitializedError


class WithInterface:
    """Has an array's memory by ``__array_interface__`` only."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    @property
    def __array_interface__(self):
        return self.values.__array_interface__


MEMORY = {
    "array.array": lambda: array.array("d", [1.0, 2.0]),
    "ctypes": lambda: np.ctypeslib.as_ctypes(np.array([1.0, 2.0])),
    "interface": lambda: WithInterface(np.array([1.0, 2.0])),
    "memoryview": lambda: memoryview(np.array([1.0, 2.0])),
    "torch": lambda: torch.tensor([1.0, 2.0], dtype=torch.float64),
}


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kind", MEMORY)
def test_anything_with_an_arrays_memory(rank, world, kind):
    value = MEMORY[kind]()
    assert np.array_equal(rnp.allreduce(value, op=rnp.Sum), [world, 2 * world])
    assert rnp.allreduce_(value, op=rnp.Sum) is value
    assert [float(each) for each in rnp.allgather(value)][:2] == [world, 2 * world]


@pytest.mark.ranks(2)
def test_bytes_numbers_and_lists(rank, world):
    box = bytearray([rank, 1])
    assert rnp.broadcast_(box, 1) is box and list(box) == [1, 1]
    assert rnp.allgather(b"ab").tobytes() == b"abab" and rnp.allgather(b"").shape == (0,)
    assert rnp.allreduce(rank, op=rnp.Sum) == 1 and rnp.allreduce(rank, op=rnp.Sum).dtype == np.int64
    assert rnp.allreduce([0.5, rank]).tolist() == [0.5, 0.5]
    assert rnp.allreduce(np.float32(rank)).dtype == np.float32


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "cut",
    [lambda a: a[::2], lambda a: a.T, lambda a: a[::-1], lambda a: a[1:3, ::3], lambda a: a[:, :, None].transpose(2, 0, 1)],
    ids=["rows", "transposed", "reversed", "corner", "moved"],
)
def test_not_contiguous(rank, world, cut):
    whole = np.arange(24.0).reshape(4, 6) + rank
    before = whole.copy()
    expected = cut(np.arange(24.0).reshape(4, 6)) * 2 + 1
    assert np.array_equal(rnp.allreduce(cut(whole), op=rnp.Sum), expected)
    assert np.array_equal(whole, before)
    assert np.array_equal(rnp.synchronize(rnp.allreduce_async_(cut(whole), op=rnp.Sum)), expected)
    cut(before)[...] = expected
    assert np.array_equal(whole, before), "more was written than the part"
    rnp.broadcast_(cut(whole), 0)
    assert np.array_equal(whole, before)


@pytest.mark.ranks(2)
def test_not_aligned(rank, world):
    unaligned = np.frombuffer(bytearray(8 * 3 + 1), np.uint8)[1:].view(np.float64)
    unaligned[...] = 1.0
    assert not unaligned.flags.aligned
    assert rnp.allreduce_(unaligned, op=rnp.Sum).tolist() == [2.0] * 3


@pytest.mark.ranks(2)
def test_one_memory_twice_in_a_group(rank, world):
    whole = np.ones(5)
    rnp.grouped_allreduce_([whole, whole], op=rnp.Sum)
    assert whole.tolist() == [2.0] * 5
    rnp.grouped_allreduce_([whole[:3], whole[2:]], op=rnp.Sum)
    assert whole.tolist() == [4.0] * 5


REFUSED = {
    "read-only": (lambda: np.broadcast_to(1.0, 3), "is read-only"),
    "bytes": (lambda: b"ab", "is read-only"),
    "number": (lambda: 1.0, "into which no result can be written"),
    "scalar": (lambda: np.float64(1), "into which no result can be written"),
    "list": (lambda: [1.0], "into which no result can be written"),
    "overlapping": (lambda: np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,)), "in one place in memory"),
    "byte order": (lambda: np.zeros(3, ">f4"), r"in the other byte order: pass array.astype\('<f4'\)"),
    "strings": (lambda: np.zeros(3, "U4"), "does not know"),
    "objects": (lambda: np.zeros(3, object), "does not know"),
    "records": (lambda: np.zeros(3, "f4,i4"), "does not know"),
    "masked": (lambda: np.ma.masked_equal(np.arange(3.0), 1), r"pass array.filled\(value\)"),
    "text": (lambda: "abc", "does not know"),
    "nothing": (lambda: None, "does not know"),
    "torch bfloat16": (lambda: torch.ones(2, dtype=torch.bfloat16), "that NumPy cannot read"),
    "ragged": (lambda: (1, [2, 3]), "into which no result can be written"),
}


@pytest.mark.ranks(2)
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_in_place(rank, world, kind):
    """At once, in one sentence that names the call; calls that follow meet all the same."""
    make, text = REFUSED[kind]
    with pytest.raises(InvalidArgumentError, match=text) as caught:
        rnp.allreduce_(make(), name="refused")
    assert str(caught.value).startswith("'allreduce.refused' ") and "\n" not in str(caught.value)
    with pytest.raises(ValueError):
        rnp.allreduce_(make())
    assert rnp.allreduce(1.0, op=rnp.Sum) == 2.0


@pytest.mark.ranks(2)
def test_refused(rank, world):
    for bad in (np.zeros(3, ">i8"), np.zeros(2, object), "abc", [1, [2, 3]], np.zeros(2, "M8[s]"), np.zeros(2, np.longdouble)):
        with pytest.raises(InvalidArgumentError, match="'allreduce.bad'"):
            rnp.allreduce(bad, name="bad")
        with pytest.raises(InvalidArgumentError, match="'allgather.bad'"):
            rnp.allgather(bad, name="bad")
    with pytest.raises(ValueError, match="op=17 is none of"):
        rnp.allreduce(1.0, op=17)
    with pytest.raises(ValueError, match="prescale_factor is 0"):
        rnp.allreduce(1.0, prescale_factor=0.0)
    with pytest.raises(ValueError, match=r"give \[array\]"):
        rnp.grouped_allreduce(np.ones(3))
    with pytest.raises(ValueError, match="at least one array"):
        rnp.grouped_allreduce_async([])
    assert rnp.allreduce(1.0, op=rnp.Sum) == 2.0


@pytest.mark.ranks(2, 3)
def test_ranks_that_differ(rank, world):
    for mine in (np.ones(3 + (rank == 0)), np.ones(3, np.float32 if rank else np.float64)):
        with pytest.raises(MismatchError, match="allreduce.np.differs") as caught:
            rnp.allreduce(mine, name="np.differs")
        assert len(set(rnp.allgather_object(str(caught.value)))) == 1
        assert "test_numpy_arrays.py" in str(caught.value)
    with pytest.raises(MismatchError, match="op"):
        rnp.allreduce(np.ones(3), op=rnp.Sum if rank else rnp.Max, name="np.ops")
    if rank == 0:
        with pytest.raises(ValueError):
            rnp.allreduce_(1.0)
    else:
        with pytest.raises(MismatchError, match="into which no result can be written"):
            rnp.allreduce_(np.ones(1))
    assert rnp.allreduce(np.ones(1), op=rnp.Sum)[0] == world


@pytest.mark.ranks(1, 2, 3)
def test_persistent(rank, world):
    values = np.zeros(5)
    again = rnp.allreduce_init(values, "np.again", op=rnp.Sum)
    for step in range(50):
        values[...] = step + rank
        again()
        assert values.tolist() == [world * step + world * (world - 1) / 2] * 5
    values[...] = 1
    again.start()
    with pytest.raises(DuplicateNameError):
        again.start()
    again.wait()
    assert values.tolist() == [world] * 5
    with pytest.raises(ValueError, match="has not been started"):
        again.wait()
    again.release()
    again.release()
    for call in (again, again.start):
        with pytest.raises(ValueError):
            call()
    assert rnp.allreduce(1.0, name="again", op=rnp.Sum) == world  # the name is free again
    with pytest.raises(InvalidArgumentError, match="is not contiguous"):
        rnp.allreduce_init(np.ones((4, 4))[:, 1], "np.again")
    with pytest.raises(InvalidArgumentError, match="is read-only"):
        rnp.allreduce_init(np.broadcast_to(1.0, 3), "np.again")


@pytest.mark.ranks(2)
def test_persistent_that_fails(rank, world):
    values = np.ones(3 + rank)
    with rnp.allreduce_init(values, "np.unequal", op=rnp.Sum) as unequal:
        with pytest.raises(MismatchError, match="np.unequal"):
            unequal()
    with rnp.allreduce_init(np.ones(3), "np.unequal", op=rnp.Sum) as equal:
        equal()


@pytest.mark.ranks(1, 2)
def test_shared_memory(rank, world):
    from ronde import _process

    for dtype, shape in ((np.float32, (100, 700)), (ml_dtypes.bfloat16, 70000), (np.int64, ())):
        shared = rnp.empty_shared(shape, dtype)
        assert shared.dtype == dtype and not shared.astype(np.float64).any()
        shared[...] = rank + 1
        before = _process.counters()["direct_bytes"]
        rnp.allreduce_(shared, op=rnp.Sum)
        assert (shared.astype(np.float64) == world * (world + 1) / 2).all()
        if world > 1:
            assert _process.counters()["direct_bytes"] > before
    assert rnp.empty_shared((3, 0)).shape == (3, 0)
    with pytest.raises(ValueError, match="float128|longdouble"):
        rnp.empty_shared(3, np.longdouble)


def test_before_init():
    with pytest.raises(NotInitializedError):
        rnp.allreduce(np.ones(3))
    with pytest.raises(NotInitializedError):
        rnp.empty_shared(3)
    assert not rnp.is_initialized()


def test_numpy_is_imported_with_ronde_numpy_only():
    program = (
        "import sys, ronde, ronde._objects, ronde.process_sets, ronde.elastic\n"
        "assert 'numpy' not in sys.modules\n"
        "import ronde.numpy as rnp, numpy\n"
        "assert not {'torch', 'jax', 'tensorflow', 'ml_dtypes'} & set(sys.modules)\n"
        "rnp.init(); assert (rnp.rank(), rnp.size()) == (0, 1)\n"
        "assert rnp.allreduce([2.0], op=rnp.Sum).tolist() == [2.0]\n"
        "rnp.shutdown(); assert not rnp.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=180)


@pytest.mark.ranks(2)
def test_in_place_nothing_is_taken_for_written_that_is_not(hvd, rank, world):
    """What NumPy can only have the values of, or whose elements share memory."""

    class Values:
        def __array__(self, dtype=None, copy=None):
            return np.ones(3)

    for values in (range(3), collections.deque([1.0, 2.0]), Values()):
        with pytest.raises(ValueError, match="whose memory NumPy cannot reach, only its values: pass an array"):
            rnp.allreduce_(values, op=rnp.Sum)
        assert rnp.allreduce(values, op=rnp.Sum).tolist() == [2 * value for value in np.asarray(values).tolist()]
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 3, writeable=True)
    with pytest.raises(ValueError, match="several elements in one place"):
        rnp.allreduce_(windows, op=rnp.Sum)
    turned = np.arange(12.0).reshape(3, 4)[:, ::-2].T
    expected = 2 * turned
    assert rnp.allreduce_(turned, op=rnp.Sum) is turned and np.array_equal(turned, expected)


@pytest.mark.ranks(2)
def test_negative_values_that_are_not_in_memory(hvd, rank, world):
    negative = torch.complex(torch.ones(3), torch.full((3,), 2.0)).conj().imag
    with pytest.raises(ValueError, match="resolve_neg"):
        rnp.allreduce(negative, op=rnp.Sum)
    assert rnp.allreduce(negative.resolve_neg(), op=rnp.Sum).tolist() == [-4.0] * 3


@pytest.mark.ranks(2)
def test_tensors_without_memory_of_their_own(hvd, rank, world):
    """NumPy made memory for them, with anything in it, and this was reduced."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.masked import masked_tensor

    plain = torch.arange(1.0, 5.0)
    lazy = AsyncCollectiveTensor(plain)  # as a functional collective makes it
    lazy.completed = True
    assert rnp.allreduce(lazy, op=rnp.Sum).tolist() == (2 * plain).tolist()
    assert rnp.allgather(lazy).tolist() == 2 * plain.tolist()
    with pytest.raises(ValueError, match="whose memory NumPy cannot reach"):
        rnp.allreduce_(lazy, op=rnp.Sum)
    fake = FakeTensorMode().from_tensor(plain)
    for values in (masked_tensor(plain, plain > 2), fake, torch._efficientzerotensor((3,))):
        with pytest.raises(ValueError, match="that NumPy cannot read"):
            rnp.allreduce(values, op=rnp.Sum)
        with pytest.raises(ValueError, match="NumPy cannot"):
            rnp.allreduce_(values, op=rnp.Sum)
    for nothing in (torch.zeros(0), torch.zeros(2, 0)):
        assert rnp.allreduce(nothing, op=rnp.Sum).shape == tuple(nothing.shape)
