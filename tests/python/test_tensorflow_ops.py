"""Operations on TensorFlow's tensors, against NumPy: eager, in functions, and in graphs of ``tf.compat.v1``."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tensorflow_fixtures import hvd, rank, tf  # noqa: F401 - fixtures

from ronde.exceptions import UnsupportedError

REDUCED = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
MOVED = [*REDUCED, "bool", "complex64", "complex128"]


def values(rank, shape=(5, 3)):
    """Small whole numbers, other ones on each rank: every type holds them and their sums exactly."""
    return (np.arange(np.prod(shape)).reshape(shape) % 4) + rank


def everywhere(world, shape=(5, 3)):
    return [values(rank, shape) for rank in range(world)]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", REDUCED)
def test_sums_and_averages_of_every_type(hvd, tf, rank, world, dtype):
    tensor = tf.cast(values(rank), dtype)
    total = hvd.allreduce(tensor, op=hvd.Sum, name=f"sum.{dtype}")
    assert total.dtype == tensor.dtype
    np.testing.assert_array_equal(tf.cast(total, tf.float64), sum(everywhere(world)))
    average = tf.cast(hvd.allreduce(tensor, name=f"average.{dtype}"), tf.float64)
    exact = sum(everywhere(world)) / world
    if tensor.dtype.is_floating:
        np.testing.assert_allclose(average, exact, rtol=4e-3 if dtype == "bfloat16" else 1e-3)
    else:
        np.testing.assert_array_equal(average, np.trunc(exact))


@pytest.mark.ranks(2, 3)
def test_other_operations(hvd, tf, rank, world):
    tensor = tf.constant(values(rank) + 1, tf.int32)
    all_values = np.stack(everywhere(world)) + 1
    for op, expected in (
        (hvd.Min, all_values.min(0)),
        (hvd.Max, all_values.max(0)),
        (hvd.Product, all_values.prod(0)),
        (hvd.BitAnd, np.bitwise_and.reduce(all_values)),
        (hvd.BitOr, np.bitwise_or.reduce(all_values)),
        (hvd.BitXor, np.bitwise_xor.reduce(all_values)),
    ):
        np.testing.assert_array_equal(hvd.allreduce(tensor, op=op), expected)
    flags = tf.constant([rank == 0, True, False])
    np.testing.assert_array_equal(hvd.allreduce(flags, op=hvd.Sum), [True, True, False])
    np.testing.assert_array_equal(hvd.allreduce(flags, op=hvd.Min), [False, True, False])


@pytest.mark.ranks(2)
def test_adasum_of_parallel_and_orthogonal_gradients(hvd, tf, rank):
    same = tf.constant([1.0, 2.0])
    np.testing.assert_allclose(hvd.allreduce(same, op=hvd.Adasum, name="same"), [1.0, 2.0], rtol=1e-6)
    apart = tf.constant([1.0, 0.0] if rank == 0 else [0.0, 2.0])
    np.testing.assert_allclose(hvd.allreduce(apart, op=hvd.Adasum, name="apart"), [1.0, 2.0], rtol=1e-6)


@pytest.mark.ranks(2, 3)
def test_factors_and_compression(hvd, tf, rank, world):
    tensor = tf.constant(values(rank), tf.float32)
    scaled = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    np.testing.assert_allclose(scaled, 2.0 * sum(everywhere(world)))
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        result = hvd.allreduce(tensor, op=hvd.Sum, compression=compression)
        assert result.dtype == tf.float32
        np.testing.assert_array_equal(result, sum(everywhere(world)))
    counts = tf.constant([rank, 300 + rank])  # integers are not compressed
    np.testing.assert_array_equal(hvd.allreduce(counts, op=hvd.Max, compression=hvd.Compression.fp16)[1], 299 + world)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (2, 0, 3), (1, 2, 1, 2)])
def test_every_shape(hvd, tf, rank, world, shape):
    result = hvd.allreduce(tf.constant(values(rank, shape), tf.float32, shape), op=hvd.Sum)
    assert result.shape == shape
    np.testing.assert_array_equal(result, np.reshape(sum(everywhere(world, shape)), shape))


@pytest.mark.ranks(2, 3)
def test_the_callers_tensor_stays_as_it_is(hvd, tf, rank, world):
    tensor = tf.constant(values(rank), tf.float32)
    for _ in range(3):
        hvd.allreduce(tensor, op=hvd.Sum, name="kept")
        hvd.broadcast(tensor, world - 1, name="kept")
    np.testing.assert_array_equal(tensor, values(rank))


@pytest.mark.ranks(2, 3)
def test_groups(hvd, tf, rank, world):
    tensors = [tf.constant(values(rank, (n,)), dtype) for n, dtype in ((1, tf.float32), (5, tf.int64), (0, tf.float32))]
    for result, n in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum, name="group"), (1, 5, 0)):
        np.testing.assert_array_equal(result, sum(everywhere(world, (n,))))
    gathered = hvd.grouped_allgather([tf.fill([rank, 2], rank), tf.fill([2], rank)])
    np.testing.assert_array_equal(gathered[0], np.repeat(np.arange(world), range(world))[:, None] * [1, 1])
    np.testing.assert_array_equal(gathered[1], np.repeat(np.arange(world), 2))
    scattered = hvd.grouped_reducescatter([tf.fill([world, 2], rank), tf.range(2 * world)], op=hvd.Sum)
    np.testing.assert_array_equal(scattered[0], np.full((1, 2), sum(range(world))))
    np.testing.assert_array_equal(scattered[1], world * np.arange(2 * rank, 2 * rank + 2))
    assert hvd.grouped_allreduce([]) == [] and hvd.grouped_allgather([]) == []


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", MOVED)
def test_rows_of_every_type_travel(hvd, tf, rank, world, dtype):
    def mine(of):
        return np.arange(2 * (of + 1)).reshape(of + 1, 2) % 2 if dtype == "bool" else values(of, (of + 1, 2))

    tensor = tf.cast(tf.constant(mine(rank)), dtype)
    gathered = hvd.allgather(tensor, name=f"rows.{dtype}")
    assert gathered.dtype == tensor.dtype
    np.testing.assert_array_equal(tf.cast(gathered, tf.int32), np.concatenate([mine(of) for of in range(world)]))
    sent = hvd.broadcast(tf.cast(tf.constant(mine(0) + rank * (dtype != "bool")), dtype), 0, name=f"sent.{dtype}")
    np.testing.assert_array_equal(tf.cast(sent, tf.int32), mine(0))
    exchanged = hvd.alltoall(tf.cast(tf.fill([world], 1), dtype), name=f"exchanged.{dtype}")
    assert exchanged.dtype == tensor.dtype and exchanged.shape == [world]


@pytest.mark.ranks(2, 3)
def test_scalars_are_gathered_as_rows(hvd, rank, world):
    np.testing.assert_array_equal(hvd.allgather(rank), np.arange(world))


@pytest.mark.ranks(2, 3)
def test_alltoall(hvd, tf, rank, world):
    even = hvd.alltoall(tf.range(2 * world) + 100 * rank)
    np.testing.assert_array_equal(even, [100 * of + 2 * rank + i for of in range(world) for i in range(2)])
    splits = [to for to in range(world)]  # rank r gets r rows from each
    rows = tf.constant([[100 * rank + to] for to in range(world) for _ in range(to)])
    received, counts = hvd.alltoall(rows, splits=splits)
    np.testing.assert_array_equal(counts, [rank] * world)
    np.testing.assert_array_equal(received, [[100 * of + rank] for of in range(world) for _ in range(rank)] or np.zeros((0, 1)))


@pytest.mark.ranks(2, 3)
def test_reducescatter_gives_the_first_ranks_one_row_more(hvd, tf, rank, world):
    tensor = tf.constant(values(rank, (world + 1, 2)), tf.float32)
    total = sum(everywhere(world, (world + 1, 2)))
    first = rank + min(rank, 1)
    np.testing.assert_array_equal(hvd.reducescatter(tensor, op=hvd.Sum), total[first : first + 1 + (rank == 0)])
    np.testing.assert_allclose(hvd.reducescatter(tensor), total[first : first + 1 + (rank == 0)] / world)


@pytest.mark.ranks(1, 2, 3)
def test_variables_are_broadcast_in_place(hvd, tf, rank, world):
    variables = [tf.Variable(tf.fill([3], float(rank))), tf.Variable(rank), tf.Variable(tf.cast(rank, tf.uint32))]
    root = world - 1
    assert hvd.broadcast_(variables, root) is not None
    assert [np.max(variable) for variable in variables] == [root] * 3
    variables[0].assign(tf.fill([3], float(rank)))
    hvd.broadcast_variables(variables, root_rank=0)
    np.testing.assert_array_equal(variables[0], np.zeros(3))

    @tf.function
    def function():
        hvd.broadcast_([variables[0]], root)

    variables[0].assign(tf.fill([3], float(rank)))
    function()
    np.testing.assert_array_equal(variables[0], np.full(3, root))


@pytest.mark.ranks(1, 2, 3)
def test_a_function_does_it_all(hvd, tf, rank, world):
    @tf.function
    def function(x):
        total = hvd.allreduce(x, op=hvd.Sum)
        pair = hvd.grouped_allreduce([x, 2 * x])
        rows = hvd.allgather(x)
        mine = hvd.reducescatter(rows, op=hvd.Sum)
        given = hvd.broadcast(x, world - 1)
        exchanged, counts = hvd.alltoall(rows, splits=tf.fill([world], tf.shape(x)[0]))
        hvd.barrier()
        assert total.shape == (2, 3) and rows.shape.as_list() == [None, 3] and given.shape == (2, 3)
        return total, pair, rows, mine, given, exchanged, counts, hvd.rank_op(), hvd.size_op()

    for _ in range(3):
        x = values(rank, (2, 3))
        total, pair, rows, mine, given, exchanged, counts, *who = function(tf.constant(x, tf.float32))
        everything = np.concatenate(everywhere(world, (2, 3)))
        np.testing.assert_array_equal(total, sum(everywhere(world, (2, 3))))
        np.testing.assert_allclose(pair[1], 2 * sum(everywhere(world, (2, 3))) / world, rtol=1e-6)
        np.testing.assert_array_equal(rows, everything)
        np.testing.assert_array_equal(mine, world * x)
        np.testing.assert_array_equal(given, values(world - 1, (2, 3)))
        np.testing.assert_array_equal(exchanged, np.concatenate([x] * world))
        np.testing.assert_array_equal(counts, [2] * world)
        assert [int(each) for each in who] == [rank, world]


@pytest.mark.ranks(2, 3)
def test_loops_and_branches_of_a_function(hvd, tf, rank, world):
    @tf.function
    def function(x, n):
        for _ in tf.range(n):
            x = hvd.allreduce(x) if tf.reduce_sum(x) < 1e6 else x
        return x

    result = function(tf.constant([float(rank)]), 5)
    np.testing.assert_allclose(result, [sum(range(world)) / world])


@pytest.mark.ranks(2, 3)
def test_an_unused_result_is_computed_all_the_same(hvd, tf, rank):
    """A graph's optimiser that drops or merges calls on one rank would leave the others waiting."""

    @tf.function
    def function(x):
        if rank == 0:  # Python's: only one rank uses it
            return hvd.allreduce(tf.constant([1.0]), name="constant") + x
        hvd.allreduce(tf.constant([1.0]), name="constant")
        return x

    assert function(tf.constant([0.0])).numpy() == [1.0 if rank == 0 else 0.0]


