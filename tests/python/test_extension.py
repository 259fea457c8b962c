"""The extension module: calls by it are those by ctypes, leave nothing behind, and a Python without it does as well."""

from __future__ import annotations

import gc
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import ronde
import ronde.numpy as rnp
from launching import PROGRAMS, run_job
from ronde import _native, _operation
from ronde.exceptions import DuplicateNameError, MismatchError, RondeError
from ronde.torch import _parts

IS_OFF = os.environ.get("RONDE_PYTHON_EXTENSION") == "0"


def test_it_is_there():
    assert (_native.extension is None) == (IS_OFF or sys.version_info < (3, 11))


@pytest.fixture
def short_ways(monkeypatch):
    """How often the extension has made a call by itself, of those made through ``rnp`` and ``hvd``."""
    counts = {"made": 0, "left": 0}

    def counting(call):
        def counted(*arguments):
            made = call(*arguments)
            counts["left" if made is None else "made"] += 1
            return made

        return counted

    if _native.extension is not None:
        import ronde.numpy._reductions as reductions
        import ronde.torch.mpi_ops as mpi_ops

        class Counted:
            allreduce_array = staticmethod(counting(_native.extension.allreduce_array))

        monkeypatch.setattr(reductions, "extension", Counted)
        monkeypatch.setattr(mpi_ops, "allreduce_in_c", counting(mpi_ops.allreduce_in_c))
    return counts


ARRAYS = {
    **{np.dtype(kind).name: np.arange(1, 7).astype(kind).reshape(2, 3) for kind in "bBhHilqefdFD"},
    "bool": np.array([True, False]),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 3)),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(8.0)[::2],
    "33 dimensions at most": np.ones((1,) * 32),
    "matrix": np.arange(4.0).reshape(2, 2).view(np.matrix),
    "bytearray": bytearray(b"\1\2\3"),
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("what", ARRAYS)
def test_arrays(hvd, rank, world, what):
    given = ARRAYS[what]
    expected = np.asarray(given) * world if what != "bool" else np.asarray(given)
    for step in range(4):
        for name in (f"of {what}", None):
            array = bytearray(given) if isinstance(given, bytearray) else given.copy(order="K")
            if what == "strided":
                array = np.arange(8.0)[::2]
            assert rnp.allreduce_(array, rnp.Sum, name) is array
            assert np.array_equal(np.asarray(array), expected), (step, name)
            op = rnp.Average if what.startswith("complex") else rnp.Max
            handle = rnp.allreduce_async_(array, op=op, name=name)
            assert rnp.synchronize(handle) is array and handle.name is None
            assert np.array_equal(np.asarray(array), expected), (step, name)


TENSORS = {
    **{str(dtype): torch.tensor([1, 0, 2]).to(dtype) for dtype in (
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
        torch.float64, torch.complex64, torch.complex128, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2)},
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "transposed": torch.arange(6.0).reshape(2, 3).t(),
    "a row of 1": torch.arange(6.0).reshape(6, 1).t(),
    "parameter": torch.nn.Parameter(torch.ones(3)),
    "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
    "with an offset": torch.arange(8.0)[3:6],
}


@pytest.mark.ranks(2)
@pytest.mark.parametrize("what", TENSORS)
def test_tensors(hvd, rank, world, what):
    given = TENSORS[what].detach()
    before = given.resolve_conj().resolve_neg().to(torch.complex128)
    expected = before * world if given.dtype is not torch.bool else before
    for step in range(4):
        for name in (f"of {what}", None):
            tensor = TENSORS[what].detach().clone(memory_format=torch.preserve_format)
            if what in ("negative", "conjugate"):
                base = torch.tensor([1 + 2j, 3 - 4j]).conj()
                tensor = base.imag if what == "negative" else base
            if what == "parameter":
                tensor = torch.nn.Parameter(tensor)
            assert hvd.allreduce_(tensor, op=hvd.Sum, name=name) is tensor
            seen = tensor.detach().resolve_conj().resolve_neg().to(torch.complex128)
            assert torch.equal(seen, expected), (step, name)
            handle = hvd.allreduce_async_(tensor, name=name, op=hvd.Sum, postscale_factor=1.0)
            assert handle.name is not None and (name is None or handle.name == f"allreduce.{name}")
            assert hvd.synchronize(handle) is tensor


