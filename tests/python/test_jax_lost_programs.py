"""ronde.jax: compiled programs of which a rank cannot know, after an error, which calls the others have made. It makes no more
of their calls until all ranks begin anew."""

from __future__ import annotations

import pytest

from launching import long, run_job

LOST = """
import jax, jax.numpy as jnp, numpy as np, ronde.jax as rj
rj.init()
rank, size, number = rj.rank(), rj.size(), 0

def look(x):
    if rank == 1 and number == 2:
        raise RuntimeError("the callback's own")
    return np.asarray(x)

@jax.jit
def step(x, sums):
    seen = jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return jax.lax.cond(sums, lambda x: rj.allreduce(x, op=rj.Sum), lambda x: x, seen)

def run(name, numbers):
    global number
    for number in numbers:
        try:
            found = float(step(jnp.float32(10 * number + rank), number % 2 == 0))
            expected = 20 * number + 1 if number % 2 == 0 else 10 * number + rank
            print(name, number, found == expected, found)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print(name, number, "is refused" if "is not known" in str(error) else "failed")

run("first", range(7))
rj.shutdown()
rj.init()
run("then", range(10, 14))
"""


def test_an_execution_of_which_nobody_knows_whether_it_had_calls(tmp_path):
    """The rank cannot know how many executions with calls it is behind: its calls are refused until all begin anew."""
    program = tmp_path / "program.py"
    program.write_text(LOST)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="1", forked="jax")
    told = ended.lines("first ") + ended.lines("then ")
    assert ended.code == 0 and len(told) == 22 and not any("False" in each for each in told), ended.output
    assert ended.lines("first 4 is refused") and ended.lines("first 6 is refused"), ended.output
    assert sum("True" in each for each in ended.lines("then ")) == 8, ended.output


RETRIED = """
import jax, jax.numpy as jnp, sys, time, ronde.jax as rj
rj.init()
rank, size, late_rank = rj.rank(), rj.size(), int(sys.argv[1])
step = jax.jit(lambda x, y, n: rj.allreduce(x + n + 0 * y[0, 0], op=rj.Sum))
late = jax.jit(lambda y, k: jax.lax.fori_loop(0, k, lambda i, m: jnp.sin(m @ m), y))
square = jnp.ones((200, 200))
for many in (4, 5):  # what compiles is late
    jax.block_until_ready(step(jnp.zeros(many), late(square, 0), jnp.float32(0)))

def run(name, numbers):
    x, failures = jnp.zeros(4), 0
    for number in numbers:
        if number == 3 and rank == 1:
            x = jnp.zeros(5)  # an error on all ranks
        y = late(square, 200 if rank == late_rank else 0)
        if rank != late_rank:
            jax.block_until_ready(y)
            time.sleep(0.3)
        try:
            # The result is this rank's where JAX returns before the error, and stays the old one where the call raises it.
            x = step(x, y, jnp.float32(10 * number + rank))
            found = float(x[0])
            print(name, number, found == 10 * number * size + size * (size - 1) / 2, found)
            x, failures = jnp.zeros(4), 0
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            failures += 1
            print(name, number, "failed", str(error)[:150].replace(chr(10), " "))
            if failures == 2:
                x, failures = jnp.zeros(4), 0

run("first", range(6))
rj.shutdown()
rj.init()
run("then", range(10, 12))
"""


@pytest.mark.parametrize("late_rank", [long(0), 1])
def test_a_program_that_is_given_its_own_result_after_an_error(tmp_path, late_rank):
    """One rank's argument holds the error, so its execution has no call; the other's is good, and makes one, which met the
    rank's next."""
    program = tmp_path / "program.py"
    program.write_text(RETRIED)
    ended = run_job(2, str(program), str(late_rank), RONDE_TIMEOUT_S="3", forked="jax")
    told = ended.lines("first ") + ended.lines("then ")
    assert ended.code == 0 and len(told) == 16 and not any("False" in each for each in told), ended.output
    assert sum("True" in each for each in ended.lines("then ")) == 4, ended.output


