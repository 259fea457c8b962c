"""`pip install .` in a bare environment, `cmake --install`, and a C and C++ project that uses either."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

# The user's tools without our .venv in front, so that nothing is found there by accident.
BARE_PATH = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if ".venv" not in part)


@pytest.fixture(scope="module")
def environment(run, root, tmp_path_factory):
    """A virtual environment with nothing but what `pip install .` put there."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    run(sys.executable, "-m", "venv", folder)
    # With the release preset's settings, so that the compiler cache has the objects; the folder is this test's own.
    settings = ("build-dir=build/bare", "cmake.define.RONDE_CCACHE=ON", "cmake.define.RONDE_WERROR=ON",
                f"cmake.define.RONDE_VIEWS={root / 'build/include'}")
    run(folder / "bin/pip", "install", *(word for each in settings for word in ("--config-settings", each)), root,
        env={"PATH": BARE_PATH, "CC": "cc", "CXX": "c++"}, limit_s=900)
    return folder


def ask(run, environment, expression):
    return run(environment / "bin/python", "-c", f"import ronde; print({expression})", cwd="/").strip()


def build_consumer(run, root, prefix, folder):
    """Builds the consumer project against the package below `prefix`; returns the folder with its programs."""
    run("cmake", "-S", root / "tests/install/consumer", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", folder)
    return folder


def check_consumer(run, folder):
    for program in ("from_c", "from_cpp"):
        assert "rank 0 of 1" in run(folder / program)


def test_wheel_serves_every_python(root, environment):
    files = list(environment.glob("lib/python*/site-packages/ronde-*.dist-info/WHEEL"))
    assert len(files) == 1
    assert "Tag: py3-none-linux_" in files[0].read_text(encoding="utf-8")


def test_licences_of_what_is_inside_come_with_it(root, environment):
    [information] = environment.glob("lib/python*/site-packages/ronde-*.dist-info")
    found = {path.name for path in (information / "licenses").rglob("*") if path.is_file()}
    assert {"LICENSE", *(path.name for path in (root / "licenses").iterdir())} == found
    # Each library of which something is in the library or the command.
    page = (root / "docs/decisions/0001-third-party-libraries.md").read_text(encoding="utf-8")
    shipped = re.findall(r"^\| ([^|]+) \|[^|]+\|[^|]*in (?:both|the command)", page, flags=re.MULTILINE)
    words = {"nlohmann/json": "nlohmann-json"}
    assert len(shipped) >= 5 and {f"{words.get(each, each).lower()}.txt" for each in shipped} <= found


def test_version_has_one_source(run, root, environment):
    assert f"project(ronde VERSION {ask(run, environment, 'ronde.__version__')} " in (root / "CMakeLists.txt").read_text()


def test_import_loads_nothing_heavy(run, environment):
    # The library and ctypes come with ronde.torch and its like, not with `import ronde`.
    code = "import sys, ronde; print([m for m in ('ctypes', 'numpy', 'torch', 'tensorflow', 'keras') if m in sys.modules])"
    assert run(environment / "bin/python", "-c", code, cwd="/").strip() == "[]"


def test_library_lies_in_the_package(run, environment):
    code = "import ctypes, pathlib, ronde; print(ctypes.CDLL(pathlib.Path(ronde.__file__).parent / 'libronde.so'))"
    assert "libronde.so" in run(environment / "bin/python", "-c", code, cwd="/")
    assert len(list(environment.glob("lib/python*/site-packages/ronde/libronde_tf.so"))) == 1


def test_a_framework_that_is_missing_is_named(run, environment):
    for module in ("ronde.tensorflow", "ronde.keras"):
        code = f"""
try:
    import {module}
except ModuleNotFoundError as error:
    print(error.name)"""
        assert run(environment / "bin/python", "-c", code, cwd="/").strip() == module.rpartition(".")[2]


def test_type_hints_are_there_for_type_checkers(run, environment):
    assert Path(ask(run, environment, "ronde.cmake_prefix_path"), "py.typed").is_file()


def test_headers_are_found(run, environment):
    include = Path(ask(run, environment, "ronde.get_include()"))
    assert (include / "ronde/ronde.h").is_file()
    assert (include / "ronde/ronde.hpp").is_file()


def test_command_is_installed(run, environment):
    assert "run" in run(environment / "bin/ronde", "--help")


def test_project_uses_the_wheel(run, root, environment, tmp_path):
    prefix = ask(run, environment, "ronde.cmake_prefix_path")
    folder = build_consumer(run, root, prefix, tmp_path / "build")
    check_consumer(run, folder)
    output = run(environment / "bin/ronde", "run", "-n", "2", "--", folder / "from_cpp", limit_s=180)
    assert "rank 0 of 2, sum right" in output
    assert "rank 1 of 2, sum right" in output


def test_project_uses_a_cmake_installation(run, root, tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", root / "build/release", "--prefix", prefix, "--component", "ronde")
    assert (prefix / "bin/ronde").is_file()
    assert shutil.which("ronde", path=str(prefix / "bin"))
    check_consumer(run, build_consumer(run, root, prefix, tmp_path / "build"))