@pytest.mark.ranks(2)
@pytest.mark.skipif(IS_OFF, reason="there is no extension")
def test_plain_calls_take_the_short_way(hvd, rank, short_ways):
    tensor, array = torch.ones(2), np.ones(2)
    for step in range(3):  # ctypes finds the place in the program once
        for call in (
            lambda: hvd.allreduce_(tensor, name="tensor"),
            lambda: hvd.allreduce_(tensor),
            lambda: hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum)),
            lambda: rnp.allreduce_(array, name="array"),
            lambda: rnp.synchronize(rnp.allreduce_async_(array)),
        ):
            before = dict(short_ways)
            call()
            assert short_ways["made"] - before["made"] == (step > 0)
    made = short_ways["made"]
    hvd.allreduce_(torch.ones(2, 2).t()[:, :1])  # not contiguous
    with pytest.raises(ValueError, match="none of Average"):
        hvd.allreduce_(tensor, op=99)
    with pytest.raises(ValueError, match="prescale_factor is 0"):
        hvd.allreduce_(tensor, prescale_factor=0.0)
    assert short_ways["made"] == made


@pytest.mark.ranks(2)
@pytest.mark.skipif(IS_OFF, reason="there is no extension")
def test_places_of_a_program_do_not_push_each_other_out(hvd, rank, short_ways):
    array = np.ones(1)
    for _ in range(3000):  # of other programs, which fill the table
        eval("lambda: allreduce_(array)", {"allreduce_": rnp.allreduce_, "array": array})()
    calls = [eval("lambda: allreduce_(array)", {"allreduce_": rnp.allreduce_, "array": array}) for _ in range(300)]
    for call in calls:
        call()
    before = short_ways["left"]
    for call in calls:
        call()
    assert short_ways["left"] - before <= 5  # of a set of four


@pytest.mark.ranks(1)
@pytest.mark.skipif(IS_OFF, reason="by ctypes a call may be lost so")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_name_is_free_after_a_signal_handler_has_raised_in_its_call(hvd):
    class Stop(Exception):
        pass

    def stop(signum, frame):
        raise Stop

    before, tensor, lost = signal.signal(signal.SIGALRM, stop), torch.ones(5), 0
    try:
        for number in range(600):
            handle, name = None, f"stopped {number}"
            try:
                signal.setitimer(signal.ITIMER_REAL, random.random() * 3e-5 + 1e-6)
                handle = hvd.allreduce_async_(tensor, None, name, hvd.Sum)
                sum(range(1000))
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0)
            hvd.synchronize(handle)
            del handle
            _operation.settle(f"allreduce.{name}")
            try:
                hvd.allreduce_(tensor, None, name, hvd.Sum)
            except DuplicateNameError:
                lost += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert lost <= 2  # where it raised while Python dropped the handle, if anywhere; a third before


