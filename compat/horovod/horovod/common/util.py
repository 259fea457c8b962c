"""Small questions that scripts ask."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sysconfig
import warnings
from collections.abc import Iterable
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Type, TypeVar, cast

from ronde import _capabilities

from horovod.common.exceptions import HorovodVersionMismatchError

EXTENSIONS: List[str] = ["tensorflow", "torch", "mxnet"]

_Item = TypeVar("_Item")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cache(f: _Function) -> _Function:
    """Decorates a function so that it is called once for the same arguments, which must be hashable, and its result kept."""
    results: Dict[Any, Any] = {}

    @functools.wraps(f)
    def cached(*args: Any, **kwargs: Any) -> Any:
        key = (args, frozenset(kwargs.items()))
        if key not in results:
            results[key] = f(*args, **kwargs)
        return results[key]

    return cast(_Function, cached)


_cache = cache


def _answer(name: str, verbose: bool) -> Any:
    answer = getattr(_capabilities, name)()
    if verbose:
        print(f"horovod: {name}() says {answer}")
    return answer


def mpi_built(verbose: bool = False) -> bool:
    """As ``horovod.torch.mpi_built``. ``verbose``: the answer is printed."""
    return bool(_answer("mpi_built", verbose))


def gloo_built(verbose: bool = False) -> bool:
    """As ``horovod.torch.gloo_built``. ``verbose``: the answer is printed."""
    return bool(_answer("gloo_built", verbose))


def nccl_built(verbose: bool = False) -> int:
    """As ``horovod.torch.nccl_built``. ``verbose``: the answer is printed."""
    return int(_answer("nccl_built", verbose))


def ddl_built(verbose: bool = False) -> bool:
    """As ``horovod.torch.ddl_built``. ``verbose``: the answer is printed."""
    return bool(_answer("ddl_built", verbose))


def ccl_built(verbose: bool = False) -> bool:
    """As ``horovod.torch.ccl_built``. ``verbose``: the answer is printed."""
    return bool(_answer("ccl_built", verbose))


def get_ext_suffix() -> str:
    """How this Python's compiled modules end."""
    return str(sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where a compiled module of a package would lie: ``pkg_path`` is its ``__file__``, or its folder."""
    folder = pkg_path if os.path.isdir(pkg_path) else os.path.dirname(pkg_path)
    *folders, name = args
    return os.path.join(folder, *folders, name + get_ext_suffix())


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether a framework's part of Horovod can be used: it exists here, and the framework is installed."""
    found = ext_base_name in ("tensorflow", "torch") and importlib.util.find_spec(ext_base_name) is not None
    if verbose:
        print(f"horovod.{ext_base_name}: {'available' if found else 'not available'}")
    return found


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """ImportError unless the framework's part can be used. Nothing is compiled, so only the name matters."""
    del ext_env_var, pkg_path, args
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(
            f"{ext_name} cannot be used: it does not exist on Ronde yet, or its framework is not installed"
        )


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether tensors in GPU memory can be used: not yet."""
    del ext_base_name, verbose
    return False


@contextlib.contextmanager
def env(**kwargs: Any) -> Iterator[None]:
    """Sets environment variables, or removes those given as None, for the duration of a block."""
    before = {name: os.environ.get(name) for name in kwargs}
    try:
        _set_all(kwargs)
        yield
    finally:
        _set_all(before)


def _set_all(variables: Dict[str, Any]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Optional[int], Optional[bool]], int]:
    """A function of ``op`` and of its deprecated forerunner ``average`` that returns the operation meant; ValueError if
    both are given. ``reduce_ops`` has ``Average`` and ``Sum``."""

    def operation(op: Optional[int], average: Optional[bool]) -> int:
        if op is not None:
            if average is not None:
                raise ValueError("give either op or its deprecated forerunner average, not both")
            return op
        if average is None:
            return int(reduce_ops.Average)
        warnings.warn("average= is deprecated: use op=Average or op=Sum", DeprecationWarning, stacklevel=3)
        return int(reduce_ops.Average if average else reduce_ops.Sum)

    return operation


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether it is 1, 2, 4, 8, ..."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items: Sequence[_Item], n: int) -> List[Sequence[_Item]]:
    """Cuts a list into ``n`` parts whose lengths differ by one at most, longer ones first."""
    size, longer = divmod(len(items), n)
    starts = [part * size + min(part, longer) for part in range(n + 1)]
    return [items[first:last] for first, last in zip(starts, starts[1:])]


def is_iterable(value: Any) -> bool:
    """Whether a loop can go over it."""
    return isinstance(value, Iterable)


def _numbers(version: str) -> List[int]:
    numbers = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return numbers


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether version ``ver`` is ``target`` or newer; only their numbers count."""
    left, right = _numbers(ver), _numbers(target)
    width = max(len(left), len(right))
    return left + [0] * (width - len(left)) >= right + [0] * (width - len(right))


def check_installed_version(
    name: str, installed_version: str, exception: Optional[Type[BaseException]] = None
) -> None:
    """Warns, or raises HorovodVersionMismatchError where an import has failed (``exception``), if Horovod was built for
    another version of a framework. Nothing of Ronde is, so it does neither."""
    from horovod.metadata import versions

    built = versions().get(name)
    if built is None or built == installed_version:
        return
    mismatch = HorovodVersionMismatchError(name, built, installed_version)
    if exception is not None:
        raise mismatch
    warnings.warn(str(mismatch), stacklevel=2)


__all__ = [
    "EXTENSIONS",
    "cache",
    "ccl_built",
    "check_extension",
    "check_installed_version",
    "ddl_built",
    "env",
    "extension_available",
    "get_average_backwards_compatibility_fun",
    "get_ext_suffix",
    "get_extension_full_path",
    "gloo_built",
    "gpu_available",
    "is_iterable",
    "is_version_greater_equal_than",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "split_list",
]
