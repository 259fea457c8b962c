"""ronde.jax: how ranks go on after an execution that has failed, or that only some of them have made."""

from __future__ import annotations

import pytest

from launching import long, run_job

LATE_ONCE = """
import jax, jax.numpy as jnp, time, ronde.jax as rj
rj.init()
step = jax.jit(lambda arrays: [rj.allreduce(each, op=rj.Sum) for each in arrays])
for number in range(10):
    if number == 3 and rj.rank() == 1:
        time.sleep(4.5)  # longer than the limit and the second that replay gives besides
    try:
        found = [float(each[0]) for each in step([jnp.full(3000, 10.0 * number + i + rj.rank()) for i in range(6)])]
        print("step", number, found == [20.0 * number + 2 * i + 1 for i in range(6)])
    except (ValueError, jax.errors.JaxRuntimeError):
        print("step", number, "failed")
"""


def test_a_late_rank_fails_no_execution_behind_its_own(tmp_path):
    """Ranks agree how to go on after a step that has timed out: every later one timed out, too."""
    program = tmp_path / "program.py"
    program.write_text(LATE_ONCE)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="2", forked="jax")
    told = ended.lines("step ")
    assert len(told) == 20 and not any("False" in each for each in told), ended.output
    assert sum("3 failed" in each for each in told) == 2, ended.output
    # The next may end with the late rank's questions; the others are right.
    assert sum("True" in each for each in told) >= 16, ended.output


RAISES = """
import jax, jax.numpy as jnp, numpy as np, sys, time, ronde.jax as rj
from jax.experimental import io_callback
rj.init()
rank, size = rj.rank(), rj.size()
raises, number = [sys.argv[1] == "all" or rank == int(sys.argv[1])], [0]

def look(x):
    if raises[0] and number[0] == 3:
        time.sleep(float(sys.argv[2]))  # so that the calls before have ended, or have not
        raise RuntimeError("the callback's own")
    return np.asarray(x)

@jax.jit
def step(x):
    first = [rj.allreduce(x + i, op=rj.Sum) for i in range(3)]
    seen = io_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), first[0])
    return first, [rj.allreduce(seen + x + i, op=rj.Sum) for i in range(3)], rj.allreduce(x * 2, op=rj.Max)

for number[0] in range(10):
    x = jnp.full(4, 100.0 * number[0] + rank)
    total = sum(100.0 * number[0] + each for each in range(size))
    try:
        first, then, most = step(x)
        found = [float(each[3]) for each in (*first, *then, most)]
        expected = [total + size * i for i in range(3)] + [size * total + total + size * i for i in range(3)]
        print("step", number[0], found == [*expected, 2 * (100.0 * number[0] + size - 1)], found)
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        print("step", number[0], "failed", str(error).splitlines()[0][:150])
"""


@pytest.mark.parametrize("ranks, raises, after_s", [(2, "1", 0), long(2, "1", 0.5), (2, "all", 0), (3, "0", 0.5)])
def test_an_execution_that_xla_gives_up(tmp_path, ranks, raises, after_s):
    """A callback raises in the middle of an execution: calls that only some ranks have begun meet none of a later one."""
    program = tmp_path / "program.py"
    program.write_text(RAISES)
    ended = run_job(ranks, str(program), raises, str(after_s), RONDE_TIMEOUT_S="2", forked="jax")
    told = ended.lines("step ")
    assert len(told) == 10 * ranks and not any("False" in each for each in told), ended.output
    right = [sum(f"{step} True" in each for each in told) for step in range(10)]
    assert right[:3] == [ranks] * 3 and right[-3:] == [ranks] * 3, ended.output


APART = """
import os, jax, jax.numpy as jnp, time, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()

def calls(x, n):
    parts = [jnp.full(n + (n == 40001 and i == 5), x * (i + 1)) for i in range(9)]
    sums = [rj.allgather(each[None]).sum(0) if i % 3 == 2 else rj.allreduce(each, op=rj.Sum) for i, each in enumerate(parts)]
    return jnp.stack([each[0] for each in sums])

step = jax.jit(lambda x, n: jax.lax.scan(lambda _, __: (_, calls(x, n)), 0, None, length=3)[1][0], static_argnums=1)
for n in (40000, 40001):
    step(jnp.float32(1), n).block_until_ready()
rj.shutdown()  # compiling takes ranks of a busy machine longer than the limit that follows
os.environ["RONDE_TIMEOUT_S"] = "1"
rj.init()
rj.barrier()
for number in range(14):
    if number == 4 and rank == 1:
        time.sleep(3.5)
    try:
        found = step(jnp.float32((rank + 1) * (100 + number)), 40001 if (number, rank) == (3, 1) else 40000).tolist()
        expected = [size * (size + 1) / 2 * (100 + number) * (i + 1) for i in range(9)]
        print("step", number, found == expected, found)
    except (ValueError, jax.errors.JaxRuntimeError):
        print("step", number, "failed")
"""