@pytest.mark.ranks(2, 3)
def test_slices(hvd, tf, rank, world):
    slices = tf.IndexedSlices(tf.fill([rank + 1, 2], 1.0 + rank), tf.range(rank + 1), tf.constant([world, 2]))
    dense = np.zeros((world, 2))
    for of in range(world):
        dense[: of + 1] += 1.0 + of
    total = hvd.allreduce(slices, op=hvd.Sum)
    assert isinstance(total, tf.IndexedSlices)
    np.testing.assert_allclose(tf.convert_to_tensor(total), dense)
    np.testing.assert_allclose(tf.convert_to_tensor(hvd.allreduce(slices)), dense / world, rtol=1e-6)
    with pytest.raises(ValueError, match="Average and Sum only"):
        hvd.allreduce(slices, op=hvd.Min)


@pytest.mark.ranks(3)
def test_process_sets(hvd, tf, rank):
    pair = hvd.add_process_set([0, 2])
    if pair.included():
        assert hvd.allreduce(tf.constant(rank), op=hvd.Sum, process_set=pair).numpy() == 2
        assert hvd.broadcast(tf.constant(rank), 2, process_set=pair).numpy() == 2
        assert hvd.allgather(tf.constant([rank]), process_set=pair).numpy().tolist() == [0, 2]
        assert tf.function(lambda x: hvd.allreduce(x, process_set=pair))(tf.constant(2.0 * rank)).numpy() == 2.0
        assert hvd.broadcast_object(rank, 2, process_set=pair) == 2
        hvd.barrier(process_set=pair)
    else:
        with pytest.raises(ValueError):
            hvd.allreduce(tf.constant(rank), process_set=pair)
    assert int(hvd.size_op(pair.process_set_id)) == 2
    assert int(hvd.process_set_included_op(pair.process_set_id)) == (rank != 1)
    hvd.remove_process_set(pair)


