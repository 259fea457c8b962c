"""ronde.jax: errors in compiled programs and at once; what ranks do when one leaves; several frameworks in one process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ronde.jax as rj
import ronde.numpy as rnp
from launching import run_job
from ronde.exceptions import InvalidArgumentError, MismatchError


@pytest.mark.ranks(2, 3)
def test_ranks_that_differ(hvd, rank, world):
    """The same text on every rank, with the places; the program can be run again."""
    add = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum, name="jax.differs"))
    for _ in range(3):
        with pytest.raises(jax.errors.JaxRuntimeError, match="allreduce.jax.differs") as caught:
            jax.block_until_ready(add(jnp.ones(3 + (rank == 0))))
        text = str(caught.value)
        assert "[3]" in text and "[4]" in text and "test_jax_errors.py:" in text
        assert len(set(rj.allgather_object(text.partition("allreduce")[2]))) == 1
        assert add(jnp.ones(3)).tolist() == [world] * 3
    with pytest.raises(MismatchError, match="float32"):
        rj.allreduce(jnp.ones(3, jnp.float16 if rank else jnp.float32), name="jax.types")
    with pytest.raises(jax.errors.JaxRuntimeError, match="compiled program expects"):
        jax.block_until_ready(jax.jit(rj.allgather)(jnp.ones(3 + (rank == 0))))
    assert float(jax.jit(rj.allreduce)(1.0)) == 1.0


@pytest.mark.ranks(2, 3)
def test_a_program_of_several_calls_goes_on_after_an_error(hvd, rank, world):
    """None of its calls, which do not depend on each other, meets one of another step."""
    program = jax.jit(lambda arrays: [rj.allreduce(each, op=rj.Sum) for each in arrays])
    for step in range(24):
        fails = step % 4 == 1
        arrays = [
            jnp.full(1000 + (fails and i == 2 and rank == 1), 100.0 * step + i + rank, jnp.float32) for i in range(4)
        ]
        if fails:
            with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="the ranks disagree about the shape"):
                [np.asarray(each) for each in program(arrays)]
            continue
        for i, result in enumerate(program(arrays)):
            np.testing.assert_array_equal(result, np.full(1000, sum(100.0 * step + i + of for of in range(world))))


def outcome(call):
    """Its arrays, or the text of its error: a rank that fails an assertion in the middle would leave the others waiting."""
    try:
        return [np.asarray(each) for each in call()]
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        return str(error)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("fails_first", [True, False])
def test_no_execution_meets_one_that_has_failed(hvd, rank, world, fails_first):
    """XLA begins no more of an execution of which a call has failed: of six some ranks have begun more than others. Sums of two
    executions were the result, with success, in five of six jobs."""
    program = jax.jit(lambda arrays: [rj.allreduce(each, op=rj.Sum) for each in arrays])
    where = 0 if fails_first else 5
    found = []
    for step in range(16):
        fails = step in (2, 6, 10)
        arrays = [jnp.full(3000 + (fails and i == where and rank == 1), 1000.0 * rank + 10 * step + i) for i in range(6)]
        found.append(outcome(lambda: program(arrays)))
    for step, results in enumerate(found):
        if step in (2, 6, 10):
            assert isinstance(results, str), step
            continue
        assert not isinstance(results, str), (step, results)
        for i, result in enumerate(results):
            expected = sum(1000.0 * of + 10 * step + i for of in range(world))
            np.testing.assert_array_equal(result, np.full(3000, expected, np.float32), err_msg=f"step {step}, call {i}")


@pytest.mark.ranks(3)
def test_executions_with_calls_of_a_set_go_on_after_an_error(hvd, rank, world):
    """The calls of a set and those of all ranks go on under other names together."""
    pair = rj.add_process_set([0, 1])
    mine = pair if rank < 2 else None

    def calls(x, y):
        first = rj.allreduce(x, op=rj.Sum)
        of_pair = rj.allreduce(y + 0 * first[:4], op=rj.Sum, process_set=mine) if mine else y
        return first, of_pair, rj.allreduce(of_pair + 1, op=rj.Max)

    program = jax.jit(calls)
    found = []
    for step in range(12):
        fails = step in (1, 2, 7)
        x, y = jnp.full(100 + (fails and rank == 1), float(step + rank)), jnp.full(4, 10.0 * step + rank)
        found.append(outcome(lambda: program(x, y)))
    for step, results in enumerate(found):
        if step in (1, 2, 7):
            assert isinstance(results, str), step
            continue
        assert not isinstance(results, str), (step, results)
        np.testing.assert_array_equal(results[0], np.full(100, 3.0 * step + 3))
        np.testing.assert_array_equal(results[1], np.full(4, 20.0 * step + 1 if rank < 2 else 10.0 * step + rank))
        np.testing.assert_array_equal(results[2], np.full(4, max(20.0 * step + 2, 10.0 * step + 3)))
    rj.remove_process_set(pair)


@pytest.mark.ranks(2)
def test_refused_when_traced(hvd, rank, world):
    for wrong, text in (
        (lambda: rj.allreduce(jnp.ones(3, jnp.int4)), "'allreduce' is of type int4"),
        (lambda: rj.allreduce({"a": [jnp.ones(3, jnp.int4)]}), r"'allreduce' of \['a'\]\[0\] is of type int4"),
        (lambda: rj.allreduce(jax.random.key(0)), r"pass jax.random.key_data\(key\)"),
        (lambda: rj.allreduce(1.0, op=17), "op=17 is none of"),
        (lambda: rj.allgather(1.0), "has no dimensions"),
        (lambda: rj.allgather(jnp.ones(3), rows=[3]), "expected 2 numbers of rows"),
        (lambda: rj.allgather(jnp.ones(3), rows=[2, 2]), "rows says that this rank has 2"),
        (lambda: rj.alltoall(jnp.ones(3)), "cannot be shared equally by 2 ranks"),
        (lambda: rj.alltoall(jnp.ones(3), splits=[1, 2]), "together, or neither"),
        (lambda: rj.alltoall(jnp.ones(3), splits=[1, 1], received_splits=[1, 1]), "splits add up to 2"),
        (lambda: rj.broadcast([1.0], 0), "takes one array, not a list"),
        (lambda: rj.average_gradients(op=17), "op=17 is none of"),
    ):
        for way in (lambda f: f, jax.jit):
            with pytest.raises(InvalidArgumentError, match=text):
                way(wrong)()
    for way in (lambda f: f, jax.jit):
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="root"):
            jax.block_until_ready(way(lambda x: rj.broadcast(x, 7))(1.0))
    assert rj.allreduce(1.0, op=rj.Sum) == 2.0


@pytest.mark.ranks(2, 3)
def test_three_frameworks_interleaved(hvd, rank, world):
    """One engine: calls without names count together, those in programs go by name."""
    compiled = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum))
    for step in range(20):
        mine = float(step + rank)
        handle = hvd.allreduce_async(torch.full((3,), mine), op=hvd.Sum)
        running = compiled(jnp.full(300, mine))
        array = rnp.allreduce(np.full(5, mine), op=rnp.Sum)
        at_once = rj.allreduce(jnp.full(2, mine), op=rj.Sum)
        named = rnp.allreduce_async(np.full(4, mine), op=rnp.Sum, name="three.frameworks")
        total = world * step + world * (world - 1) / 2
        for result in (hvd.synchronize(handle), running, array, at_once, rnp.synchronize(named)):
            assert np.array_equal(np.asarray(result), np.full(len(result), total))


@pytest.mark.parametrize("order", ["torch numpy jax", "jax torch numpy", "numpy jax torch"])
def test_in_any_order_of_imports(order):
    program = "".join(f"import ronde.{name}\n" for name in order.split()) + (
        "import jax, torch, numpy\n"
        "ronde.jax.init()\n"
        "assert ronde.torch.is_initialized() and ronde.numpy.size() == 1\n"
        "assert float(jax.jit(ronde.jax.allreduce)(2.0)) == 2.0\n"
        "assert float(ronde.torch.allreduce(torch.ones(()))) == float(ronde.numpy.allreduce(1.0)) == 1.0\n"
        "ronde.torch.shutdown()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


WITHOUT_HANDLER = """
import jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()
def loss(x):
    y = rj.allreduce(x * x, op=rj.Sum) + rj.allgather(x[:1]).sum()
    return jax.lax.scan(lambda c, _: (rj.allreduce(c), None), y.sum(), None, length=3)[0]
