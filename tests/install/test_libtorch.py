"""<ronde/torch.hpp>, compiled against the installed wheel and the libtorch of the PyTorch beside it."""

import re
import sys
import sysconfig
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def operations(run, root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("libtorch")
    prefixes = run(sys.executable, "-c",
                   "import ronde, torch; print(f'{ronde.cmake_prefix_path};{torch.utils.cmake_prefix_path}')", cwd="/")
    run("cmake", "-S", root / "tests/install/libtorch", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefixes.strip()}",
        "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", folder, limit_s=600)  # 30 s of a core, of which half is torch/torch.h
    return folder / "operations"


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_operations_and_the_optimizer_are_right(run, operations, ranks):
    ronde = Path(sysconfig.get_path("scripts")) / "ronde"
    output = run(ronde, "run", "-n", ranks, "--", operations, env={"RONDE_TIMEOUT_S": "60"})
    checked = [int(count) for count in re.findall(r"rank \d of \d: (\d+) checked, 0 wrong", output)]
    assert len(checked) == ranks
    assert min(checked) > 350, output