@pytest.mark.ranks(2, 3)
def test_join(hvd, tf, rank, world):
    for step in range(rank + 1):
        total = hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, name="joined")
        assert total.numpy() == [world - step]
    assert 0 <= int(hvd.join()) < world
    assert int(tf.function(lambda: hvd.join())()) in range(world)


@pytest.mark.ranks(1, 2, 3)
def test_who_am_i(hvd, rank, world):
    assert (int(hvd.rank_op()), int(hvd.size_op())) == (rank, world) == (hvd.rank(), hvd.size())
    assert (int(hvd.local_rank_op()), int(hvd.local_size_op())) == (hvd.local_rank(), hvd.local_size())


@pytest.mark.ranks(2, 3)
def test_objects(hvd, tf, rank, world):
    assert hvd.broadcast_object({"a": [rank]}, root_rank=1) == {"a": [1]}
    assert hvd.broadcast_object_fn(root_rank=0)(rank) == 0
    assert hvd.allgather_object(["x"] * rank) == [["x"] * of for of in range(world)]
    with pytest.raises(Exception, match="could not send its object" if rank else "pickle"):
        hvd.broadcast_object((each for each in "x"), 0)
    assert hvd.broadcast_object(rank, 0) == 0


@pytest.mark.ranks(2, 3)
def test_slices_of_integers_are_scaled_once_they_are_added_up(hvd, tf, rank, world):
    rows_here = tf.constant([[7, 10 * rank + 1], [2, -3]], tf.int32)
    slices = tf.IndexedSlices(rows_here, tf.constant([0, rank]), tf.constant([world, 2]))
    rows = np.zeros((world, 2))
    for other in range(world):
        rows[0] += [7, 10 * other + 1]
        rows[other] += [2, -3]
    for name, options, factor in (("average", {}, 1 / world), ("half", {"op": hvd.Sum, "prescale_factor": 0.5}, 0.5)):
        result = hvd.allreduce(slices, name=f"slices.{name}", **options)
        assert result.values.dtype == tf.int32
        np.testing.assert_array_equal(tf.convert_to_tensor(result), np.trunc(rows * factor))