value, gradient = jax.jit(jax.value_and_grad(loss))(jnp.full(2, rank + 1.0))
print("value", float(value), gradient.tolist())
print("barrier", jax.jit(rj.barrier)(jnp.ones(2)).tolist())
"""


def test_without_the_handler(tmp_path):
    """Where XLA cannot call the library the same comes out, by way of Python."""
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_HANDLER)
    found = [run_job(2, str(program), RONDE_JAX_FFI=way) for way in ("1", "0")]
    for ended in found:
        assert ended.code == 0, ended.output
    assert len(found[0].lines("value")) == 2
    assert sorted(found[0].lines("")) == sorted(found[1].lines(""))


def test_a_jax_that_does_not_show_its_programs(tmp_path):
    """Calls in it could have no names of their own: they go through Python too, and a warning says so."""
    program = tmp_path / "program.py"
    program.write_text("import ronde.jax._library as library\nlibrary.install = lambda: None\n" + WITHOUT_HANDLER)
    ended = run_job(2, str(program))
    assert ended.code == 0 and "this JAX is not known" in ended.output, ended.output
    assert len(ended.lines("value")) == 2, ended.output


LEAVING = """
import jax, jax.numpy as jnp, os, signal, sys, ronde.jax as rj
rj.init()
step = jax.jit(lambda x: rj.allreduce(jnp.sin(x), op=rj.Sum))
x = jnp.ones(1000)
try:
    for number in range(50):
        x = step(x)
        if sys.argv[1] == "killed" and number == 20 and rj.rank() == 1:
            jax.block_until_ready(x)
            os.kill(os.getpid(), signal.SIGKILL)
    if rj.rank() == 0:
        print("sum", float(x[0]) != 0.0)