@pytest.mark.ranks(2)
def test_nothing_is_left_behind(hvd, rank, world):
    """100,000 calls, of which some fail."""
    tensor, array, name, everyone = torch.ones(2), np.ones(2), "".join(["na", "me"]), hvd.global_process_set
    objects = (tensor, array, name, everyone, np.ndarray, torch.Tensor, _operation.Operation, None, True)

    def resident():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))

    def run(calls):
        for _ in range(calls // 100):
            for _ in range(20):
                hvd.allreduce_(tensor, name=name, op=hvd.Sum, process_set=everyone)
                hvd.allreduce_(tensor)
                rnp.allreduce_(array, rnp.Sum, name + "d")
                handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
                hvd.poll(handle)
                hvd.synchronize(handle)
                rnp.synchronize(rnp.allreduce_async_(array, name="async"))
            tensor.fill_(1.0)
            array.fill(1.0)

    def fail():
        for _ in range(100):
            with pytest.raises(MismatchError):
                hvd.allreduce_(torch.ones(2 + rank), name="other sizes")
            handle = rnp.allreduce_async_(array, name="once")
            with pytest.raises(DuplicateNameError):
                rnp.allreduce_(array, name="once")
            rnp.synchronize(handle)

    others = set(_operation._under_way)  # of tests before this one
    run(20_000)
    fail()
    gc.collect()
    counts, memory = [sys.getrefcount(each) for each in objects], resident()
    run(100_000)
    fail()
    gc.collect()
    for each, before in zip(objects, counts):
        assert abs(sys.getrefcount(each) - before) < 100, each  # the interpreter has some of its own
    assert resident() - memory < 2000  # of 100,000 calls: 20 bytes each
    assert _operation._under_way <= others


@pytest.mark.ranks(2)
def test_threads_call_at_once(hvd, rank, world):
    failures = []

    def work(number):
        try:
            tensor, array = torch.ones(3), np.ones(3)
            for _ in range(300):
                tensor.fill_(1.0)
                assert hvd.allreduce_(tensor, name=f"tensor.{number}", op=hvd.Sum)[0] == world
                array.fill(1.0)
                assert rnp.allreduce_(array, name=f"array.{number}", op=rnp.Sum)[0] == world
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.ranks(2)
def test_other_threads_run_while_one_waits(hvd, rank):
    counted, is_over = [0], threading.Event()

    def count():
        while not is_over.is_set():
            counted[0] += 1

    hvd.allreduce_(torch.ones(1), name="waits")
    hvd.allreduce_(torch.ones(1), name="waits")
    if rank == 0:
        thread = threading.Thread(target=count)
        thread.start()
        hvd.allreduce_(torch.ones(1), name="waits")
        before = counted[0]
        assert before > 100
        is_over.set()
        thread.join()
    else:
        threading.Event().wait(0.3)  # the other rank has to wait for this one
        hvd.allreduce_(torch.ones(1), name="waits")
    hvd.barrier()


@pytest.mark.ranks(2)
def test_errors_name_the_call(hvd, rank):
    for array in (np.ones(2 + rank), np.ones(2 + rank)):
        with pytest.raises(MismatchError, match=r"allreduce\.sizes.*test_extension\.py:\d+"):
            rnp.allreduce_(array, name="sizes")
    with pytest.raises(RondeError, match="noname"):
        rnp.allreduce_(np.ones(2 + rank))
    handle = hvd.allreduce_async_(torch.ones(1), name="once")
    with pytest.raises(DuplicateNameError) as caught:
        hvd.allreduce_(torch.ones(1), name="once")
    assert caught.value.tensor == "allreduce.once"
    hvd.synchronize(handle)
    unnamed = hvd.allreduce_async_(torch.ones(1))
    assert re.fullmatch(r"noname\.\d+\.\d+", unnamed.name)
    hvd.synchronize(unnamed)


def train(hvd, optimizer, parameters, steps, keep=None):
    kept = []
    for step in range(steps):
        optimizer.zero_grad()
        sum((parameter * (step + 1.0)).sum() for parameter in parameters).backward()
        optimizer.step()
        for parameter in parameters:
            assert parameter.grad.unique().tolist() == [step + 1.0]
        if keep is not None and step % 3 == 0:
            kept.append((parameters[keep].grad, step + 1.0))
    for gradient, value in kept:  # the program's own are not written to
        assert gradient.unique().tolist() == [value]


@pytest.mark.ranks(2)
@pytest.mark.parametrize("keep", [None, 0, 3])
def test_plain_gradients_take_the_short_way(hvd, rank, monkeypatch, keep):
    from ronde.torch import _gradients

    counted, count = [], _gradients.Reducer._count

    def counting(reducer, member):
        counted.append(member)
        count(reducer, member)

    monkeypatch.setattr(_gradients.Reducer, "_count", counting)
    parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in ((), (3,), (2, 5), (4, 2, 1, 3), (70_000,))]
    named = [(f"p{i}", parameter) for i, parameter in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0), named_parameters=named)
    train(hvd, optimizer, parameters, 3)
    counted.clear()
    train(hvd, optimizer, parameters, 12, keep)
    # Python begins each pass, and takes those that are large, and those that the program holds.
    limit = len(parameters) if IS_OFF or not _parts.HAVE_EXTENSION else 3
    assert 12 <= len(counted) <= 12 * limit


