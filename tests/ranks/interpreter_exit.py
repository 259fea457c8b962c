"""A rank in a Python interpreter that ends with operations under way, while a daemon thread goes on with its own."""

import threading
from array import array

from ronde import _abi, _operation, _process
from ronde.exceptions import RondeError

COUNT = 100_000


def allreduce(values, name, wait):
    address, count = values.buffer_info()
    return _operation.submit(_abi.ALLREDUCE, name, [(address, (count,), _abi.FLOAT32)], [address], values, wait=wait)


def go_on():
    values = array("f", [1.0]) * COUNT
    try:
        while True:
            allreduce(values, "again and again", wait=True).release()
    except RondeError:
        return  # this rank or another has left


_process.init()
first = array("f", [1.0]) * COUNT
allreduce(first, "first", wait=True).release()
assert first[-1] == _process.size(), first[-1]
threading.Thread(target=go_on, daemon=True).start()
for number in range(20):
    allreduce(array("f", [1.0]) * COUNT, f"under way {number}", wait=False)
