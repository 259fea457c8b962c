"""The command `horovodrun`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from horovod.runner._flags import without_meaning
from horovod.runner.launch import launch_line, parse_args

from compat_names import FLAGS
from launching import PROGRAMS

#: Joins the job without PyTorch, which takes seconds to load, and prints its variables.
LIGHT = [sys.executable, "-c",
         "import os; from horovod.common.basics import HorovodBasics as Basics; Basics('').init();"
         "print(*(f'{name}={value}' for name, value in os.environ.items()), sep='\\n')"]
SCRIPT = [sys.executable, str(PROGRAMS / "compat_report.py")]
LIMIT_S = 60


def horovodrun(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("horovodrun")), *words]
    return subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=LIMIT_S, check=False)


def bare(output: str) -> list[str]:
    return [re.sub(r"^\[\d+\] ", "", line) for line in output.splitlines()]


@pytest.mark.parametrize("ranks", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_script(ranks):
    ended = horovodrun("-np", str(ranks), "-H", f"localhost:{ranks}", *SCRIPT, "--lr", "0.1", "--", "-np")
    assert (ended.returncode, ended.stderr.count("to stderr")) == (0, ranks), ended.stderr
    total = ranks * (ranks - 1) // 2
    expected = [f"rank {rank} of {ranks} total {total} words --lr 0.1 -- -np" for rank in range(ranks)]
    assert sorted(line for line in bare(ended.stdout) if line.startswith("rank")) == expected
    assert "horovodrun:" not in ended.stderr, "nothing without effect was given"


def test_flags_become_variables_and_files(tmp_path):
    output = tmp_path / "logs"
    ended = horovodrun("-np", "2", "--fusion-threshold-mb", "3", "--cache-capacity", "0", "--start-timeout", "45",
                       "--no-stall-check", "--stall-check-shutdown-time-seconds", "90", "--log-level", "debug",
                       "--cycle-time-ms", "2.5", "--no-autotune", "--jsrun", "--output-filename", str(output),
                       "--verbose", *LIGHT)
    assert ended.returncode == 0, ended.stderr
    told = bare(ended.stdout)
    for setting in ("FUSION_THRESHOLD=3145728", "CACHE_CAPACITY=0", "START_TIMEOUT=45.0", "STALL_CHECK_DISABLE=1",
                    "STALL_SHUTDOWN_TIME_SECONDS=90", "LOG_LEVEL=DEBUG", "CYCLE_TIME=2.5", "AUTOTUNE=0"):
        assert f"HOROVOD_{setting}" in told
    for rank in range(2):
        assert f"HOROVOD_RANK={rank}\n" in (output / f"rank.{rank}/stdout").read_text()
        assert (output / f"rank.{rank}/stderr").exists()
    idle = [line for line in ended.stderr.splitlines() if "without effect" in line]
    assert idle == ["horovodrun: accepted, without effect on Ronde: --cycle-time-ms, --no-autotune, --jsrun"]
    assert re.search(r"horovodrun: .*HOROVOD_FUSION_THRESHOLD=3145728 .*/ronde run -n 2 --output-dir ", ended.stderr)


def test_the_engine_honours_horovods_variables():
    ended = horovodrun("-np", "2", *LIGHT, HOROVOD_FUSION_THRESHOLD="much")
    assert ended.returncode == 1
    assert "the environment variable HOROVOD_FUSION_THRESHOLD is 'much'; expected a whole number" in ended.stderr
    ours = horovodrun("-np", "2", *LIGHT, HOROVOD_FUSION_THRESHOLD="much", RONDE_FUSION_THRESHOLD="1024")
    assert ours.returncode == 0, ours.stderr


def test_honoured_flags_and_variables_are_on_the_page_and_no_others():
    from horovod.runner._flags import flags

    page = (Path(__file__).resolve().parents[2] / "docs/environment.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `(HOROVOD_[A-Z_]+)` \|", page, flags=re.MULTILINE))
    honoured = {flag.variable for flag in flags() if flag.means and (flag.variable or "").startswith("HOROVOD_")}
    idle = {flag.variable for flag in flags() if not flag.means}
    assert honoured == table
    assert table & idle == set()


def test_configuration_file(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(textwrap.dedent("""\
        controller: gloo
        params:
          fusion_threshold_mb: 8
          cache-capacity: 512
          hierarchical_allreduce: false
        autotune:
          enabled: true
          log_file: tuned.csv
        timeline:
          filename: trace.json
          mark_cycles: true
        stall_check:
          enabled: false
          warning_time_seconds: 12
        library_options:
          gloo_timeout_seconds: 20
          num_nccl_streams: 2
        logging:
          level: INFO
          with_timestamp: true
        """))
    from horovod.runner._flags import variables
    from horovod.runner.launch import parse_args

    args = parse_args(["-np", "2", "--config-file", str(file), "--fusion-threshold-mb", "4", "ls"])
    assert args.use_gloo is True and args.command == ["ls"] and args.hierarchical_allreduce is False
    assert variables(args) == {
        "HOROVOD_FUSION_THRESHOLD": str(4 << 20),  # the flag wins
        "HOROVOD_CACHE_CAPACITY": "512",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": "tuned.csv",
        "HOROVOD_TIMELINE": "trace.json",
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "12",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "20",
        "HOROVOD_NUM_NCCL_STREAMS": "2",
        "HOROVOD_LOG_LEVEL": "INFO",
        "HOROVOD_LOG_HIDE_TIME": "0",
    }


@pytest.mark.parametrize("content, complaint", [
    ("params:\n  speed: 3\n", "'params' has no setting 'speed'"),
    ("engine:\n  speed: 3\n", "there is no section 'engine'"),
    ("params:\n  cache_capacity: lots\n", "'cache_capacity' of 'params' is 'lots'"),
    ("autotune:\n  enabled: 3\n", "expected true or false"),
    ("controller: nccl\n", "'nccl' is no controller"),
    ("params: [", "is no YAML"),
    ("- 3\n", "expected sections"),
])
def test_wrong_configuration_files(content, complaint, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(content)
    ended = horovodrun("-np", "2", "--config-file", str(file), "true")
    assert ended.returncode == 2
    assert complaint in ended.stderr and str(file) in ended.stderr and "Traceback" not in ended.stderr


def test_host_file(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# the only one\nlocalhost slots=3\n\n")
    for word in ("-hostfile", "--hostfile"):
        ended = horovodrun(word, str(file), "sh", "-c", "echo size $HOROVOD_SIZE")
        assert bare(ended.stdout) == ["size 3"] * 3, ended.stderr
    assert bare(horovodrun("-np", "2", "--hostfile", str(file), "echo", "x").stdout) == ["x"] * 2


@pytest.mark.parametrize("words, complaint", [
    (["-np", "2", "-H", "one.invalid:1,two.invalid:1", "true"], ".invalid cannot be reached by ssh"),
    (["-np", "4", "-H", "localhost:2", "true"], "-np 4 is more than the 2 slots"),
    (["-np", "0", "true"], "-np 0: expected 1 or more"),
    (["-H", "localhost:some", "true"], "'some' is no number of slots"),
    (["-np", "2"], "which command?"),
    (["true"], "how many ranks?"),
    (["-np", "1", "--hostfile", "/nowhere/hosts", "true"], "/nowhere/hosts"),
    (["-np", "1", "--hostfile", "/dev/null", "true"], "names no host"),
    (["-np", "1", "--log-level", "loud", "true"], "invalid choice"),
])
def test_wrong_usage(words, complaint):
    ended = horovodrun(*words)
    assert ended.returncode in (2, 125) and complaint in ended.stderr and "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_version_and_build():
    import ronde

    assert horovodrun("--version").stdout == f"0.28.1 (Ronde {ronde.__version__})\n"
    assert horovodrun("-v").stdout == horovodrun("--version").stdout
    table = horovodrun("--check-build").stdout
    assert "[X] PyTorch" in table and "[X] TensorFlow" in table and "[X] Ronde" in table
    assert table.count("[X] MPI") == (2 if shutil.which("mpirun") or shutil.which("mpiexec") else 0)
    for absent in ("MXNet", "Gloo", "NCCL", "CCL", "DDL"):
        assert f"[ ] {absent}" in table and f"[X] {absent}" not in table


def test_exit_code_of_the_rank():
    assert horovodrun("-np", "2", "sh", "-c", "exit 7").returncode == 7


def test_all_flags_at_once():
    """Each is accepted, and those without a meaning are told in one line. With --mpi others mean more."""
    words = [part for word in sorted(FLAGS) if word not in ("-cb", "--check-build", "--mpi") and not word.startswith("--output")
             for part in (word, *FLAGS[word].split())]
    ended = horovodrun(*words, "-np", "1", "-H", "localhost:1", "--log-level", "error", "echo", "done")
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert ended.stderr.count("without effect") == 1


def line_of(*words: str) -> list[str]:
    """What horovodrun becomes, without the program's path and the ranks' command."""
    args = parse_args([*words, "true"])
    return launch_line(args)[1:-1]


def test_mpi_is_the_launchers_backend():
    assert line_of("-np", "2", "--mpi") == ["run", "-n", "2", "--backend", "mpi", "-H", "localhost:2"]
    assert line_of("-np", "2", "--gloo") == ["run", "-n", "2", "--backend", "own", "-H", "localhost:2"]
    assert line_of("-np", "2") == ["run", "-n", "2", "-H", "localhost:2"]
    words = ["-H", "a:1,b:1", "--mpi", "--mpi-args=--mca pml ob1", "--binding-args", "--bind-to core"]
    assert line_of("-np", "2", *words) == ["run", "-n", "2", "-H", "a:1,b:1", "--backend", "mpi",
                                           "--mpi-args=--bind-to core", "--mpi-args=--mca pml ob1"]


def test_arguments_of_mpi_mean_something_with_it_only():
    for words, idle in (([], ["--mpi-args", "--binding-args"]), (["--mpi"], [])):
        assert without_meaning(parse_args(["-np", "2", *words, "--mpi-args=x", "--binding-args=y", "true"])) == idle


def test_a_function_cannot_be_brought_to_other_hosts_by_mpi(tmp_path):
    args = parse_args(["-np", "2", "-H", "localhost:1,elsewhere:1", "--mpi", "true"])
    with pytest.raises(ValueError, match="use_mpi=True starts ranks on this host only"):
        launch_line(args, carried=tmp_path)


def test_a_batch_job_of_other_hosts_changes_nothing(tmp_path):
    """As with Horovod: without -H the ranks are on this host."""
    nodes = tmp_path / "nodes"
    nodes.write_text("elsewhere1\nelsewhere2\n")
    ended = horovodrun("-np", "3", sys.executable, "-c", "import os; print('local', os.environ['RONDE_LOCAL_SIZE'])",
                       PBS_NODEFILE=str(nodes))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("local 3") == 3
