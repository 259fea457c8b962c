"""What tools/dist has made, as people get it: names, tags, checksums, and an installation by each Python that is here."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DIST = ROOT / "build/dist"
VERSION = re.search(r"project\(ronde VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
ARCHITECTURES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
OLDEST_GLIBC = (2, 34)
HOROVOD = "horovod-0.28.1+ronde1-py3-none-any.whl"
MINORS = range(9, 15)  # of CPython 3, from what pyproject.toml requires to the newest release


pytestmark = pytest.mark.dist


@pytest.fixture(autouse=True)
def made():
    assert DIST.is_dir(), "nothing is in build/dist: call make dist first, or make test STAGES=dist"


def wheel(architecture):
    return DIST / f"ronde-{VERSION}-py3-none-manylinux_{OLDEST_GLIBC[0]}_{OLDEST_GLIBC[1]}_{architecture}.whl"


def files_of(wheel_file):
    with zipfile.ZipFile(wheel_file) as archive:
        return sorted(name for name in archive.namelist() if not name.endswith("/"))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def unpacked(request, tmp_path_factory):
    """An architecture, and the files of its wheel that the loader looks at."""
    folder = tmp_path_factory.mktemp(request.param)
    with zipfile.ZipFile(wheel(request.param)) as archive:
        archive.extractall(folder)
    return request.param, [*(folder / "ronde").glob("*.so"), *folder.glob("*.data/scripts/ronde")]


def test_all_that_is_released_is_there_and_nothing_else():
    assert {path.name for path in DIST.iterdir()} == {
        *(wheel(architecture).name for architecture in ARCHITECTURES), f"ronde-{VERSION}.tar.gz", HOROVOD, "NOTES.md",
        "SHA256SUMS"}


def test_checksums_are_right_and_complete(run):
    told = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)
    assert told.count(": OK\n") == len(list(DIST.iterdir())) - 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_auditwheel_confirms_the_tag(run, architecture):
    told = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel(architecture)).split())
    assert f'is consistent with the following platform tag: "manylinux_2_34_{architecture}"' in told
    with zipfile.ZipFile(wheel(architecture)) as archive:
        said = archive.read(f"ronde-{VERSION}.dist-info/WHEEL").decode()
    assert re.findall(r"^Tag: (.*)$", said, flags=re.MULTILINE) == [f"py3-none-manylinux_2_34_{architecture}"]


def test_its_programs_and_libraries_are_for_its_machine(run, unpacked):
    architecture, files = unpacked
    assert {path.name for path in files} == {"libronde.so", "libronde_jax.so", "libronde_tf.so", "_extension.abi3.so", "ronde"}
    for path in files:
        assert re.search(r"Machine: +(.*)", run("readelf", "--file-header", path))[1] == ARCHITECTURES[architecture]


def test_what_is_for_aarch64_is_loaded_and_runs_by_qemu(run, tmp_path):
    """All libraries but the extension module, which needs a Python: each symbol that they ask for is found."""
    with zipfile.ZipFile(wheel("aarch64")) as archive:
        archive.extractall(tmp_path)
    [command] = tmp_path.glob("*.data/scripts/ronde")
    command.chmod(0o755)
    libraries = ":".join(str(tmp_path / "ronde" / name) for name in ("libronde.so", "libronde_jax.so", "libronde_tf.so"))
    told = run("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_PRELOAD={libraries}", "-E", "LD_BIND_NOW=1",
               command, "--version")
    assert told.strip() == f"ronde {VERSION}", "no word of the loader's"


def test_no_function_of_a_newer_glibc_is_asked_for(run, unpacked):
    """Beside auditwheel's word, so that a file which it does not look at cannot slip through."""
    for path in unpacked[1]:
        asked = re.findall(r"Name: GLIBC_([0-9.]+)", run("readelf", "--version-info", "--wide", path))
        assert max(tuple(map(int, each.split("."))) for each in asked) <= OLDEST_GLIBC, path


def test_the_wheels_have_the_same_files():
    assert files_of(wheel("x86_64")) == files_of(wheel("aarch64"))


def test_notes_are_the_changelogs():
    notes = (DIST / "NOTES.md").read_text(encoding="utf-8")
    assert notes.startswith(f"# Ronde {VERSION}")
    first = re.search(r"^- .*$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[0]
    assert first in notes


def test_the_sdist_builds_the_wheel(run, tmp_path):
    with tarfile.open(DIST / f"ronde-{VERSION}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    tree = tmp_path / f"ronde-{VERSION}"
    # With the release preset's settings, so that the compiler cache has the objects.
    settings = ("build-dir=build/wheel", "cmake.define.RONDE_CCACHE=ON", "cmake.define.RONDE_WERROR=ON",
                f"cmake.define.RONDE_VIEWS={tree}/build/include")
    jobs = os.environ.get("JOBS") or str(len(os.sched_getaffinity(0)))
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path,
        *(word for each in settings for word in ("--config-settings", each)), tree,
        env={"CC": "cc", "CXX": "c++", "CMAKE_BUILD_PARALLEL_LEVEL": jobs}, limit_s=1800)
    [built] = tmp_path.glob("*.whl")
    assert files_of(built) == files_of(wheel(os.uname().machine))


def interpreter(minor):
    """CPython 3.minor of the path or of pyenv; None where there is none."""
    candidates = [shutil.which(f"python3.{minor}")]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout.strip()
        candidates += sorted(Path(root).glob(f"versions/3.{minor}.*/bin/python3.{minor}"))
    for python in filter(None, candidates):
        tried = subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False, timeout=60)
        if tried.returncode == 0:
            return python
    return None


@pytest.mark.parametrize("minor", MINORS)
def test_a_bare_environment_installs_it_and_trains(run, tmp_path, minor):
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no CPython 3.{minor} is here, neither in the path nor of pyenv")
    run(python, "-m", "venv", tmp_path / "venv")
    bare = {"PATH": str(tmp_path / "venv/bin")}
    pip = (tmp_path / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--only-binary=:all:")
    run(*pip, "numpy", env=bare, limit_s=600)
    began = time.monotonic()
    run(*pip, "--no-index", wheel(os.uname().machine), env=bare)
    print(f"CPython 3.{minor} has installed the wheel in {time.monotonic() - began:.1f} s")  # shown by pytest -rP
    assert not [name for name in ("cc", "c++", "gcc", "clang", "cmake") if shutil.which(name, path=bare["PATH"])]
    program = ROOT / "tests/install/dist/train.py"
    told = run(tmp_path / "venv/bin/ronde", "run", "-n", "2", "python", program, cwd=tmp_path, env=bare)
    assert all(f"rank {rank} of 2 has fitted the line" in told for rank in range(2))
    run(*pip, "--no-index", "--no-deps", DIST / HOROVOD, env=bare)
    assert run(tmp_path / "venv/bin/python", "-c", "import horovod; print(horovod.__version__)", env=bare).strip() == "0.28.1"
