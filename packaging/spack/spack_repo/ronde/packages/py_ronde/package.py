# Ronde for Spack 1.0 and later, from the tree that this file lies in: docs/releases.md.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyRonde(PythonPackage):
    """A distributed training engine: averages gradients between processes, launches them and explains failures."""

    license("Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-scikit-build-core@0.11:", type="build")
    depends_on("cli11@2.1:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("xxhash@0.8:", type="build")
    # Its static archive becomes part of a shared library.
    depends_on("libsodium@1.0.18: cflags=-fPIC", type="build")

    conflicts("%gcc@:11", msg="Ronde is written in C++20, of which GCC has enough from 12 on")
    conflicts("platform=darwin", msg="Ronde runs on Linux")
    conflicts("platform=windows", msg="Ronde runs on Linux")

    import_modules = ["ronde"]