CHAINED = """
import jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()
now_and_then = jax.jit(lambda x, y: rj.allreduce(x + 0 * y[0, 0], op=rj.Sum))
always = jax.jit(lambda x, y: rj.allreduce(x[:3] + 0 * y[0, 0], op=rj.Sum))
late = jax.jit(lambda y, k: jax.lax.fori_loop(0, k, lambda i, m: jnp.sin(m @ m), y))
square = jnp.ones((200, 200))

def run(name, numbers):
    for number in numbers:
        try:
            # On rank 1 the argument is not there yet: JAX goes on to the second program, whose argument holds the error then.
            y = late(square, 100 if rank == 1 else 0)
            x = jnp.full(4 + (number == 3 and rank == 0), 10.0 * number + rank)
            first = now_and_then(x, y) if number in (0, 1, 3, 17) else x
            found = float(always(first, y)[0])
            total = sum(10.0 * number + of for of in range(size))
            print(name, number, found == (total * size if number in (0, 1, 3, 17) else total), found)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print(name, number, "failed", str(error)[:150].replace(chr(10), " "))

run("first", range(6))
rj.shutdown()
rj.init()
run("then", range(16, 18))
"""


def test_a_program_that_takes_the_result_of_one_that_has_failed(tmp_path):
    """Whether a rank comes to it depends on which rank was last: it counted on one, and sums were of two steps from then on."""
    program = tmp_path / "program.py"
    program.write_text(CHAINED)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="3", forked="jax")
    told = ended.lines("first ") + ended.lines("then ")
    assert ended.code == 0 and len(told) == 16 and not any("False" in each for each in told), ended.output
    assert sum("True" in each for each in ended.lines("then ")) == 4, ended.output


OF_A_PAIR = """
import itertools, jax, jax.numpy as jnp, sys, ronde.jax as rj
rj.init()
rank, size, fails = rj.rank(), rj.size(), [int(each) for each in sys.argv[1].split(",")]
pair = rj.add_process_set([1, 2])
of_pair = jax.jit(lambda x, y: rj.allreduce(x + 0 * y[0, 0], op=rj.Sum, process_set=pair)[:4])
late = jax.jit(lambda y, k: jax.lax.fori_loop(0, k, lambda i, m: jnp.sin(m @ m), y))
square = jnp.ones((200, 200))
step = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum))
for many in (4, 5):  # what compiles is late
    jax.block_until_ready(of_pair(jnp.ones(many), late(square, 0)) if rank in (1, 2) else 0)

def run(name, numbers):
    for number in numbers:
        x = jnp.full(4 + (rank == 1 and number in fails), 10.0 * number + rank)
        part = x[:4]
        try:
            # The argument is not there yet, so JAX goes on to the second program, whose argument holds the error then.
            part = of_pair(x, late(square, 100)) if rank in (1, 2) else x
        except (ValueError, jax.errors.JaxRuntimeError) as error:  # or it was, on a busy machine
            print("of the pair", number, "failed", str(error)[:150].replace(chr(10), " "))
        try:
            found = float(step(part)[0])
            of_ranks = [[10.0 * number], *([20.0 * number + 3, 10.0 * number + each] for each in (1, 2))]
            print(name, number, found in map(sum, itertools.product(*of_ranks)), found)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print(name, number, "failed", str(error)[:150].replace(chr(10), " "))

run("first", range(6))
rj.shutdown()
rj.init()
pair = rj.add_process_set([1, 2])
run("then", range(10, 12))
"""


@pytest.mark.parametrize("fails", ["0", "3,4"])
def test_an_argument_that_holds_an_error_of_some_ranks(tmp_path, fails):
    """The third rank has begun the call that these have not made. In the first execution of a program nobody knew of it."""
    program = tmp_path / "program.py"
    program.write_text(OF_A_PAIR)
    ended = run_job(3, str(program), fails, RONDE_TIMEOUT_S="3", forked="jax")
    told = ended.lines("first ") + ended.lines("then ")
    assert ended.code == 0 and len(told) == 8 * 3 and not any("False" in each for each in told), ended.output
    assert sum("True" in each for each in ended.lines("then ")) == 6, ended.output