@pytest.mark.parametrize("ranks", [long(2), 3])
def test_ranks_that_a_late_one_has_left_behind_go_on_in_one_execution(tmp_path, ranks):
    """After a failure of all, one rank is late by more than two limits: then all had success, with sums of two steps."""
    program = tmp_path / "program.py"
    program.write_text(APART)
    ended = run_job(ranks, str(program), RONDE_TIMEOUT_S="60", forked="jax")
    told = ended.lines("step ")
    assert len(told) == 14 * ranks and not any("False" in each for each in told), ended.output
    for number in (10, 11, 12, 13):
        assert sum(each.startswith(f"step {number} True") for each in told) == ranks, ended.output


BEFORE_ANY_CALL = """
import jax, jax.numpy as jnp, numpy as np, sys, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()
raises = sys.argv[1] == "all" or rank == int(sys.argv[1])
calls, in_scan, number = int(sys.argv[2]), sys.argv[3] == "scan", 0
fails = [int(each) for each in sys.argv[4].split(",")]

def look(x):
    if raises and number in fails:
        raise RuntimeError("the callback's own")
    return np.asarray(x)

@jax.jit
def step(x):
    seen = jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    one = lambda i: rj.allreduce(seen + i, op=rj.Sum)
    if in_scan:
        return jax.lax.scan(lambda _, i: (None, one(i)), None, jnp.arange(calls))[1]
    return [one(i) for i in range(calls)]

for number in range(14):
    try:
        found = [float(each[3]) for each in step(jnp.full(4, 100.0 * number + rank))]
        expected = [100.0 * number * size + size * (size - 1) / 2 + size * i for i in range(calls)]
        print("step", number, found == expected, found)
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        print("step", number, "failed", str(error).splitlines()[0][:150])
"""


@pytest.mark.parametrize("calls, way, fails", [(1, "plain", "3,4"), (3, "plain", "3,4"), (3, "scan", "3"), (2, "plain", "0")])
@pytest.mark.parametrize("ranks, raises", [(2, "1"), long(3, "0"), long(2, "all")])
def test_an_execution_that_fails_before_its_first_call(tmp_path, ranks, raises, calls, way, fails):
    """The rank's next one met the others' one before, from then on, with success."""
    program = tmp_path / "program.py"
    program.write_text(BEFORE_ANY_CALL)
    ended = run_job(ranks, str(program), raises, str(calls), way, fails, RONDE_TIMEOUT_S="1", forked="jax")
    told = ended.lines("step ")
    assert len(told) == 14 * ranks and not any("False" in each for each in told), ended.output
    right = [sum(f"step {step} True" in each for each in told) for step in range(14)]
    before = int(fails[0])
    assert right[:before] == [ranks] * before and right[-4:] == [ranks] * 4, ended.output


IN_BRANCHES = """
import jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()
both = lambda x: rj.allreduce(x, op=rj.Sum) + rj.allreduce(x, op=rj.Max)
step = jax.jit(lambda x, sums: jax.lax.cond(sums, both, lambda x: x, x))
for number in range(20):
    for _ in range(number % 3 if rank == 1 else 0):
        assert step(float(number), False) == number
    print("step", float(step(1.0 * number + rank, True)) == size * number + size * (size - 1) / 2 + number + size - 1)
"""


def test_executions_that_come_to_no_call(tmp_path):
    """They are no failures: a rank may have more of them than others."""
    program = tmp_path / "program.py"
    program.write_text(IN_BRANCHES)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="5", forked="jax")
    assert ended.code == 0 and ended.lines("step") == ["step True"] * 40, ended.output


