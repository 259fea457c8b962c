"""One rank alone, by whichever Python, without a framework: how it calls the library, and that it does."""

import sys
from ctypes import addressof, c_double

from ronde import _abi, _job, _native, _operation
from ronde._slot import Slot
from ronde.exceptions import InvalidArgumentError


def main() -> None:
    if len(sys.argv) > 1:  # where the package is
        print("loads by itself:", loads())
    _job.init()
    values = (c_double * 3)(1.0, 2.0, 3.0)
    view = (addressof(values), (3,), _abi.FLOAT64)
    for _ in range(3):
        operation = _operation.submit(_abi.ALLREDUCE, "x", [view], None, values, prescale=2.0, wait=True)
        assert not operation.done() or operation.ticket is not None
        operation.release()
        assert operation.ticket is None and operation.done()
    slot = Slot("y", view, values, reduce_op=_abi.SUM)
    slot.release()
    try:
        _operation.submit(_abi.BROADCAST, "z", [view], None, values, root=1 << 40)
        print("no error")
    except InvalidArgumentError as error:
        assert "which no 32 bits hold" in str(error), error
    assert not _operation._under_way
    _job.shutdown()
    print("extension:", _native.extension is not None, "values:", list(values))


def loads() -> bool:
    try:
        from ronde import _extension  # noqa: F401

        return True
    except ImportError:
        return False


main()
