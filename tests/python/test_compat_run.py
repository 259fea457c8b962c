"""`horovod.run`: a function on several ranks, from wherever it is called."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import pytest

import horovod
from launching import launcher, processes_with, wait_until

LIMIT_S = 60


def who(*words: str, **more: int) -> tuple[int, int, tuple[str, ...], dict[str, int]]:
    """A function of a module."""
    from horovod.common.basics import HorovodBasics

    basics = HorovodBasics("")
    basics.init()
    return basics.rank(), basics.size(), words, more


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_results_in_rank_order(ranks):
    results = horovod.run(who, ("a", "b"), {"c": 3}, num_proc=ranks, hosts=f"localhost:{ranks}")
    assert results == [(rank, ranks, ("a", "b"), {"c": 3}) for rank in range(ranks)]


def test_closures_and_classes():
    class Local:
        def __init__(self, value):
            self.value = value

    offset = 40
    results = horovod.run(lambda: Local(offset + int(os.environ["HOROVOD_RANK"])), num_proc=2)
    assert [result.value for result in results] == [40, 41]


def test_old_names():
    with pytest.warns(DeprecationWarning, match="np= is deprecated: use num_proc="):
        assert horovod.run(lambda: 1, np=2) == [1, 1]
    from horovod.run.runner import run

    assert run(lambda: 2, num_proc=2) == [2, 2]
    assert horovod.run(lambda: 3, num_proc=1) == [3], "horovod.run is now a package that can be called"


def fail_on_one():
    rank = int(os.environ["HOROVOD_RANK"])
    if rank == 1:
        raise KeyError("the cause")
    wait_until((Path(sys.argv[1]) / "failure.1").exists, LIMIT_S, "rank 1 has told")
    raise RuntimeError("what follows from it")


def test_the_traceback_of_the_rank_that_failed_first():
    with pytest.raises(RuntimeError) as failure:
        horovod.run(fail_on_one, num_proc=3)
    text = str(failure.value)
    assert text.startswith("rank 1 of horovod.run failed") and "what follows" not in text
    assert "KeyError: 'the cause'" in text and "in fail_on_one" in text and "Traceback" in text


def test_a_rank_that_ends_without_a_result():
    with pytest.raises(RuntimeError, match="ended with code 5; no result came from ranks 0, 1"):
        horovod.run(lambda: os._exit(5), num_proc=2)


@pytest.mark.parametrize("arguments, complaint", [
    ({"num_proc": 3, "hosts": "localhost:2"}, "more than the 2 slots"),
    ({"num_proc": 0}, "expected 1 or more"),
])
def test_what_cannot_be_followed(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        horovod.run(who, **arguments)
    with pytest.raises(ValueError, match="needs a function to call, not str"):
        horovod.run("who")


def test_settings(tmp_path, capfd):
    def told() -> list:
        print("said", flush=True)
        return [os.environ.get(name) for name in ("HOROVOD_START_TIMEOUT", "RONDE_ELASTIC_RESET_LIMIT")]

    results = horovod.run(told, num_proc=2, start_timeout=33, reset_limit=4, output_filename=str(tmp_path), verbose=1,
                          disable_cache=True, network_interfaces="eth0")
    assert results == [["33", "4"]] * 2
    assert (tmp_path / "rank.1/stdout").read_text() == "said\n"
    captured = capfd.readouterr()
    assert sorted(captured.out.splitlines()) == ["[0] said", "[1] said"]
    assert "accepted, without effect on Ronde: --disable-cache" in captured.err
    assert "horovod.run: " in captured.err


def test_where_output_goes_when_it_was_replaced(capsys):
    horovod.run(lambda: print("in a notebook", flush=True), num_proc=2)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] in a notebook", "[1] in a notebook"]


SCRIPT = textwrap.dedent("""\
    import horovod
    import neighbour

    factor = 3

    def scaled(x):
        return neighbour.double(x) * factor

    if __name__ == "__main__":
        print(horovod.run(scaled, (7,), num_proc=2))
    """)


def test_from_a_script_with_a_module_beside_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "neighbour.py").write_text("def double(x):\n    return 2 * x\n")
    for words in ([str(tmp_path / "script.py")], ["-m", "script"]):
        ended = python(*words, PYTHONPATH=str(tmp_path) if words[0] == "-m" else "")
        assert ended.stdout == "[42, 42]\n", ended.stderr


def test_from_a_command_line():
    ended = python("-c", "import horovod; k = 5; print(horovod.run(lambda x: x + k, (1,), num_proc=2))")
    assert ended.stdout == "[6, 6]\n", ended.stderr


def test_from_a_notebook_cell():
    """What a notebook does: the cell runs in a __main__ without a file, and with a stdout of its own."""
    cell = textwrap.dedent("""\
        import io, sys, types
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        screen, sys.stdout = sys.stdout, io.StringIO()
        exec(compile('''
        import horovod
        def f():
            print("from the rank", flush=True)
            return [g(x) for x in (1, 2)]
        def g(x):
            return x * 10
        results = horovod.run(f, num_proc=2)
        ''', "<cell 1>", "exec"), main.__dict__)
        print(main.results, sorted(sys.stdout.getvalue().split("\\n")), file=screen)
        """)
    ended = python("-c", cell)
    assert ended.stdout == "[[10, 20], [10, 20]] ['', '[0] from the rank', '[1] from the rank']\n", ended.stderr


def test_the_folder_is_private_and_goes(tmp_path):
    def look() -> tuple[int, str]:
        folder = Path(sys.argv[1])
        return stat.S_IMODE(folder.stat().st_mode), str(folder)

    before = os.umask(0)
    try:
        [(mode, folder)] = horovod.run(look, num_proc=1)
    finally:
        os.umask(before)
    assert mode == 0o700
    assert not Path(folder).exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ranks_end_with_the_caller(how, tmp_path):
    """And their folder goes: where the caller was killed, with this user's next job."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    begun = tmp_path / "begun"
    begun.mkdir()
    marker = f"RONDE_TEST_MARKER={uuid.uuid4().hex}"
    name, value = marker.split("=")
    program = textwrap.dedent(f"""\
        import horovod, pathlib, os, time
        def wait():
            pathlib.Path({str(begun)!r}, os.environ["HOROVOD_RANK"]).touch()
            time.sleep(1000)
        horovod.run(wait, num_proc=2)
        """)
    environment = {**os.environ, "TMPDIR": str(temporary), name: value}
    environment.pop("XDG_RUNTIME_DIR", None)
    caller = subprocess.Popen([sys.executable, "-c", program], env=environment,
                              stderr=subprocess.PIPE, text=True, start_new_session=True,
                              # Whoever runs the tests in the background has it ignored.
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_until(lambda: len(list(begun.iterdir())) == 2, LIMIT_S, "both ranks have begun")
    began = time.monotonic()
    caller.send_signal(how)
    _, error = caller.communicate(timeout=LIMIT_S)
    assert how == signal.SIGKILL or "KeyboardInterrupt" in error
    wait_until(lambda: not processes_with(marker), LIMIT_S, "no process is left")
    print(f"gone after {time.monotonic() - began:.1f} s")
    left = [path.name for path in temporary.iterdir()]
    if how == signal.SIGKILL:
        assert len(left) == 1 and left[0].startswith("ronde-run-"), left
        del environment[name]
        subprocess.run([launcher(), "run", "-n", "1", "--", "true"], env=environment, timeout=LIMIT_S, check=True)
    assert list(temporary.iterdir()) == []