IN_TURNS = """
import jax, jax.numpy as jnp, random, sys, threading, time, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()
turns = random.Random(rank)  # threads take turns otherwise on each rank
given = sys.argv[1] == "given"

def train(x):
    return rj.allreduce(x, op=rj.Sum, name="train" if given else None), rj.allreduce(x + 1, op=rj.Max)

def judge(x):
    return rj.allreduce(x, op=rj.Sum, name="judge" if given else None)

jitted = {"train": jax.jit(train), "judge": jax.jit(judge)}

def run(which, steps, fails):
    for number in range(steps):
        time.sleep(turns.choice([0, 0, 0.01]))
        x = jnp.full(100 + (number in fails and rank == 1), 10.0 * number + rank)
        try:
            found = jax.tree_util.tree_leaves(jitted[which](x))
            right = float(found[0][0]) == 10.0 * number * size + size * (size - 1) / 2
            print(f"{which} {number} {right}\\n", end="", flush=True)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print(f"{which} {number} failed {error!r:.80}\\n", end="", flush=True)

threads = [threading.Thread(target=run, args=each) for each in [("train", 40, (5, 6, 17, 30)), ("judge", 25, ())]]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


@pytest.mark.parametrize("names", ["given", long("none")])
def test_programs_of_two_threads_of_which_one_fails(tmp_path, names):
    """Executions of all programs were counted together: ranks whose threads took turns otherwise went on apart."""
    program = tmp_path / "program.py"
    program.write_text(IN_TURNS)
    ended = run_job(2, str(program), names, RONDE_TIMEOUT_S="2", forked="jax")
    told = ended.lines("train ") + ended.lines("judge ")
    assert ended.code == 0 and len(told) == 130 and not any("False" in each for each in told), ended.output
    if names == "none":
        assert sum("True" in each for each in ended.lines("judge ")) == 50, ended.output
        assert sum("True" in each for each in ended.lines("train ")) == 72, ended.output


IN_PHASE = """
import jax, jax.numpy as jnp, numpy as np, sys, ronde.jax as rj
rj.init()
rank, size, number = rj.rank(), rj.size(), 0

def program(which):
    def look(x):
        if which == 0 and number == 3 and rank == 0:
            raise RuntimeError("the callback's own")
        return np.asarray(x)

    def step(x):
        seen = jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        first = rj.allreduce(seen, op=rj.Sum, name=f"program {which}, first")
        return first, rj.allreduce(2 * x + 0 * first, op=rj.Sum, name=f"program {which}, then")

    return jax.jit(step)

programs = [program(which) for which in range(2)]
for number in range(12):
    for which, each in enumerate(programs):
        total = sum(100.0 * number + 10 * which + of for of in range(size))
        try:
            first, then = each(jnp.full(4, 100.0 * number + 10 * which + rank))
            print("step", number, which, float(first[0]) == total and float(then[0]) == 2 * total)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print("step", number, which, "failed", str(error)[:200].replace(chr(10), " "))
"""


@pytest.mark.parametrize("ranks", [long(2), 3])
def test_ranks_that_ask_in_different_programs_meet_again(tmp_path, ranks):
    """Each waited for the others in its own program, up to the limit, and went on to the other one, in step with them."""
    program = tmp_path / "program.py"
    program.write_text(IN_PHASE)
    ended = run_job(ranks, str(program), RONDE_TIMEOUT_S="1", forked="jax")
    told = ended.lines("step ")
    assert ended.code == 0 and len(told) == 24 * ranks and not any("False" in each for each in told), ended.output
    for number in (0, 1, 2, 9, 10, 11):
        assert sum(each.startswith(f"step {number} ") and "True" in each for each in told) == 2 * ranks, ended.output


WITHOUT_ARGUMENTS = """
import jax, jax.numpy as jnp, numpy as np, sys, ronde.jax as rj
from jax.experimental import io_callback
rj.init()
rank, size, number, fails = rj.rank(), rj.size(), 0, int(sys.argv[1])

def read():
    if rank == 1 and number == fails:
        raise RuntimeError("the callback's own")
    return np.float32(10 * number + rank)

step = jax.jit(lambda: rj.allreduce(io_callback(read, jax.ShapeDtypeStruct((), np.float32)), op=rj.Sum))
for number in range(8):
    try:
        print("step", number, float(step()) == 10 * number * size + size * (size - 1) / 2)
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        print("step", number, "failed", str(error)[:150].replace(chr(10), " "))
"""


@pytest.mark.parametrize("ranks, fails", [(2, 0), long(2, 2), (3, 0)])
def test_a_callback_without_arguments_that_fails_before_the_first_call(tmp_path, ranks, fails):
    """It waits for nothing. In the first execution of a program nobody knew of it, and this rank's next one met the others'."""
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_ARGUMENTS)
    ended = run_job(ranks, str(program), str(fails), RONDE_TIMEOUT_S="3", forked="jax")
    told = ended.lines("step ")
    assert len(told) == 8 * ranks and not any("False" in each for each in told), ended.output
    right = [sum(f"step {number} True" in each for each in told) for number in range(8)]
    assert right[:fails] == [ranks] * fails and right[fails] == 0 and right[-3:] == [ranks] * 3, ended.output


BETWEEN = """
import jax, jax.numpy as jnp, numpy as np, sys, ronde.jax as rj
rj.init()
rank, size, number = rj.rank(), rj.size(), 0
way = sys.argv[1]