WITH_CALLBACKS = """
import jax, jax.numpy as jnp, numpy as np, sys, ronde.jax as rj
rj.init()
rank, size, number, way = rj.rank(), rj.size(), 0, sys.argv[1]

def check(x):
    if number == 3:
        raise RuntimeError("bad batch")
    return np.asarray(x)

@jax.jit
def first(x, y):
    return jax.pure_callback(check, jax.ShapeDtypeStruct(x.shape, x.dtype), x + 0 * y[0, 0])

@jax.jit
def always(x):
    jax.debug.callback(lambda each: None, x[0])
    return rj.allreduce(x, op=rj.Sum)

@jax.jit
def write(reference, x, y):
    reference[...] = first(x, y)

@jax.jit
def of_reference(reference):
    return always(reference[...])

def closed_over(reference):
    return jax.jit(lambda: always(reference[...]))()

def made(x, y):
    if way == "array":
        return always(first(x, y))
    reference = jax.new_ref(jnp.zeros(4))
    write(reference, x, y)
    return of_reference(reference) if way == "reference" else closed_over(reference)

late = jax.jit(lambda y, k: jax.lax.fori_loop(0, k, lambda i, m: jnp.sin(m @ m), y))
square = jnp.ones((200, 200))

def run(name, numbers):
    global number
    for number in numbers:
        y = late(square, 200 if rank == 1 else 0)
        if rank == 0:
            jax.block_until_ready(y)  # the call itself raises; on rank 1 it returns before its error
        try:
            x = jnp.full(4, 10.0 * number + rank)
            found = float(made(x, y)[0])
            print(name, number, found == 20.0 * number + 1, found)
        except (ValueError, RuntimeError) as error:
            print(name, number, "failed", str(error)[:150].replace(chr(10), " "))

run("first", range(7))
rj.shutdown()
rj.init()
run("then", range(10, 12))
"""


@pytest.mark.parametrize("way", [long("array"), "reference", long("closed over")])
def test_a_program_with_callbacks_that_takes_what_another_has_failed_to_make(tmp_path, way):
    """The error seemed to be of its own callback, so it counted as an execution that others had begun too: sums were of two
    steps from then on."""
    program = tmp_path / "program.py"
    program.write_text(WITH_CALLBACKS)
    ended = run_job(2, str(program), way, RONDE_TIMEOUT_S="2", forked="jax")
    first, then = ended.lines("first "), ended.lines("then ")
    assert ended.code == 0 and (len(first), len(then)) == (14, 4), ended.output
    assert not any("False" in each for each in first + then), ended.output
    assert sum("True" in each for each in first) >= 6 and sum("True" in each for each in then) == 4, ended.output


THROUGH_PYTHON = """
import jax, jax.numpy as jnp, numpy as np, sys, time, ronde.jax as rj
rj.init()
rank, size, number = rj.rank(), rj.size(), 0
way = sys.argv[1]

def look(x):
    if way == "callback" and number == 3 and rank == 1:
        raise RuntimeError("the callback's own")
    return np.asarray(x)

@jax.jit
def step(x, k):
    x = jax.lax.fori_loop(0, k, lambda i, m: m + 0.0, x)
    seen = jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return [rj.allreduce(seen + i, op=rj.Sum, name="loss" if i == 2 else None) for i in range(3)]

def run(name, numbers):
    global number
    for number in numbers:
        if way == "late" and number == 3 and rank == 1:
            time.sleep(4)
        try:
            x = jnp.full(4 + (way == "shapes" and number == 3 and rank == 1), 100.0 * number + rank)
            found = [float(each[3]) for each in step(x, 1)]
            total = 100.0 * number * size + size * (size - 1) / 2
            print(name, number, found == [total + size * i for i in range(3)], found)
        except (ValueError, RuntimeError) as error:
            print(name, number, "is refused" if "cannot tell which" in str(error) else "failed")
        try:  # outside of programs, with a name that a call in one has, too
            print("outside", number, float(rj.allreduce(jnp.float32(number), name="loss")) == number)
        except rj.RondeError:
            print("outside", number, "failed")

run("first", range(6))
rj.shutdown()
rj.init()
run("then", range(10, 12))
"""