except (jax.errors.JaxRuntimeError, ValueError) as error:  # the latter of calls with a result that has failed
    print("error", error)
"""


def test_a_rank_that_ends_first(tmp_path):
    """It leaves when its programs have run, though it has not waited for them."""
    program = tmp_path / "program.py"
    program.write_text(LEAVING)
    ended = run_job(2, str(program), "waits")
    assert ended.code == 0 and ended.lines("sum True"), ended.output


def test_a_rank_that_dies(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LEAVING)
    ended = run_job(2, str(program), "killed")
    [error] = ended.lines("error ")
    assert "rank 1" in error and ended.code != 0, ended.output




TOO_LATE = """
import jax, pathlib, sys, time, ronde.jax as rj
rj.init()
told = pathlib.Path(sys.argv[1])
if rj.rank() == 0:
    try:
        jax.block_until_ready(jax.jit(rj.allreduce)(1.0))
    except jax.errors.JaxRuntimeError as error:
        print("error", error)
    told.touch()
while not told.exists():
    time.sleep(0.01)
"""


def test_time_limit(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(TOO_LATE)
    ended = run_job(2, str(program), str(tmp_path / "told"), RONDE_TIMEOUT_S="2")
    [error] = ended.lines("error ")
    assert "DEADLINE_EXCEEDED" in error and "rank 1" in error and ended.code == 0, ended.output


def test_programs_for_a_gpu_keep_callbacks_out_of_fusion(tmp_path):
    """There calls of compiled programs go through Python, and XLA's fusion must not look across them. The part of the GPU is
    played by what JAX says of its backend."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import jax
            import jax.numpy as jnp

            jax.default_backend = lambda: "gpu"
            import ronde.jax as rj

            rj.init()
            function = jax.jit(lambda x: (rj.allreduce(x @ x.T), rj.broadcast(x + 1, 0), rj.allgather(x[:1])))
            x = jnp.ones((4, 4)) * rj.rank()
            assert function.lower(x).as_text().count("optimization_barrier") >= 6
            total, first, rows = function(x)
            assert (total == 2).all() and (first == 1).all() and rows[:, 0].tolist() == [0, 1]
            """
        )
    )
    run_job(2, str(program))


SEVERAL_DEVICES = """
import jax, jax.numpy as jnp, numpy as np, ronde.jax as rj
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
rj.init()
mesh = Mesh(np.array(jax.devices()), ("i",))
add = lambda x: rj.allreduce(x, op=rj.Sum)
values = jnp.arange(4.0) + rj.rank()
sharded = jax.device_put(values, NamedSharding(mesh, P("i")))
for way, program, given in [
    ("shard_map", jax.jit(jax.shard_map(add, mesh=mesh, in_specs=P("i"), out_specs=P("i"))), values),
    ("pmap", jax.pmap(add), values.reshape(2, 2)),
    ("sharded", jax.jit(add), sharded),
    ("one device", jax.jit(add), values),
    ("at once", add, sharded),
    ("shards at once", jax.shard_map(add, mesh=mesh, in_specs=P("i"), out_specs=P("i")), values),
]:
    try:
        print(way, np.asarray(program(given)).tolist())
    except NotImplementedError as error:
        print(way, "is refused:", " ".join(str(error).split()[1:9]))
