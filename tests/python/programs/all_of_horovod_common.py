"""What Horovod has for scripts beside collectives: ``horovod.common.util``, ``horovod.data``, versions."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
import threading
from typing import Any, Iterator, List

import numpy as np
from all_of_horovod_expect import raises, warns
from all_of_horovod_names import Watched
from all_of_horovod_reference import Array, numbers


def check_util(util: Any, hvd: Any) -> None:
    """Small questions."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert util.get_ext_suffix() == suffix
    assert util.get_extension_full_path("/a/__init__.py", "torch", "mpi_lib_v2") == f"/a/torch/mpi_lib_v2{suffix}"
    assert util.EXTENSIONS == ["tensorflow", "torch", "mxnet"]
    installed = [name for name in ("tensorflow", "torch") if importlib.util.find_spec(name) is not None]
    assert [name for name in util.EXTENSIONS if util.extension_available(name)] == installed
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    with raises(ImportError, "horovod.mxnet"):
        util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__, "mpi_lib")
    assert util.gpu_available("torch") is False
    assert util.mpi_built() is hvd.mpi_built() is True
    assert util.ddl_built() is hvd.ddl_built() is False
    assert util.ccl_built() is hvd.ccl_built() is True
    assert util.gloo_built() is hvd.gloo_built() is True
    calls = []
    squared = util._cache(lambda x, plus=0: calls.append(x) or x * x + plus)
    assert [squared(3), squared(3), squared(3, plus=1), squared(4)] == [9, 9, 10, 16] and calls == [3, 3, 4]
    assert util.nccl_built() == 0
    os.environ["ALL_OF_HOROVOD"] = "before"
    with util.env(ALL_OF_HOROVOD=None, ALL_OF_HOROVOD_TOO="2"):
        assert "ALL_OF_HOROVOD" not in os.environ and os.environ["ALL_OF_HOROVOD_TOO"] == "2"
    assert os.environ.pop("ALL_OF_HOROVOD") == "before" and "ALL_OF_HOROVOD_TOO" not in os.environ
    operation = util.get_average_backwards_compatibility_fun(hvd)
    assert operation(None, None) == hvd.Average and operation(hvd.Max, None) == hvd.Max
    with warns("average"):
        assert operation(None, False) == hvd.Sum
    assert [count for count in range(20) if util.num_rank_is_power_2(count)] == [1, 2, 4, 8, 16]
    parts = util.split_list(list(range(11)), 4)
    assert parts == [part.tolist() for part in np.array_split(np.arange(11), 4)]
    assert util.is_iterable([]) and util.is_iterable("") and not util.is_iterable(3)
    assert util.is_version_greater_equal_than("2.10.1", "2.9.3")
    assert not util.is_version_greater_equal_than("1.9", "2.0")


def check_versions(horovod: Any, metadata: Any, util: Any) -> None:
    """Built for no version of a framework, so that none is the wrong one."""
    assert horovod.__version__ == "0.28.1"
    assert metadata.versions() == {}
    util.check_installed_version("torch", "2.0.0")
    util.check_installed_version("torch", "0.1", exception=ImportError("as if it could not be imported"))


def check_data(data: Any) -> None:
    """Batches one after the other, and again, made here or in a thread ahead."""

    class Batches(data.BaseDataLoader):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 6

        def _iterate(self) -> Iterator[Array]:
            return iter([numbers(each) for each in range(6)])

        def _process_batch(self, batch: Array) -> Array:
            return 2 * batch

    class AheadBatches(data.AsyncDataLoaderMixin, Batches):  # type: ignore[misc, name-defined]
        pass

    expected: List[Array] = [2 * numbers(each) for each in range(6)]
    ahead = AheadBatches(async_loader_queue_size=2, debug_data_loader=False)
    for loader in (Batches(), ahead, AheadBatches(0)):
        assert len(loader) == 6
        for _ in range(2):
            np.testing.assert_array_equal(list(loader), expected)
    next(iter(ahead))  # its thread waits for the others to be taken
    assert "horovod-data-loader" in [thread.name for thread in threading.enumerate()]
    Watched("horovod.data:AsyncDataLoaderMixin", ahead).close_async_loader()
    assert "horovod-data-loader" not in [thread.name for thread in threading.enumerate()]
