"""TensorFlow's operations of Ronde: loads ``libronde_tf.so`` and calls what it registers.

Each request is two operations. *Start* hands it to the engine and returns at once; *Done* waits, for any number of
them. One Done per list keeps TensorFlow's threads free: a Done waits for what has begun already, never for what needs a
thread of its pool to begin. All have state, so a graph runs each of them, in the order in which they were made.

In eager mode the wait is Python's, in slices, so that Ctrl-C is answered.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
import types
from pathlib import Path
from typing import Any, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

import tensorflow as tf

from ronde import _abi
from ronde._call_site import call_site
from ronde._lib import library
from ronde.exceptions import RondeError, UnsupportedError, error_of
from ronde.tensorflow._nested_functions import keep_in_order

#: A wait in C comes back this often so that Python can answer a signal, in seconds.
_SLICE_S = 0.05

_MESSAGE_BYTES = 4096

#: In place of a name in an operation's attributes: it has been said to the library before; see attributes.h.
_NAME_FOLLOWS = "\x01"

#: Begins a name to which the iteration of a loop is added; see attributes.h.
_OF_ITERATION = "\x02"

#: Answers of ronde_tf_finish.
_UNDER_WAY, _SUCCEEDED = 0, 1

#: What RondeTopology is asked for.
RANK, SIZE, LOCAL_RANK, LOCAL_SIZE = 0, 1, 2, 3


class Call(NamedTuple):
    """A request without its tensors."""

    op: int
    name: str  # "": an unnamed call
    reduce_op: int = _abi.SUM
    root: int = 0
    group: int = 0
    prescale: float = 1.0
    postscale: float = 1.0


class Started(NamedTuple):
    """A request under way."""

    outputs: Sequence[Any]  # of the shapes of its tensors; not to be read before it is done
    token: Any


def _path() -> Path:
    """Beside libronde.so, where the wheel puts it; RONDE_TF_LIBRARY names another, for work on Ronde itself."""
    override = os.environ.get("RONDE_TF_LIBRARY")
    return Path(override) if override else Path(__file__).resolve().parents[1] / "libronde_tf.so"


class _Binding(NamedTuple):
    operations: Any
    say_name: Any
    finish: Any
    cancel: Any
    failure: Any


@functools.lru_cache(maxsize=None)
def _binding() -> _Binding:
    """Loaded once, after libronde.so, which it is linked with by name."""
    library()
    path = _path()
    try:
        operations = tf.load_op_library(str(path))
        loaded = ctypes.CDLL(str(path))
    except (OSError, tf.errors.NotFoundError) as error:
        raise ImportError(
            f"Ronde's part for TensorFlow cannot be loaded ({error}). Install the package `ronde` again, or set "
            "RONDE_TF_LIBRARY to the path of a libronde_tf.so."
        ) from error
    loaded.ronde_tf_error.restype = ctypes.c_char_p
    problem = loaded.ronde_tf_error().decode()
    if problem:
        raise ImportError(f"Ronde cannot add its operations to TensorFlow {tf.__version__}: {problem}")
    say_name = loaded.ronde_tf_name
    say_name.argtypes = [ctypes.c_char_p]
    say_name.restype = None
    finish = loaded.ronde_tf_finish
    finish.argtypes = [ctypes.c_int64, ctypes.c_double, ctypes.c_int32]
    cancel = loaded.ronde_tf_cancel
    cancel.argtypes = [ctypes.c_int64]
    cancel.restype = None
    failure = loaded.ronde_tf_failure
    failure.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int32), ctypes.c_char_p, ctypes.c_size_t
    ]
    _refuse_pfor()
    keep_in_order()
    return _Binding(operations, say_name, finish, cancel, failure)


def _refuse_pfor() -> None:
    """``tf.vectorized_map`` and Jacobians make one loop of all Starts and a second one of all Dones, and copy what Starts
    hand on in between, before it is there: the rows would be anything. A converter that refuses takes the loops' place."""
    try:
        from tensorflow.python.ops.parallel_for.pfor import RegisterPFor
    except ImportError:  # where TensorFlow has it elsewhere there is no such loop to be kept from
        return

    def refuse(_: Any) -> NoReturn:
        raise UnsupportedError(
            "Ronde's operations cannot be vectorised, as tf.vectorized_map and the Jacobian of a GradientTape do by default: "
            "use tf.map_fn, or experimental_use_pfor=False",
            3,
        )

    for operation in ("RondeStart", "RondeDone"):
        RegisterPFor(operation)(refuse)


def load() -> None:
    """Loads the library. Raises ImportError if it, or a function of TensorFlow that it needs, is not there."""
    _binding()


def refuse_xla() -> None:
    """Raises UnsupportedError while a function is traced for XLA, which cannot run these operations."""
    from tensorflow.python.ops import control_flow_util

    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise UnsupportedError(
            "Ronde's operations cannot be compiled by XLA: they are called in a tf.function with jit_compile=True; use "
            "jit_compile=False there (in Keras: model.compile(..., jit_compile=False)), or call them outside of it",
            3,
        )


