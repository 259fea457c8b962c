"""The recipes of packaging/ by themselves: they are what their systems read, and say what the project says. No conda and no
Spack is here, so nothing is built by them."""

import re
import sys
import tomllib
import types

import jinja2  # PyTorch brings it
import pytest
import yaml


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def version(root):
    return re.search(r"project\(ronde VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


@pytest.fixture(scope="module")
def cmake_version(root):
    return re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


@pytest.fixture(scope="module")
def recipe(root):
    """conda's recipe as it is rendered: a name of the context, or a function, in each ${{ }}."""
    text = (root / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")
    environment = jinja2.Environment(variable_start_string="${{", variable_end_string="}}", undefined=jinja2.StrictUndefined)
    names = {"PYTHON": "python", "compiler": "compiler of {}".format, "stdlib": "library of {}".format}
    return yaml.safe_load(environment.from_string(text).render(**names, **yaml.safe_load(text)["context"]))


def test_condas_recipe_is_of_this_project(recipe, project, version):
    assert recipe["schema_version"] == 1
    assert recipe["package"] == {"name": project["name"], "version": version}
    assert recipe["about"]["license"] == project["license"]
    assert recipe["about"]["summary"] == project["description"]
    assert set(recipe) == {"schema_version", "context", "package", "source", "build", "requirements", "tests", "about"}


def test_condas_recipe_names_files_that_are_there(recipe, root):
    tree = (root / "packaging/conda" / recipe["source"]["path"]).resolve()
    assert tree == root
    assert (tree / recipe["about"]["license_file"]).is_file()


def test_condas_recipe_asks_for_what_the_build_asks_for(recipe, root, cmake_version):
    needed = recipe["requirements"]
    assert f"cmake >={cmake_version}" in needed["build"] and "compiler of cxx" in needed["build"]
    build_system = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert set(build_system) <= {each.replace(" ", "") for each in needed["host"]}


class Directives(types.ModuleType):
    """What `from spack.package import *` gives a recipe: each directive notes what it was called with."""

    __all__ = ("license", "version", "depends_on", "conflicts")

    def __init__(self):
        super().__init__("spack.package")
        self.noted = {name: [] for name in self.__all__}
        for name in self.__all__:
            setattr(self, name, lambda first, _noted=self.noted[name], **_: _noted.append(first))


@pytest.fixture(scope="module")
def spack(root):
    """Spack's package, run as Python by stand-ins for Spack's modules; what its directives noted."""
    with pytest.MonkeyPatch.context() as patch:
        directives = Directives()
        base = types.ModuleType("spack_repo.builtin.build_systems.python")
        base.PythonPackage = type("PythonPackage", (), {})
        patch.setitem(sys.modules, "spack.package", directives)
        for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            patch.setitem(sys.modules, name, types.ModuleType(name))
        patch.setitem(sys.modules, base.__name__, base)
        source = root / "packaging/spack/spack_repo/ronde/packages/py_ronde/package.py"
        names = {}
        exec(compile(source.read_text(encoding="utf-8"), source, "exec"), names)
        assert issubclass(names["PyRonde"], base.PythonPackage), "Spack looks for py-ronde under this name"
        return directives.noted


def test_spacks_package_is_of_this_project(spack, project, version):
    assert spack["version"] == [version]
    assert spack["license"] == [project["license"]]


def test_spacks_package_asks_for_what_the_build_asks_for(spack, project, cmake_version, root):
    assert f"cmake@{cmake_version}:" in spack["depends_on"]
    assert project["requires-python"].replace(">=", "python@") + ":" in spack["depends_on"]
    build_system = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert {f"py-{each.replace('>=', '@')}:" for each in build_system} <= set(spack["depends_on"])


def test_spacks_repository_is_named_as_its_folder(root):
    folder = root / "packaging/spack/spack_repo/ronde"
    told = yaml.safe_load((folder / "repo.yaml").read_text(encoding="utf-8"))["repo"]
    assert told["namespace"] == folder.name
    assert told["api"] == "v2.0"
