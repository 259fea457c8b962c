"""The distribution `horovod` as users install it: beside Ronde's wheel, in an environment of its own."""

import re
import sys

import pytest


@pytest.fixture(scope="module")
def wheel(run, root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder,
        root / "compat/horovod")
    [built] = folder.glob("*.whl")
    return built


def test_it_is_pure_python(run, wheel):
    assert wheel.name == "horovod-0.28.1+ronde1-py3-none-any.whl"
    names = run(sys.executable, "-m", "zipfile", "--list", wheel)
    assert not re.search(r"\.(so|pyc)\b|__pycache__", names)
    assert "horovod/metadata.json" in names and "horovod/runner/_task.py" in names


def test_it_needs_the_ronde_of_this_tree(run, root):
    version = re.search(r"project\(ronde VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    said = run(sys.executable, "-c", "import importlib.metadata as m; print(m.requires('horovod'))")
    assert f"'ronde=={version}'" in said


def test_versions(run):
    said = run(sys.executable, "-c",
               "import horovod, importlib.metadata as m; print(m.version('horovod'), horovod.__version__)")
    assert said.split() == ["0.28.1+ronde1", "0.28.1"]


def test_pip_is_content(run):
    assert "No broken requirements found." in run(sys.executable, "-m", "pip", "check")


def test_all_that_is_installed_is_in_the_wheel(run, wheel, root):
    """No file of an earlier version is left, and none of the tree is missing."""
    names = run(sys.executable, "-m", "zipfile", "--list", wheel)
    listed = set(re.findall(r"^(horovod/\S+)", names, flags=re.MULTILINE))
    tree = root / "compat/horovod"
    assert listed == {str(path.relative_to(tree)) for path in (tree / "horovod").rglob("*")
                      if path.is_file() and path.suffix != ".pyc"}


def test_another_package_of_that_name_takes_its_place(run, tmp_path, wheel):
    """`pip install` replaces: the folder of the one is gone before the other's is there."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    old = tmp_path / "old"
    (old / "horovod/torch").mkdir(parents=True)
    (old / "horovod/__init__.py").write_text("__version__ = '0.28.1'\n")
    (old / "horovod/torch/mpi_lib_v2.py").write_text("")
    (old / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"\n'
        '[project]\nname = "horovod"\nversion = "0.28.1"\n'
        '[tool.scikit-build]\nwheel.cmake = false\nwheel.packages = ["horovod"]\n')
    python = tmp_path / "venv/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, old)
    run(*pip, next(tmp_path.glob("horovod-*.whl")))
    run(*pip, wheel)
    assert run(python, "-c", "import horovod; print(horovod.__version__)").strip() == "0.28.1"
    assert list((tmp_path / "venv").rglob("mpi_lib*")) == []