def _data_sets() -> List[str]:
    """The classes of tf.data that trace a function now. TensorFlow tells of it nowhere but in its own callers."""
    found: List[str] = []
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__init__" and str(frame.f_globals.get("__name__", "")).startswith("tensorflow.python.data"):
            found.append(type(frame.f_locals.get("self")).__name__)
        frame = frame.f_back
    return found


def is_part(graph: Any) -> bool:
    """Whether the graph of a function is the body of a loop or a branch, which TensorFlow runs as part of another graph."""
    parts = ("CondBranchFuncGraph", "WhileCondFuncGraph", "WhileBodyFuncGraph")
    return any(each.__name__ in parts for each in type(graph).__mro__)


def _is_of_a_function() -> bool:
    """Whether the graph that is being made is a function that another graph calls."""
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        if not is_part(graph):
            return True
        graph = graph.outer_graph
    return False


def _check_graph() -> None:
    """Raises UnsupportedError where the graph that is being made runs operations in a way in which calls cannot be made."""
    refuse_xla()
    data_sets = _data_sets()
    for data_set in (each for each in data_sets if "Parallel" in each or "MapAndBatch" in each):
        raise UnsupportedError(
            "a call of Ronde in a function that tf.data runs for several elements at once (num_parallel_calls, in "
            f"{data_set}): ranks could not tell its elements apart. Leave num_parallel_calls out, or make the call behind the "
            "data set",
            3,
        )
    if not data_sets and not tf.compat.v1.executing_eagerly_outside_functions() and _is_of_a_function():
        # In several places, or in a loop's iterations: TensorFlow does not tell which of them runs.
        raise UnsupportedError(
            "a call of Ronde in a tf.function that a session's graph calls: the graph may call it several times at once, in "
            "another order on each rank, and ranks could not tell the calls apart. Make the call outside of the function, in "
            "the graph or in the body of its loop, or use the function without a session",
            3,
        )