@pytest.mark.parametrize("way", ["callback", "shapes", "late"])
def test_calls_through_python(tmp_path, way):
    """All unnamed ones have one name: after a callback that raised on one rank, sums were of two steps from then on."""
    program = tmp_path / "program.py"
    program.write_text(THROUGH_PYTHON)
    ended = run_job(2, str(program), way, RONDE_TIMEOUT_S="2", RONDE_JAX_FFI="0", forked="jax")
    first, then, outside = (ended.lines(f"{each} ") for each in ("first", "then", "outside"))
    assert ended.code == 0 and (len(first), len(then), len(outside)) == (12, 4, 16), ended.output
    assert not any("False" in each for each in first + then + outside), ended.output
    assert sum("is refused" in each for each in first) >= 4, ended.output
    assert sum("True" in each for each in then) == 4, ended.output


ONE_NAME = """
import jax, jax.numpy as jnp, numpy as np, ronde.jax as rj
rj.init()
rank, size, number = rj.rank(), rj.size(), 0

def look(x):
    if rank == 1 and number == 3:
        raise RuntimeError("the callback's own")
    return np.asarray(x)

@jax.jit
def step(x):
    return rj.allreduce(jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x), op=rj.Sum, name="loss")

for number in range(12):
    for which, call in enumerate((step, lambda x: rj.allreduce(x, op=rj.Sum, name="loss"))):
        try:
            found = float(call(jnp.float32(100 * number + rank + 7000 * which)))
            print("step", number, which, found == (100 * number + 7000 * which) * size + size * (size - 1) / 2, found)
        except (ValueError, jax.errors.JaxRuntimeError, rj.RondeError) as error:
            print("step", number, which, "failed", str(error)[:150].replace(chr(10), " "))
"""


def test_a_call_outside_has_no_name_of_one_in_a_program(tmp_path):
    """Where a callback had raised before the call in the program, the next one outside met that of another rank."""
    program = tmp_path / "program.py"
    program.write_text(ONE_NAME)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="2", forked="jax")
    told = ended.lines("step ")
    assert ended.code == 0 and len(told) == 48 and not any("False" in each for each in told), ended.output
    assert sum("True" in each for each in told if int(each.split()[1]) >= 9) == 12, ended.output


OF_AN_EARLIER_JOB = """
import jax, jax.numpy as jnp, sys, time, ronde.jax as rj
from ronde.jax import _library
_library._LEAVE_LIMIT_S, _library._JOIN_LIMIT_S = 0.3, float(sys.argv[1])
rj.init()
rank = rj.rank()
late = jax.jit(lambda y, k: jax.lax.fori_loop(0, k, lambda i, m: jnp.sin(m @ m), y))
step = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum))
float(step(jnp.float32(0)))
square, many, old = jnp.ones((32, 32)), 0, None
late(square, 20).block_until_ready()
if rank == 0:
    start = time.process_time()  # not what other processes take: one thread runs the loop
    late(square, 20000).block_until_ready()
    many = int(2.5 / (time.process_time() - start) * 20000)  # 2.5 s of a core
try:
    old = step(1000.0 + rank + 0 * late(square, many)[0, 0])
except Exception:  # rank 1 may be told here that rank 0 has left
    pass
rj.shutdown()
try:
    rj.init()
except ValueError as error:
    print("init failed", str(error))
    try:
        old.block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print("old failed", str(error))
    rj.init()
for number in range(3):
    found = float(step(jnp.float32(10 * number + rank)))
    print("step", number, found == 20 * number + 1, found)
"""


@pytest.mark.parametrize("limit_s", [long("60"), "0.3"])
def test_a_program_that_was_under_way_in_an_earlier_job(tmp_path, limit_s):
    """Leaving waits for it, within a limit. Then its call was the first of the next job, and met another rank's first there."""
    program = tmp_path / "program.py"
    program.write_text(OF_AN_EARLIER_JOB)
    ended = run_job(2, str(program), limit_s, RONDE_TIMEOUT_S="60", forked="jax")
    told = ended.lines("step ")
    assert len(told) == 6 and not any("False" in each for each in told), ended.output
    failed = ended.lines("init failed")
    assert len(failed) == (limit_s == "0.3") and all("wait for its results" in each for each in failed), ended.output
    assert len(ended.lines("old failed")) == len(failed), ended.output
