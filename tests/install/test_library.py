"""The promises of libronde.so as users get it: needs only glibc's own files, exports the C interface and no more."""

import re

import pytest

GLIBC = re.compile(r"lib(c|m|dl|pthread)\.so\.\d+|ld-linux.*\.so\.\d+")


@pytest.fixture(scope="module")
def library(root):
    return root / "build/release/src/api/libronde.so"


def dynamic_section(run, file):
    """[(tag, value)], such as ("NEEDED", "libc.so.6")."""
    return re.findall(r"\((\w+)\)\s+.*\[(.*)\]", run("readelf", "--dynamic", "--wide", file))


def needed(run, file):
    return {value for tag, value in dynamic_section(run, file) if tag == "NEEDED"}


def test_library_needs_only_glibc(run, library):
    foreign = {name for name in needed(run, library) if not GLIBC.fullmatch(name)}
    assert not foreign


def test_library_has_no_search_path(run, library):
    assert not {"RPATH", "RUNPATH"} & {tag for tag, _ in dynamic_section(run, library)}


def test_library_is_called_by_its_plain_name(run, library):
    # A wheel cannot hold the links that a versioned name needs; ronde_abi_version() tells versions apart.
    assert ("SONAME", "libronde.so") in dynamic_section(run, library)


def test_library_exports_exactly_what_the_header_declares(run, library, root):
    lines = run("nm", "--dynamic", "--defined-only", library).splitlines()
    exported = {line.split()[-1] for line in lines}
    header = (root / "include/ronde/ronde.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^RONDE_API\b[^(;]*?\b(\w+)\(", header, flags=re.MULTILINE))
    assert declared, "no declaration found in ronde.h"
    assert all(name.startswith("ronde_") for name in exported)
    assert exported == declared


def test_command_needs_only_glibc(run, root):
    command = root / ".venv/bin/ronde"
    assert not {name for name in needed(run, command) if not GLIBC.fullmatch(name)}
    assert not {"RPATH", "RUNPATH"} & {tag for tag, _ in dynamic_section(run, command)}


def test_the_part_for_tensorflow_needs_only_glibc_and_ronde(run, root):
    [library] = root.glob(".venv/lib/python*/site-packages/ronde/libronde_tf.so")
    foreign = {name for name in needed(run, library) if not GLIBC.fullmatch(name)}
    assert foreign == {"libronde.so"}, "nothing of TensorFlow, whose functions are found when it is loaded"
    paths = {value for tag, value in dynamic_section(run, library) if tag in ("RPATH", "RUNPATH")}
    assert paths == {"$ORIGIN"}, "libronde.so lies beside it, as auditwheel looks for it"
    exported = {line.split()[-1] for line in run("nm", "--dynamic", "--defined-only", library).splitlines()}
    assert exported == {"ronde_tf_cancel", "ronde_tf_error", "ronde_tf_failure", "ronde_tf_finish", "ronde_tf_name"}


def test_the_extension_module_is_of_the_limited_api(run, root):
    [module] = root.glob(".venv/lib/python*/site-packages/ronde/_extension.abi3.so")
    assert not {name for name in needed(run, module) if not GLIBC.fullmatch(name)}, "no libpython, whose symbols are there"
    assert not {"RPATH", "RUNPATH"} & {tag for tag, _ in dynamic_section(run, module)}
    exported = {line.split()[-1] for line in run("nm", "--dynamic", "--defined-only", module).splitlines()}
    assert exported == {"PyInit__extension"}
    asked = {line.split()[-1] for line in run("nm", "--dynamic", "--undefined-only", module).splitlines()}
    names = {name for name in asked if name.startswith(("Py", "_Py"))}
    assert "PyObject_GetBuffer" in names
    # Of those that begin with an underscore the limited API has the few that its macros stand for.
    assert {name for name in names if name.startswith("_")} <= {
        "_PyArg_ParseTupleAndKeywords_SizeT", "_PyWeakref_CallableProxyType", "_PyWeakref_ProxyType", "_PyWeakref_RefType",
        "_Py_BuildValue_SizeT", "_Py_Dealloc", "_Py_FalseStruct", "_Py_NoneStruct", "_Py_TrueStruct"}