def _bits(factor: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", factor))[0])


def _attributes(call: Call) -> dict[str, Any]:
    return {
        "tensor_name": call.name,
        "op": call.op,
        "reduce_op": call.reduce_op,
        "root": call.root,
        "group": call.group,
        "prescale_bits": _bits(call.prescale),
        "postscale_bits": _bits(call.postscale),
        "call_site": call_site(),
    }


def call_of(operation: Any) -> Call:
    """What a RondeStart, of a graph or of a tape, was made with."""
    said = operation.get_attr
    name = tf.compat.as_str(said("tensor_name")).removeprefix(_OF_ITERATION)
    factors = [struct.unpack("<d", struct.pack("<q", said(f"{which}scale_bits")))[0] for which in ("pre", "post")]
    return Call(
        said("op"), name, said("reduce_op"), said("root"), said("group"), *factors
    )


def is_recorded() -> bool:
    """Whether a tape may see what is done now in eager mode."""
    try:
        from tensorflow.python.eager import record
    except ImportError:  # TensorFlow before 2.13
        return True
    return bool(record.could_possibly_record())


def refuse_tangents(tensors: Sequence[Any]) -> None:
    """UnsupportedError where a ``ForwardAccumulator`` follows one of the tensors: in eager mode TensorFlow takes the derivative by
    the operation's gradient and by that of what it is made of, one after the other, and each reduces; in a function it has no
    operation that its gradient could ask. A function that is called under one is differentiated as a whole."""
    from tensorflow.python.eager import forwardprop_util

    if forwardprop_util.pack_tangents(list(tensors)).tangents:
        raise UnsupportedError(
            "Ronde's operations have no forward-mode derivatives of their own (tf.autodiff.ForwardAccumulator): put them in a "
            "tf.function that is called under the accumulator",
            3,
        )


def _said(call: Call) -> Tuple[Call, bytes]:
    """The call with its name said beforehand where that can be done, since TensorFlow keeps a kernel for each name for good;
    and what must live until it is made. A tape keeps the attributes, and must know the name; in asynchronous eager mode another
    thread makes the call. In a session's graph the iterations of a loop run at once, and get names of their own."""
    if call.name and not tf.compat.v1.executing_eagerly_outside_functions():
        return call._replace(name=_OF_ITERATION + call.name), b""
    if not call.name or not tf.executing_eagerly() or not tf.config.experimental.get_synchronous_execution() or is_recorded():
        return call, b""
    name = call.name.encode()
    if b"\0" in name:
        return call, b""
    _binding().say_name(name)
    return call._replace(name=_NAME_FOLLOWS), name


def start(tensors: Sequence[Any], call: Call) -> Started:
    """Begins a request whose results have the shapes of its tensors. In eager mode raises what the engine refuses."""
    if not tf.executing_eagerly():
        _check_graph()
    told, kept = _said(call)
    try:
        return Started(*_binding().operations.ronde_start(tensors=tensors, **_attributes(told)))
    except tf.errors.OpError as error:
        raise_as_own(error)
    finally:
        del kept  # the library has read it


def done(started: Sequence[Started]) -> List[Any]:
    """The results of all of them, in order, one after the other. In eager mode raises the error of the first that has
    failed; in a graph the session or function that runs it does, as one of ``tf.errors``."""
    outputs = [output for each in started for output in each.outputs]
    tokens = [each.token for each in started]
    if not tf.executing_eagerly():
        return list(_binding().operations.ronde_done(inputs=outputs, tokens=tokens))
    left = [int(token) for token in tokens]
    failed = not _finish(left)
    if failed:
        _raise_failure(lambda: _binding().operations.ronde_done(inputs=outputs, tokens=_as_tensors(left)))
    return outputs


def _as_tensors(tokens: Sequence[int]) -> List[Any]:
    return [tf.constant(token, tf.int64) for token in tokens]


def _finish(left: List[int]) -> bool:
    """Waits for the requests of these tokens; those that have succeeded leave the list. False at the first that has
    failed. If a signal's handler raises, those that are left are given up."""
    finish = _binding().finish
    try:
        while left:
            answer = finish(left[0], _SLICE_S, 0)
            if answer == _SUCCEEDED:
                del left[0]
            elif answer != _UNDER_WAY:
                return False
    except BaseException:
        for token in left:
            _binding().cancel(token)
        raise
    return True


def run(tensors: Sequence[Any], call: Call) -> List[Any]:
    """Start and Done of one request."""
    return done([start(tensors, call)])


class StartedRows(NamedTuple):
    """A request under way whose results have shapes that are known at its end only."""

    token: Any


def start_rows(tensors: Sequence[Any], call: Call, splits: Optional[Any] = None) -> StartedRows:
    """Begins such a request. ``splits``: of an alltoall, a tensor of int64 with one dimension, the rows for each rank.
    In eager mode raises what the engine refuses."""
    rows = tf.zeros([0], tf.int64) if splits is None else splits
    if not tf.executing_eagerly():
        _check_graph()
    told, kept = _said(call)
    try:
        token = _binding().operations.ronde_start_rows(tensors=tensors, splits=rows, **_attributes(told))
    except tf.errors.OpError as error:
        raise_as_own(error)
    finally:
        del kept  # the library has read it
    return StartedRows(token)


def done_rows(started: StartedRows, types: Sequence[Any]) -> Tuple[List[Any], Any]:
    """The results, of these types, and of an alltoall how many rows came from each rank. Raises as :func:`done`."""
    try:
        if tf.executing_eagerly():
            _wait(int(started.token))
        return _split(_binding().operations.ronde_done_rows(token=started.token, T=types))
    except tf.errors.OpError as error:
        raise_as_own(error)


def run_rows(
    tensors: Sequence[Any], call: Call, types: Sequence[Any], splits: Optional[Any] = None
) -> Tuple[List[Any], Any]:
    """Start and Done of one such request."""
    return done_rows(start_rows(tensors, call, splits), types)


def _split(result: Any) -> Tuple[List[Any], Any]:
    return list(result.outputs), result.received_splits


def _wait(token: int) -> None:
    try:
        while _binding().finish(token, _SLICE_S, 1) == _UNDER_WAY:
            pass
    except BaseException:
        _binding().cancel(token)
        raise


def topology(what: int, name: Optional[str]) -> Any:
    """A tensor that says who this process is whenever it is run."""
    return _binding().operations.ronde_topology(what=what, name=name)


def own_error(error: BaseException) -> Optional[RondeError]:
    """What Ronde means by an error of TensorFlow; None if it is not Ronde's."""
    if not isinstance(error, tf.errors.OpError):
        return None
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    tensor = ctypes.create_string_buffer(_MESSAGE_BYTES)
    rank = ctypes.c_int32(-1)
    text = str(error.message).encode(errors="replace")
    status = _binding().failure(text, message, _MESSAGE_BYTES, ctypes.byref(rank), tensor, _MESSAGE_BYTES)
    if status == _abi.OK:
        return None
    said = (part.value.decode(errors="replace") for part in (message, tensor))
    text_said, tensor_said = said
    return error_of(int(status), text_said, rank.value, tensor_said)


def raise_as_own(error: BaseException) -> NoReturn:
    """Raises Ronde's error in place of TensorFlow's, which says the same with more around it."""
    own = own_error(error)
    if own is None:
        raise error
    raise own from None


def _raise_failure(again: Any) -> NoReturn:
    try:
        again()
    except tf.errors.OpError as error:
        raise_as_own(error)
    raise RondeError("a request of Ronde has failed, and its error is gone")