@pytest.mark.ranks(2)
def test_a_scalar_whose_rank_the_graph_does_not_know_is_a_row(hvd, tf, rank, world):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def gather(x):
        return hvd.allgather(x, name="unknown_rank")

    assert gather(tf.constant(rank + 1.0)).numpy().tolist() == [1.0, 2.0]
    assert gather(tf.fill([1, 2], rank + 1.0)).numpy().tolist() == [[1.0] * 2, [2.0] * 2]


@pytest.mark.ranks(2)
def test_what_would_read_results_before_they_are_there_is_refused(hvd, tf, rank, world):
    x = tf.reshape(tf.range(6.0), [3, 2])

    def reduce(row):
        return hvd.allreduce(row, op=hvd.Sum, name="vectorized")

    with pytest.raises(NotImplementedError, match="tf.map_fn"):
        tf.vectorized_map(reduce, x)
    np.testing.assert_array_equal(tf.map_fn(reduce, x), 2 * x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = hvd.allreduce(x * x, op=hvd.Sum, name="jacobian")
    with pytest.raises(NotImplementedError, match="experimental_use_pfor=False"):
        tape.jacobian(y, x)
    jacobian = tape.jacobian(y, x, experimental_use_pfor=False)
    np.testing.assert_array_equal(jacobian.numpy().reshape(6, 6), np.diag(4 * np.arange(6.0)))


@pytest.mark.ranks(1)
@pytest.mark.parametrize("operation", ["allreduce", "allgather"])
def test_new_names_cost_no_memory_for_good(hvd, tf, rank, operation):
    """TensorFlow keeps what it makes of an eager operation's attributes: the name must be none of them."""

    def call_with_names(first, count):
        for number in range(first, first + count):
            assert float(getattr(hvd, operation)(value, name=f"{operation}.{number}")[0]) == 1.0

    def anonymous_kib():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

    value = tf.ones([4])
    call_with_names(0, 300)
    before = anonymous_kib()
    call_with_names(300, 2000)
    assert anonymous_kib() - before < 8 * 1024  # it was 39 KiB for each


@pytest.mark.ranks(2)
@pytest.mark.parametrize("control_flow", ["v1", "v2"])
def test_iterations_of_a_sessions_loops_meet_by_their_number(hvd, tf, rank, world, control_flow):
    """A session runs iterations at once, and each rank begins another one first: with one name they would meet each other."""
    v1 = tf.compat.v1
    begun = threading.Event()

    def other_first(outer, inner, value):
        """The first iterations of rank 0, and the last of rank 1, wait for one of the others."""
        if (int(outer) + int(inner) == 0) == (rank == 0):
            begun.wait(10)
        else:
            begun.set()
        return value

    was_v2 = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if control_flow == "v2" else v1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default():
            x = v1.placeholder(tf.float32, (2, 2))

            def row(outer):
                def element(inner):
                    value = tf.numpy_function(other_first, [outer, inner, x[outer, inner]], tf.float32)
                    return hvd.allreduce(tf.ensure_shape(value, ()), op=hvd.Sum, name="element")

                return tf.map_fn(element, tf.range(2), fn_output_signature=tf.float32)

            sums = tf.map_fn(row, tf.range(2), fn_output_signature=tf.float32)
            with v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=8)) as session:
                for _ in range(3):
                    begun.clear()
                    found = session.run(sums, {x: np.array([[1.0, 10.0], [100.0, 1000.0]]) * (rank + 1)})
                    np.testing.assert_array_equal(found, np.array([[1.0, 10.0], [100.0, 1000.0]]) * 3)
    finally:
        (v1.enable_control_flow_v2 if was_v2 else v1.disable_control_flow_v2)()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("where", ["loop", "graph", "branch"])