@pytest.mark.ranks(2)
def test_gradients_in_several_passes_and_frozen(hvd, rank):
    parameters = [torch.nn.Parameter(torch.ones(4)) for _ in range(6)]
    named = [(f"p{i}", parameter) for i, parameter in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=0.0), named_parameters=named, backward_passes_per_step=2, op=hvd.Sum
    )
    for step in range(8):
        optimizer.zero_grad(set_to_none=step % 3 != 0)
        for _ in range(2):
            sum((parameter * (rank + 1.0)).sum() for parameter in parameters).backward()
        optimizer.step()
        assert all(parameter.grad.tolist() == [6.0] * 4 for parameter in parameters)
    sum(parameter.sum() for parameter in parameters).backward()
    sum(parameter.sum() for parameter in parameters).backward()
    with pytest.raises(AssertionError, match="more often than backward_passes_per_step=2"):
        sum(parameter.sum() for parameter in parameters).backward()
    optimizer.synchronize()


@pytest.mark.ranks(2)
def test_steps_leave_nothing_behind(hvd, rank):
    """Of 45,000 gradients."""
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(300)]
    named = [(f"p{i}", parameter) for i, parameter in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0), named_parameters=named)
    roots, ones = [parameter * 2 for parameter in parameters], [torch.ones(2) for _ in parameters]

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad()
            torch.autograd.backward(roots, ones, retain_graph=True)
            optimizer.step()
        gc.collect()
        units = optimizer._reducer._units
        objects = [each for unit in units[:20] for each in (unit, unit.place, unit.place.view, unit.parameter)]
        return [sys.getrefcount(each) for each in objects], sys.getallocatedblocks()

    steps(20)
    (counts, blocks), (counts_after, blocks_after) = steps(20), steps(150)
    assert counts == counts_after and blocks_after - blocks < 1000


@pytest.mark.parametrize("is_on", [True, False])
def test_a_job_ends_while_a_thread_waits(is_on, monkeypatch):
    """A daemon thread is in the library when the interpreter ends."""
    monkeypatch.setenv("RONDE_PYTHON_EXTENSION", str(int(is_on)))
    ended = run_job(2, "ends_while_waiting.py")
    assert ended.code == 0, ended.output
    assert len(ended.lines(f"extension {is_on}")) == 2 and "Fatal" not in ended.output


def pythons():
    """Those of this machine: at least the one that runs."""
    found = {sys.executable}
    for minor in range(9, 16):
        found.update(filter(None, [shutil.which(f"python3.{minor}", path="/usr/local/bin:/usr/bin")]))
        found.update(sorted(glob.glob(f"{Path.home()}/.pyenv/versions/3.{minor}*/bin/python3"))[:1])
    return sorted(found)


@pytest.mark.parametrize("python", pythons())
def test_every_python(python, tmp_path):
    """The wheel is for all: what cannot load the extension goes by ctypes, and all do the same."""
    package = Path(ronde.__file__).parent
    (tmp_path / "ronde").symlink_to(package)
    said = "import sys, sysconfig; print(sys.version_info >= (3, 11) and not sysconfig.get_config_var('Py_GIL_DISABLED'))"
    can = subprocess.run([python, "-c", said], check=True, capture_output=True, text=True).stdout.strip()
    for setting in ("1", "0"):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "RONDE_PYTHON_EXTENSION": setting}
        command = [python, PROGRAMS / "any_python.py", "and load"]
        ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=180)
        assert ended.returncode == 0, ended.stderr
        is_on = can == "True" and setting == "1"
        assert ended.stdout.splitlines() == [
            f"loads by itself: {can}", f"extension: {is_on} values: [8.0, 16.0, 24.0]"
        ]
