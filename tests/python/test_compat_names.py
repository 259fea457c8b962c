"""The distribution `horovod`: every public name is there, and is Ronde's own object."""

from __future__ import annotations

import importlib
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_names import FLAGS, MORE_NAMES, NAMES, RUN_ARGUMENTS


@pytest.mark.parametrize("module, names", [*NAMES.items(), *MORE_NAMES.items()])
def test_names(module, names):
    path, _, inside = module.partition(":")
    loaded = importlib.import_module(path)
    loaded = getattr(loaded, inside) if inside else loaded
    assert {name for name in names if not hasattr(loaded, name)} == set(), f"{module} lacks these"


def test_they_are_the_same_objects():
    import horovod.torch
    import ronde.torch

    names = NAMES["horovod.torch"] - {"elastic"}
    assert [name for name in names if getattr(horovod.torch, name) is not getattr(ronde.torch, name)] == []
    for module in ("mpi_ops", "functions", "optimizer", "compression"):
        ours = importlib.import_module(f"horovod.torch.{module}")
        for name in NAMES[f"horovod.torch.{module}"]:
            assert getattr(ours, name) is getattr(ronde.torch, name), name
    assert horovod.torch.elastic.TorchState is ronde.torch.elastic.TorchState
    assert sys.modules["horovod.torch.elastic"] is horovod.torch.elastic
    from horovod.common.exceptions import HorovodInternalError

    assert HorovodInternalError is ronde.torch.HorovodInternalError


def test_constants_and_builds():
    import horovod.torch as hvd
    from horovod.common.basics import HorovodBasics

    basics = HorovodBasics(__file__, "mpi_lib_v2")
    for owner in (hvd, basics):
        assert [owner.Average, owner.Sum, owner.Adasum, owner.Min, owner.Max, owner.Product] == list(range(6))
        assert owner.nccl_built() == 0 and owner.mpi_built() is True
    for question in ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "is_homogeneous",
                     "mpi_threads_supported"):
        for owner in (hvd, basics):
            with pytest.raises(ValueError, match=r"Horovod has not been initialized; use hvd.init\(\)\."):
                getattr(owner, question)()


def test_arguments_of_run():
    import horovod
    import horovod.run.runner

    assert list(inspect.signature(horovod.run.runner.run).parameters) == RUN_ARGUMENTS
    settings = horovod.run.runner._HorovodArgs()
    for argument in set(RUN_ARGUMENTS) - {"func", "args", "kwargs", "network_interface", "network_interfaces", "np",
                                          "min_np", "max_np"}:
        assert getattr(settings, argument) is None


@pytest.mark.parametrize("word", FLAGS)
def test_flags(word):
    from horovod.runner.launch import parse_args

    args = parse_args([word, *FLAGS[word].split(), "python", "train.py", "--verbose"])
    assert args.command == ["python", "train.py", "--verbose"]
    assert list(args.override_args.values()) == [word]


def test_every_flag_is_listed():
    import argparse

    from horovod.runner._flags import add_flags

    parser = argparse.ArgumentParser()
    add_flags(parser)
    words = {word for action in parser._actions for word in action.option_strings} - {"-h", "--help"}
    assert words - set(FLAGS) == {"--config-file", "-hostfile", "--hostfile"}, "their files have tests of their own"
    assert set(FLAGS) - words == set()


@pytest.mark.parametrize("module", ["mxnet", "spark.common", "spark.keras", "spark.lightning", "spark.torch"])
def test_what_does_not_exist_says_so(module):
    with pytest.raises(ImportError, match=r"^horovod\.[\w.]+ does not exist yet: .*today there are horovod\.torch"):
        importlib.import_module(f"horovod.{module}")


def test_import_is_light():
    code = "import sys, horovod; print([m for m in ('torch', 'ctypes', 'yaml', 'cloudpickle') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("stranger", ["tensorflow/mpi_lib.cpython-311.so", "torch/mpi_lib_v2.py"])
def test_files_of_another_installation(stranger, tmp_path):
    import horovod

    installed = Path(horovod.__file__).parent
    folder = tmp_path / "site"
    for part in installed.parent.glob("horovod*"):
        shutil.copytree(part, folder / part.name)
    command = [sys.executable, "-c", "import horovod; print(horovod.__file__)"]
    fine = subprocess.run(command, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True)
    assert fine.stdout.startswith(str(folder))
    (folder / "horovod" / stranger).write_text("")
    mixed = subprocess.run(command, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False)
    last = mixed.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {folder}/horovod holds files of another installation of horovod ({stranger})")
    assert "pip uninstall horovod" in last