"""


@pytest.mark.parametrize("way", ["1", "0"])
def test_a_program_on_several_devices_is_refused(tmp_path, way):
    """Each device would make the calls of the one rank, with its shard: the sums were wrong. By way of Python JAX itself makes
    one call of one device where it cuts arguments up."""
    program = tmp_path / "program.py"
    program.write_text(SEVERAL_DEVICES)
    ended = run_job(2, str(program), XLA_FLAGS="--xla_force_host_platform_device_count=2", RONDE_JAX_FFI=way)
    assert ended.code == 0, ended.output
    refused = ["shard_map", "pmap", "shards at once", *(["sharded"] if way == "1" else [])]
    for each in refused:
        assert len(ended.lines(f"{each} is refused: makes calls of Ronde and runs on 2")) == 2, ended.output
    for each in {"sharded", "one device", "at once"} - set(refused):
        assert ended.lines(each) == [f"{each} [1.0, 3.0, 5.0, 7.0]"] * 2, ended.output


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
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="2")
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


@pytest.mark.parametrize("ranks, raises, after_s", [(2, "1", 0), (2, "1", 0.5), (2, "all", 0), (3, "0", 0.5)])
def test_an_execution_that_xla_gives_up(tmp_path, ranks, raises, after_s):
    """A callback raises in the middle of an execution: calls that only some ranks have begun meet none of a later one."""
    program = tmp_path / "program.py"
    program.write_text(RAISES)
    ended = run_job(ranks, str(program), raises, str(after_s), RONDE_TIMEOUT_S="2")
    told = ended.lines("step ")
    assert len(told) == 10 * ranks and not any("False" in each for each in told), ended.output
    right = [sum(f"{step} True" in each for each in told) for step in range(10)]
    assert right[:3] == [ranks] * 3 and right[-3:] == [ranks] * 3, ended.output


APART = """
import jax, jax.numpy as jnp, sys, time, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()

def calls(x, n):
    parts = [jnp.full(n + (n == 40001 and i == 5), x * (i + 1)) for i in range(9)]
    sums = [rj.allgather(each[None]).sum(0) if i % 3 == 2 else rj.allreduce(each, op=rj.Sum) for i, each in enumerate(parts)]
    return jnp.stack([each[0] for each in sums])

step = jax.jit(lambda x, n: jax.lax.scan(lambda _, __: (_, calls(x, n)), 0, None, length=3)[1][0], static_argnums=1)
for n in (40000, 40001):
    step(jnp.float32(1), n).block_until_ready()
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


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_a_late_one_has_left_behind_go_on_in_one_execution(tmp_path, ranks):
    """After a failure of all, one rank is late by more than two limits: then all had success, with sums of two steps."""
    program = tmp_path / "program.py"
    program.write_text(APART)
    ended = run_job(ranks, str(program), RONDE_TIMEOUT_S="1")
    told = ended.lines("step ")
    assert len(told) == 14 * ranks and not any("False" in each for each in told), ended.output
    for number in (10, 11, 12, 13):
        assert sum(each.startswith(f"step {number} True") for each in told) == ranks, ended.output


OTHER_RANKS = """
import jax, jax.numpy as jnp, os, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()
root = jax.jit(lambda x: (rj.broadcast(x, 0), rj.allreduce(x, op=rj.Sum)))
rows = jax.jit(jax.grad(lambda x: (rj.allgather(x) * jnp.arange(2.0 * size)).sum()))
mine = lambda: jnp.full(2, 10.0 * (rj.rank() + 1))
print("first", root(mine())[0].tolist(), rows(mine()).tolist() == [2.0 * rank, 2.0 * rank + 1])
rj.shutdown()
for name in ("RONDE_RANK", "RONDE_LOCAL_RANK"):
    os.environ[name] = str((rank + 1) % size)
rj.init()
print("second", root(mine())[0].tolist(), root(mine())[1].tolist())
try:
    print("rows", rows(mine()).tolist())
except (ValueError, jax.errors.JaxRuntimeError) as error:
    print("rows are refused:", "traced in an earlier job" in str(error))
jax.clear_caches()
print("anew", rows(mine()).tolist() == [2.0 * rj.rank(), 2.0 * rj.rank() + 1])
"""


def test_a_program_of_a_job_in_which_this_was_another_rank(tmp_path):
    """A broadcast gave what was in memory, and gradients were another rank's rows."""
    program = tmp_path / "program.py"
    program.write_text(OTHER_RANKS)
    ended = run_job(2, str(program))
    assert ended.code == 0, ended.output
    assert ended.lines("first") == ["first [10.0, 10.0] True"] * 2, ended.output
    assert ended.lines("second") == ["second [10.0, 10.0] [30.0, 30.0]"] * 2, ended.output
    assert ended.lines("rows are") == ["rows are refused: True"] * 2, ended.output
    assert ended.lines("anew") == ["anew True"] * 2, ended.output