def test_a_function_that_a_sessions_graph_calls_is_refused(hvd, tf, rank, world, where):
    """In a loop, or in several places, its calls had one name, and each rank began another one first: sums of two iterations
    were the result. What a session runs as a part of its graph is right."""
    v1 = tf.compat.v1

    def reduced(x):
        return hvd.allreduce(tf.cast(x, tf.float32) + rank, op=hvd.Sum)

    if rank == 1:  # TensorFlow numbers loops and branches by what the process has traced before
        tf.function(lambda x: tf.map_fn(lambda each: each + 1, x))(tf.ones(3))
    with tf.Graph().as_default():
        for call in (tf.function(reduced), reduced):
            if where == "loop":
                sums = lambda: tf.map_fn(call, tf.range(2), fn_output_signature=tf.float32)  # noqa: E731
            elif where == "branch":
                sums = lambda: tf.cond(tf.constant(True), lambda: call(0), lambda: call(1))  # noqa: E731
            else:
                sums = lambda: call(0)  # noqa: E731
            if call is not reduced:
                with pytest.raises(UnsupportedError, match="in a tf.function that a session's graph calls"):
                    sums()
                continue
            result = sums()
            with v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=8)) as session:
                found = session.run(result)
                np.testing.assert_array_equal(found, [1.0, 3.0] if where == "loop" else 1.0)
    assert tf.function(reduced)(1.0).numpy() == 3.0


@pytest.mark.ranks(2)
def test_functions_that_threads_call_at_once_meet_by_their_names(hvd, tf, rank, world):
    """Rank 0 begins one first, rank 1 the other: calls without names must not meet each other's."""
    begun = threading.Event()

    def first(x):
        return hvd.allreduce(x, op=hvd.Sum)

    def second(x):
        return hvd.allreduce(x, op=hvd.Sum) + 0.0

    functions = [tf.function(first), tf.function(second)]
    found = [0.0, 0.0]

    def call(which):
        if which == rank:
            begun.set()
        else:
            begun.wait(10)
        found[which] = float(functions[which](tf.constant(10.0**which * (rank + 1))))

    for _ in range(3):
        begun.clear()
        threads = [threading.Thread(target=call, args=(which,)) for which in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [3.0, 30.0]
