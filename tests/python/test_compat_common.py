"""The parts of `horovod` that need no job: loaders of batches, small questions, exceptions."""

from __future__ import annotations

import os
import threading

import pytest

from horovod.common import util
from horovod.common.exceptions import HorovodVersionMismatchError, get_version_mismatch_message
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader


class Numbers(BaseDataLoader):
    def __init__(self, count, wrong_at=None):
        self.count = count
        self.wrong_at = wrong_at
        self.made = 0

    def __len__(self):
        return self.count

    def _iterate(self):
        for number in range(self.count):
            if number == self.wrong_at:
                raise OSError("the file is broken")
            self.made += 1
            yield number

    def _process_batch(self, batch):
        return batch * 10


class AsyncNumbers(AsyncDataLoaderMixin, Numbers):
    pass


def loader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "horovod-data-loader"]


@pytest.mark.parametrize("ahead", [0, 1, 64])
def test_batches_come_in_order_and_again(ahead):
    loader = AsyncNumbers(count=20, async_loader_queue_size=ahead)
    for _ in range(2):
        assert list(loader) == list(Numbers(20)) == [number * 10 for number in range(20)]
    loader.close_async_loader()
    assert loader_threads() == []


def test_it_reads_ahead_so_far_and_no_farther():
    loader = AsyncNumbers(count=1000, async_loader_queue_size=3)
    batches = iter(loader)
    assert [next(batches), next(batches)] == [0, 10]
    loader.close_async_loader()
    assert loader_threads() == [] and loader.made <= 2 + 3 + 1
    assert len(list(batches)) <= 4, "an iteration under way ends"
    loader.close_async_loader()


def test_an_error_comes_where_the_batch_would():
    batches = iter(AsyncNumbers(count=5, wrong_at=2))
    assert [next(batches), next(batches)] == [0, 10]
    with pytest.raises(OSError, match="the file is broken"):
        next(batches)


def test_env(monkeypatch):
    monkeypatch.setenv("COMPAT_A", "1")
    monkeypatch.delenv("COMPAT_B", raising=False)
    with util.env(COMPAT_A=None, COMPAT_B=2):
        assert "COMPAT_A" not in os.environ and os.environ["COMPAT_B"] == "2"
    assert os.environ["COMPAT_A"] == "1" and "COMPAT_B" not in os.environ


def test_small_questions():
    assert [n for n in range(-1, 9) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
    assert util.split_list([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]] and util.split_list([1], 2) == [[1], []]
    assert util.is_iterable([]) and not util.is_iterable(3)
    assert util.is_version_greater_equal_than("2.10.1+cpu", "2.9") and util.is_version_greater_equal_than("2", "2.0.0")
    assert not util.is_version_greater_equal_than("1.13", "2.0rc1")
    assert util.extension_available("torch") and util.extension_available("tensorflow")
    assert not util.extension_available("mxnet")
    assert not util.gpu_available("torch")
    assert util.get_extension_full_path("/a/__init__.py", "torch", "lib") == "/a/torch/lib" + util.get_ext_suffix()
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    with pytest.raises(ImportError, match="horovod.mxnet cannot be used"):
        util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__, "mpi_lib")


def test_average_and_op():
    import ronde.torch as hvd

    operation = util.get_average_backwards_compatibility_fun(hvd)
    assert operation(None, None) == hvd.Average and operation(hvd.Max, None) == hvd.Max
    with pytest.warns(DeprecationWarning):
        assert operation(None, False) == hvd.Sum
    with pytest.raises(ValueError, match="not both"):
        operation(hvd.Sum, True)


def test_exceptions():
    error = HorovodVersionMismatchError("torch", "1.0", "2.0")
    assert isinstance(error, ImportError) and str(error) == get_version_mismatch_message("torch", "1.0", "2.0")
    assert (error.name, error.version, error.installed_version) == ("torch", "1.0", "2.0")
    util.check_installed_version("torch", "2.13")