EXPORTED = """
import jax, jax.numpy as jnp, ronde.jax as rj
from jax import export
rj.init()
checks = [export.DisabledSafetyCheck.custom_call(f"ronde_jax_{each}") for each in ("collective", "start", "end", "done")]
try:
    export.export(jax.jit(lambda x: rj.allreduce(x, op=rj.Sum)), disabled_checks=checks)(jnp.zeros(3))
except NotImplementedError as error:
    print("refused:", "makes calls of Ronde and is exported" in str(error))
twice = export.export(jax.jit(lambda x: 2 * x))(jnp.zeros(3))
print("sum", jax.jit(lambda x: rj.allreduce(twice.call(x), op=rj.Sum))(jnp.ones(3)).tolist())
"""


def test_a_program_with_calls_is_not_exported(tmp_path):
    """Two calls of an exported function had one name: one's values were added to the other's."""
    program = tmp_path / "program.py"
    program.write_text(EXPORTED)
    ended = run_job(2, str(program))
    assert ended.code == 0, ended.output
    assert ended.lines("refused") == ["refused: True"] * 2 and ended.lines("sum") == ["sum [4.0, 4.0, 4.0]"] * 2, ended.output


OTHER_DEVICE = """
import jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
one, other = jax.devices()
if rj.rank() == 1:
    one, other = other, one
for way, step in [
    ("a call", jax.jit(lambda x: rj.allreduce(x, op=rj.Sum))),
    ("calls", jax.jit(lambda x: rj.allreduce(rj.allreduce(x, op=rj.Max), op=rj.Sum))),
]:
    for device in (one, one, other, one):
        try:
            print(way, step(jax.device_put(jnp.ones(3), device)).tolist())
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print(way, "is refused:", "let a process run its calls on one device" in str(error))
"""


def test_a_program_goes_to_no_other_device(tmp_path):
    """Its executions on two devices overlap, and each rank's meet the other's: sums of two executions, with success."""
    program = tmp_path / "program.py"
    program.write_text(OTHER_DEVICE)
    ended = run_job(2, str(program), XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert ended.code == 0, ended.output
    for way in ("a call", "calls"):
        assert ended.lines(way).count(f"{way} is refused: True") == 2, ended.output
        assert ended.lines(way).count(f"{way} [2.0, 2.0, 2.0]") == 6, ended.output


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
@pytest.mark.parametrize("ranks, raises", [(2, "1"), (3, "0"), (2, "all")])
def test_an_execution_that_fails_before_its_first_call(tmp_path, ranks, raises, calls, way, fails):
    """The rank's next one met the others' one before, from then on, with success."""
    program = tmp_path / "program.py"
    program.write_text(BEFORE_ANY_CALL)
    ended = run_job(ranks, str(program), raises, str(calls), way, fails, RONDE_TIMEOUT_S="1")
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
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="5")
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


@pytest.mark.parametrize("names", ["given", "none"])
def test_programs_of_two_threads_of_which_one_fails(tmp_path, names):
    """Executions of all programs were counted together: ranks whose threads took turns otherwise went on apart."""
    program = tmp_path / "program.py"
    program.write_text(IN_TURNS)
    ended = run_job(2, str(program), names, RONDE_TIMEOUT_S="2")
    told = ended.lines("train ") + ended.lines("judge ")
    assert ended.code == 0 and len(told) == 130 and not any("False" in each for each in told), ended.output
    if names == "none":
        assert sum("True" in each for each in ended.lines("judge ")) == 50, ended.output
        assert sum("True" in each for each in ended.lines("train ")) == 72, ended.output


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
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="1")
    told = ended.lines("first ") + ended.lines("then ")
    assert ended.code == 0 and len(told) == 22 and not any("False" in each for each in told), ended.output
    assert ended.lines("first 4 is refused") and ended.lines("first 6 is refused"), ended.output
    assert sum("True" in each for each in ended.lines("then ")) == 8, ended.output


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


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_ask_in_different_programs_meet_again(tmp_path, ranks):
    """Each waited for the others in its own program, up to the limit, and went on to the other one, in step with them."""
    program = tmp_path / "program.py"
    program.write_text(IN_PHASE)
    ended = run_job(ranks, str(program), RONDE_TIMEOUT_S="1")
    told = ended.lines("step ")
    assert ended.code == 0 and len(told) == 24 * ranks and not any("False" in each for each in told), ended.output
    for number in (0, 1, 2, 9, 10, 11):
        assert sum(each.startswith(f"step {number} ") and "True" in each for each in told) == 2 * ranks, ended.output
