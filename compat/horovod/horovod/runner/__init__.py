"""``horovod.run``: a Python function on several ranks."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

__all__ = ["run"]


class _HorovodArgs:
    """The settings of a run, as the command line would give them: an attribute for each of its destinations, None where
    nothing was given."""

    def __init__(self) -> None:
        from horovod.runner._flags import flags

        for flag in flags():
            setattr(self, flag.dest, None)
        self.nics: Optional[str] = None
        self.command: List[str] = []
        self.run_func: Optional[Callable[[], Any]] = None
        self.executable: Optional[str] = None
        self.override_args: Dict[str, str] = {}


#: Old names of arguments.
_OLD_NAMES = {
    "np": "num_proc",
    "min_np": "min_num_proc",
    "max_np": "max_num_proc",
    "network_interface": "network_interfaces",
}


def _settings(given: Dict[str, Any]) -> _HorovodArgs:
    """The arguments of :func:`run` as settings. ValueError if the function is none."""
    func, args, kwargs = given.pop("func"), given.pop("args"), given.pop("kwargs")
    if not callable(func):
        raise ValueError(f"horovod.run needs a function to call, not {type(func).__name__}")
    for old, new in _OLD_NAMES.items():
        value = given.pop(old)
        if value is not None:
            warnings.warn(f"{old}= is deprecated: use {new}=", DeprecationWarning, stacklevel=4)
            given[new] = value
    settings = _HorovodArgs()
    settings.nics = given.pop("network_interfaces")
    for dest, value in given.items():
        setattr(settings, dest, value)
    settings.run_func = functools.partial(func, *args, **(kwargs or {}))
    return settings


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = None,
    num_proc: int = 1,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Tuple[int, int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    host_discovery_script: Optional[str] = None,
    start_timeout: Optional[float] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[int] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Optional[str] = None,
    network_interfaces: Optional[str] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
) -> List[Any]:
    """Calls ``func(*args, **kwargs)`` in ``num_proc`` new processes, the ranks of one job, and returns what they
    returned, in rank order.

    Args:
        func: any function, lambdas, closures and those of a notebook too; it, its arguments and its result travel
            pickled by cloudpickle, in a folder that only this user can read.
        args: the function's arguments by place.
        kwargs: those by name.
        num_proc: how many ranks; ``np`` is its old name.
        min_num_proc: taken for ``num_proc`` where that is None; ``min_np`` is its old name.
        reset_limit: how often elastic training may start again.
        hosts: where they run and how many on each: ``localhost:4``; so far this host only.
        hostfile: the same in a file with lines ``localhost slots=4``.
        start_timeout: how many seconds ranks wait for one another in ``hvd.init()``.
        output_filename: a folder that also gets what each rank prints, in ``rank.N/stdout`` and ``stderr``.
        verbose: above 0: say what is started, on standard error.
        executable: the Python that runs the ranks; None: this one.
        use_gloo: Ronde's own way, also where ``RONDE_BACKEND=mpi``.
        use_mpi: the site's MPI starts the ranks, on this host, and moves their data.
        mpi_args: with ``use_mpi``: more options of its launcher.

    Accepted as ``horovodrun`` accepts them, without effect and named once on standard error where given: ``max_num_proc``
    (``max_np``), ``slots``, ``cooldown_range``, ``host_discovery_script``, ``ssh_port``, ``ssh_identity_file``,
    ``disable_cache``, ``network_interfaces`` (``network_interface``).

    Raises ValueError if the settings cannot be followed, RuntimeError with the traceback of the rank that failed first
    if one fails. Ctrl-C ends the ranks.
    """
    settings = _settings(dict(locals()))

    from horovod.runner.launch import _run

    results = _run(settings)
    assert results is not None
    return results
