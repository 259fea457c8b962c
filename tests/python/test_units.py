"""What needs no job: the structs against the header, names, exceptions, the data reader of the example."""

from __future__ import annotations

import ctypes
import functools
import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import ronde
from ronde import _abi, _names, exceptions
from ronde.torch._tensors import DTYPE_CODES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "torch"))

STRUCTS = {
    "ronde_options": _abi.Options,
    "ronde_topology": _abi.Topology,
    "ronde_counters": _abi.Counters,
    "ronde_tensor": _abi.Tensor,
    "ronde_request": _abi.Request,
    "ronde_error_info": _abi.ErrorInfo,
}


def from_header(tmp_path: Path, expressions: list[str]) -> list[int]:
    """The values of C expressions over <ronde/ronde.h>."""
    source = tmp_path / "values.c"
    lines = "".join(f'printf("%lld\\n", (long long)({expression}));\n' for expression in expressions)
    headers = '#include <stdio.h>\n#include <stddef.h>\n#include "ronde/ronde.h"\n'
    source.write_text(f"{headers}int main(void) {{\n{lines}}}\n")
    program = tmp_path / "values"
    subprocess.run(["cc", f"-I{ROOT / 'include'}", str(source), "-o", str(program)], check=True)
    return [int(line) for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()]


def test_structs_are_those_of_the_header(tmp_path):
    expressions, expected = [], []
    for name, struct in STRUCTS.items():
        expressions.append(f"sizeof({name})")
        expected.append(ctypes.sizeof(struct))
        for field, *_ in struct._fields_:
            expressions += [f"offsetof({name}, {field})", f"sizeof((({name}*)0)->{field})"]
            expected += [getattr(struct, field).offset, getattr(struct, field).size]
    assert from_header(tmp_path, expressions) == expected


def test_numbers_are_those_of_the_header(tmp_path):
    names = [name for name, value in vars(_abi).items() if name.isupper() and isinstance(value, int)]
    names = [name for name in names if name != "MAX_DIMENSIONS"]
    assert len(names) > 25
    assert from_header(tmp_path, [f"RONDE_{name}" for name in names]) == [getattr(_abi, name) for name in names]


def test_every_status_has_an_exception(tmp_path):
    for code in range(1, 18):
        error = exceptions.error_of(code, "sentence", 3, "tensor")
        assert isinstance(error, exceptions.RondeError) and isinstance(error, RuntimeError)
        assert (error.code, error.rank, error.tensor) == (code, 3, "tensor")
        assert str(error).startswith("sentence")  # before init Horovod's words follow, which programs look for
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and vars(again) == vars(error) and str(again) == str(error)


def test_families():
    for base in (exceptions.CollectiveError, ValueError):
        assert issubclass(exceptions.MismatchError, base)
    for wrong_call in (exceptions.InvalidArgumentError, exceptions.DuplicateNameError, exceptions.NotInitializedError):
        assert issubclass(wrong_call, ValueError) and not issubclass(wrong_call, exceptions.CollectiveError)
    for failure in (exceptions.PeerLostError, exceptions.PeerLeftError, exceptions.TimedOutError):
        assert issubclass(failure, exceptions.CollectiveError)


def test_bytes_per_element():
    library = __import__("ronde._lib", fromlist=["library"]).library()
    library.ronde_dtype_bytes.restype = ctypes.c_size_t
    for dtype, code in DTYPE_CODES.items():
        assert library.ronde_dtype_bytes(code) == dtype.itemsize, dtype


def test_names():
    assert _names.name_of("allreduce", "x") == "allreduce.x"
    assert _names.part_of("allreduce.x", "rows") == "rows of allreduce.x"
    assert _names.name_of_gradient(_names.name_of("allreduce", "x", 3)).group == 3


def test_importing_the_package_loads_no_framework():
    code = "import ronde, sys; assert 'torch' not in sys.modules and 'ronde._lib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert ronde.__all__


def test_a_missing_or_wrong_library_is_one_sentence(tmp_path):
    code = "import ronde.torch as hvd\ntry: hvd.init()\nexcept ImportError as error: print(error)"
    import os

    environment = {**os.environ, "RONDE_LIBRARY": str(tmp_path / "libronde.so")}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "cannot be loaded" in run.stdout and "RONDE_LIBRARY" in run.stdout
    source = tmp_path / "old.c"
    source.write_text("unsigned ronde_abi_version(void) { return 7; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "libronde.so")], check=True)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "version 7" in run.stdout and str(_abi.ABI_VERSION) in run.stdout


def test_idx_reader(tmp_path):
    import fashion_mnist_data as data

    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])))
    assert data.read_idx(path).tolist() == [[1, 2, 3], [4, 5, 6]]
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3])))
    with pytest.raises(ValueError, match="no idx file"):
        data.read_idx(path)


def test_the_example_without_data_says_what_to_do(tmp_path):
    script = ROOT / "examples" / "torch" / "fashion_mnist.py"
    run = subprocess.run([sys.executable, str(script), "--data", str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 1 and len(run.stderr.strip().splitlines()) == 1
    assert "dataset-fashion-mnist" in run.stderr and "--download" in run.stderr


def test_the_call_site_is_the_nearest_frame_of_the_program():
    """Modules within modules: frames of PyTorch lie between frames of the program, at any depth."""
    from ronde._call_site import call_site
    from ronde._lib import library

    space: dict = {}
    exec(compile("def through(call): return call()", str(Path(torch.__file__).parent / "made_up.py"), "exec"), space)
    through = space["through"]

    def number_of_this_line() -> int:
        frame = sys._getframe(1)
        text = f"{frame.f_code.co_filename.removeprefix(os.getcwd() + os.sep)}:{frame.f_lineno}".encode()
        number = ctypes.c_int32()
        assert library().ronde_call_site(text, len(text), ctypes.byref(number)) == 0
        return number.value

    def near() -> bool:
        return through(call_site) == number_of_this_line()

    def deep(levels: int) -> int:
        call = call_site
        for _ in range(levels):
            call = functools.partial(through, call)
        return call()

    for levels in range(6):
        assert deep(levels) != 0  # through so many frames of PyTorch
        assert through(lambda: through(near)) and through(near) and near()
