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
from launching import long, run_job
from ronde.exceptions import CollectiveError, InvalidArgumentError, MismatchError


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


@pytest.mark.ranks(2, 3)
def test_a_refused_call_without_a_name_counts(hvd, rank, world):
    """It did not, and the rank's next one met the others' one before."""
    x, one = jnp.ones(2 * world), jnp.float32(1)
    for wrong, right in (
        (lambda: rj.allreduce("text"), lambda: rj.allreduce(one)),
        (lambda: rj.allreduce(one, op=17), lambda: rj.allreduce(one)),
        (lambda: rj.allreduce({"a": one, "b": "text"}), lambda: rj.allreduce({"a": one, "b": one})),
        (lambda: rj.grouped_allreduce([one, "text"]), lambda: rj.grouped_allreduce([one, one])),
        (lambda: rj.broadcast([one], 0), lambda: rj.broadcast(one, 0)),
        (lambda: rj.allgather(one), lambda: rj.allgather(x)),
        (lambda: rj.allgather(x, rows=[1] * world), lambda: rj.allgather(x)),
        (lambda: rj.alltoall(x[:1]), lambda: rj.alltoall(x)),
        (lambda: rj.reducescatter(one), lambda: rj.reducescatter(x)),
    ):
        if rank == 1:
            with pytest.raises((TypeError, ValueError)):
                wrong()
        else:
            with pytest.raises(CollectiveError, match="it was refused there"):
                right()
        for step in range(2):
            expected = sum(10.0 * step + each for each in range(world))
            assert float(rj.allreduce(jnp.float32(10 * step + rank), op=rj.Sum)) == expected


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


@pytest.mark.parametrize("order", ["torch numpy jax", "jax torch numpy", long("numpy jax torch")])
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
    found = [run_job(2, str(program), RONDE_JAX_FFI=way, forked="jax") for way in ("1", "0")]
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


IN_A_BARRIER = """
import jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
rank, size = rj.rank(), rj.size()
step = jax.jit(lambda x, y: rj.allreduce(x + 0 * y[0, 0], op=rj.Max))
late = jax.jit(lambda y, k: jax.lax.fori_loop(0, k, lambda i, m: jnp.sin(m @ m), y))
square = jnp.ones((200, 200))
jax.block_until_ready([step(jnp.zeros(many), late(square, 0)) for many in (4, 5)])  # what compiles is late
x, y = jnp.zeros(4), late(square, 200 if rank == 1 else 0)
if rank == 0:
    jax.block_until_ready(y)
try:
    x = step(jnp.zeros(4 + rank), y)  # an error on all ranks, which rank 1's result holds
    jax.block_until_ready(x)
except (ValueError, jax.errors.JaxRuntimeError):
    print("error")
for number in range(5):
    try:
        rj.barrier(x)
    except (ValueError, jax.errors.JaxRuntimeError):
        print("barrier failed")
    x = jnp.zeros(4)
    found = float(rj.allreduce(jnp.float32(10 * number + rank), op=rj.Sum))
    print("step", number, found == 10 * number * size + size * (size - 1) / 2, found)
"""


def test_a_barrier_of_an_array_that_holds_an_error(tmp_path):
    """The rank made none, so its next one met the others', and what came behind it was of two steps."""
    program = tmp_path / "program.py"
    program.write_text(IN_A_BARRIER)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="10", forked="jax")
    assert ended.code == 0 and len(ended.lines("error")) == 2, ended.output
    assert sum("True" in each for each in ended.lines("step ")) == 10, ended.output


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
    ended = run_job(2, str(program), str(tmp_path / "told"), RONDE_TIMEOUT_S="2", forked="jax")
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
    ended = run_job(2, str(program), XLA_FLAGS="--xla_force_host_platform_device_count=2", RONDE_JAX_FFI=way, forked="jax")
    assert ended.code == 0, ended.output
    refused = ["shard_map", "pmap", "shards at once", *(["sharded"] if way == "1" else [])]
    for each in refused:
        assert len(ended.lines(f"{each} is refused: makes calls of Ronde and runs on 2")) == 2, ended.output
    for each in {"sharded", "one device", "at once"} - set(refused):
        assert ended.lines(each) == [f"{each} [1.0, 3.0, 5.0, 7.0]"] * 2, ended.output


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
    ended = run_job(2, str(program), forked="jax")
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
    ended = run_job(2, str(program), forked="jax")
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
    ended = run_job(2, str(program), XLA_FLAGS="--xla_force_host_platform_device_count=2", forked="jax")
    assert ended.code == 0, ended.output
    for way in ("a call", "calls"):
        assert ended.lines(way).count(f"{way} is refused: True") == 2, ended.output
        assert ended.lines(way).count(f"{way} [2.0, 2.0, 2.0]") == 6, ended.output