def look(x):
    if rank == 1 and number == 6:
        raise RuntimeError("the callback's own")
    return np.asarray(x)

def made(looks, name=None):
    def step(x):
        seen = jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x) if looks else x
        return rj.allreduce(seen.sum() / x.size, op=rj.Sum, name=name)
    return step

def judge(x):
    return rj.allreduce(x[0] * 1.0, op=rj.Sum, name="loss")

first = jax.jit(made(True, "loss" if way == "names" else None))
then = {"sizes": first, "names": jax.jit(judge), "factory": jax.jit(made(False))}[way]
for number in range(14):
    for which, each in enumerate((first, then)):
        try:
            x = jnp.full(5 if way == "sizes" and which == 1 else 8, 10.0 * number + rank + 500 * which)
            total = sum(10.0 * number + of + 500 * which for of in range(size))
            print("step", number, which, float(each(x)) == total)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print("step", number, which, "failed", str(error)[:150].replace(chr(10), " "))
"""


@pytest.mark.parametrize("way", ["sizes", "names", "factory"])
def test_what_comes_behind_an_execution_that_fails_before_its_first_call(tmp_path, way):
    """The program for another size, one with a call of the same name, one from the same source line: each met the others' call
    of the execution that this rank had not made."""
    program = tmp_path / "program.py"
    program.write_text(BETWEEN)
    ended = run_job(2, str(program), way, RONDE_TIMEOUT_S="1", forked="jax")
    told = ended.lines("step ")
    assert ended.code == 0 and len(told) == 56 and not any("False" in each for each in told), ended.output
    for number in (0, 5, 11, 12, 13):
        assert sum(each.startswith(f"step {number} ") and "True" in each for each in told) == 4, ended.output


OF_SETS = """
import jax, jax.numpy as jnp, numpy as np, sys, ronde.jax as rj
rj.init()
rank, size, number = rj.rank(), rj.size(), 0
pair = rj.add_process_set([0, 2])

def look(x):
    if number == 5:
        raise RuntimeError("the callback's own")
    return np.asarray(x)

@jax.jit
def step(x, sums):
    x = jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    of_all = lambda x: jax.lax.scan(lambda c, _: (rj.allreduce(x, op=rj.Sum), None), x, None, length=2)[0]
    total = of_all(x) if sys.argv[1] == "loop" else jax.lax.cond(sums, of_all, lambda x: x, x)
    return total, rj.allreduce(x + 0 * total, op=rj.Sum, process_set=pair) if rank != 1 else x

def run(name, numbers):
    global number
    for number in numbers:
        sums = sys.argv[1] == "loop" or number % 2 == 0
        try:
            total, of_pair = (float(each) for each in step(jnp.float32(10 * number + rank), sums))
            right = total == (30 * number + 3 if sums else 10 * number + rank) and (rank == 1 or of_pair == 20 * number + 2)
            print(name, number, right, total, of_pair)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print(name, number, "is refused" if "is not known" in str(error) else "failed")

run("first", range(12))
rj.shutdown()
rj.init()
pair = rj.add_process_set([0, 2])
run("then", range(20, 24))
"""


@pytest.mark.parametrize("way", ["loop", "branch"])
def test_executions_are_counted_in_each_group(tmp_path, way):
    """A call of all stands in a loop or a branch, and one of a set besides, so only its members had a call for certain: they
    counted an execution that the other rank did not count."""
    program = tmp_path / "program.py"
    program.write_text(OF_SETS)
    ended = run_job(3, str(program), way, RONDE_TIMEOUT_S="1", forked="jax")
    told = ended.lines("first ") + ended.lines("then ")
    assert ended.code == 0 and len(told) == 48 and not any("False" in each for each in told), ended.output
    assert sum("True" in each for each in ended.lines("then ")) == 12, ended.output
    if way == "loop":
        assert sum("True" in each for each in ended.lines("first ")) == 33, ended.output
