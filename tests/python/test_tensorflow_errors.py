"""What goes wrong in operations of TensorFlow: who is told, with which words, and that the job goes on."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from tensorflow_fixtures import hvd, rank, tf  # noqa: F401 - fixtures


def still_works(hvd, tf, world):
    assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum).numpy() == world


@pytest.mark.ranks(2, 3)
def test_a_mismatch_is_told_to_all(hvd, tf, rank, world):
    from ronde.exceptions import MismatchError

    tensor = tf.zeros([rank + 1])
    with pytest.raises(MismatchError, match=r"shape of 'allreduce.bad'.*rank 0 .*float32 \[1\] at .*test_tensorflow_errors"):
        hvd.allreduce(tensor, name="bad")
    with pytest.raises(ValueError, match="the ranks disagree"):
        hvd.allgather(tf.zeros([1, rank + 1]), name="bad")
    function = tf.function(lambda x: hvd.allreduce(x, name="worse"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="the ranks disagree about the shape of 'allreduce.worse'"):
        function(tensor)
    for _ in range(2):  # without a name: the next calls pair again
        with pytest.raises(MismatchError):
            hvd.allreduce(tensor)
        still_works(hvd, tf, world)


@pytest.mark.ranks(3)
def test_a_function_of_several_sets_goes_on_after_an_error(hvd, tf, rank, world):
    """None of its calls meets one of another step, though ranks give the step up at different places."""
    pair = hvd.add_process_set([0, 1])

    @tf.function(input_signature=[[tf.TensorSpec([None], tf.float32)] * 4])
    def function(tensors):
        if rank < 2:
            hvd.allreduce(tensors[0], process_set=pair, name="of.pair")
        return [hvd.allreduce(each, op=hvd.Sum, name=f"of.all.{i}") for i, each in enumerate(tensors)]

    for step in range(13):
        fails = step % 4 == 1
        tensors = [tf.fill([10 + (fails and i == 2 and rank == 1)], 100.0 * step + i + rank) for i in range(4)]
        if fails:
            with pytest.raises(tf.errors.InvalidArgumentError, match="the ranks disagree about the shape"):
                function(tensors)
            continue
        for i, result in enumerate(function(tensors)):
            np.testing.assert_array_equal(result, np.full(10, sum(100.0 * step + i + of for of in range(world))))
    hvd.remove_process_set(pair)


@pytest.mark.ranks(2)
def test_a_failed_list_gives_all_its_requests_back(hvd, tf, rank, world):
    """One of many that were begun together fails; their names are free afterwards."""

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf.reduce_sum(x * x) + tf.reduce_sum(y * y)
        return hvd.DistributedGradientTape(tape).gradient(loss, [x, y])

    with pytest.raises(tf.errors.InvalidArgumentError, match="disagree"):
        gradients(tf.ones([2]), tf.ones([2 + rank]))
    for _ in range(2):
        of_x, of_y = gradients(tf.ones([2]), tf.fill([2], 1.0 + rank))
        np.testing.assert_allclose(of_x, [2.0, 2.0])
        np.testing.assert_allclose(of_y, [3.0, 3.0])


@pytest.mark.ranks(2)
def test_a_step_that_is_given_up_between_start_and_done(hvd, tf, rank, world):
    """Another operation of the step fails while requests are under way."""
    from ronde.tensorflow import _native
    from ronde import _abi

    @tf.function
    def function(x, divisor):
        call = _native.Call(_abi.ALLREDUCE, "given.up")
        started = _native.start([x], call)
        with tf.control_dependencies([started.token]):
            tf.debugging.assert_none_equal(divisor, 0)
            x = x // divisor
        with tf.control_dependencies([x]):
            return _native.done([started])[0]

    for divisor in (0, 1, 0, 2):
        tensor = tf.constant([rank + 1])
        if divisor == 0:
            with pytest.raises(tf.errors.InvalidArgumentError):
                function(tensor, tf.constant(divisor))
        else:
            np.testing.assert_array_equal(function(tensor, tf.constant(divisor)), [3])
    still_works(hvd, tf, world)


@pytest.mark.ranks(2, 3)
def test_a_refused_call_without_a_name_counts(hvd, tf, rank, world):
    one = tf.constant(1.0)
    slices = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([0, 4]), tf.constant([5, 3]))
    for wrong, text in (
        (lambda: hvd.allreduce(one, prescale_factor=0.0), "prescale_factor is 0"),
        (lambda: hvd.allreduce(slices, op=hvd.Max), "Average and Sum only"),
        (lambda: hvd.grouped_allreduce(one), "takes a list of tensors"),
        (lambda: hvd.grouped_reducescatter(one), "takes a list of tensors"),
        (lambda: hvd.allreduce(tf.reshape(one, [1] * 40)), "a tensor of 40 dimensions"),
    ):
        if rank == 0:
            with pytest.raises(ValueError, match=text):
                wrong()
        else:
            with pytest.raises(hvd.HorovodInternalError, match=text):
                hvd.allreduce(one)
        still_works(hvd, tf, world)


@pytest.mark.ranks(1)
def test_calls_that_are_wrong_by_themselves(hvd, tf):
    one = tf.constant(1.0)
    for call, text in (
        (lambda: hvd.allreduce(one, op=77), "none of Average"),
        (lambda: hvd.allreduce(one, average=True, op=hvd.Sum), "not both"),
        (lambda: hvd.allreduce(tf.constant("text")), "got a tensor of string, which Ronde does not move"),
        (lambda: hvd.grouped_allreduce(one), "takes a list of tensors"),
        (lambda: hvd.alltoall(tf.range(4), splits=[[1]]), "splits has the shape"),
        (lambda: hvd.broadcast(one, 5), "root"),
        (lambda: hvd.DistributedOptimizer("sgd"), "takes an optimizer of Keras or of tf.compat.v1.train, not str"),
        (lambda: hvd.broadcast_global_variables(0), "use broadcast_variables"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.deprecated_call():
        assert hvd.allreduce(one, average=False).numpy() == 1.0


@pytest.mark.ranks(1, 2)
def test_xla_is_refused_in_a_sentence(hvd, tf):
    for call in (hvd.allreduce, hvd.allgather, lambda x: tf.function(hvd.allreduce)(x)):
        function = tf.function(lambda x, call=call: call(x), jit_compile=True)
        with pytest.raises(NotImplementedError, match=r"cannot be compiled by XLA.*jit_compile=False") as raised:
            function(tf.constant([1.0]))
        assert type(raised.value).__name__ == "UnsupportedError"


@pytest.mark.ranks(2, fresh=True)
def test_before_and_after_the_job(hvd, tf, rank):
    hvd.shutdown()
    for call in (lambda: hvd.allreduce(tf.constant(1.0)), hvd.size, lambda: hvd.broadcast_object(1, 0)):
        with pytest.raises(ValueError, match="init"):
            call()
    with pytest.raises(tf.errors.FailedPreconditionError, match="init"):
        tf.function(lambda: hvd.allreduce(tf.constant(1.0)))()
    hvd.init()
    assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum).numpy() == 2.0


@pytest.mark.ranks(2, warnings=True)
def test_a_wait_answers_signals(hvd, tf, rank, world):
    """Ctrl-C ends a call in which the other rank is not; the call ends there too."""

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    for call in (lambda: hvd.allreduce(tf.constant([1.0])), lambda: hvd.allgather(tf.constant([1.0]))):
        if rank == 0:
            before = signal.signal(signal.SIGUSR1, stop)
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
            try:
                with pytest.raises(Stop):
                    call()
            finally:
                signal.signal(signal.SIGUSR1, before)
            hvd.broadcast_object("go on", 0, name="signal")
        else:
            hvd.broadcast_object(None, 0, name="signal")
            with pytest.raises(hvd.HorovodInternalError):
                call()
        hvd.barrier()
        still_works(hvd, tf, world)


@pytest.mark.ranks(2, fresh=True, warnings=True)
def test_a_deadline_in_a_function(hvd, tf, rank):
    """The rank that waits in vain is told after its time, with the tensor and who is missing."""
    hvd.shutdown()
    os.environ["RONDE_TIMEOUT_S"] = "1"
    hvd.init()
    if rank == 0:
        began = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError, match=r"allreduce.alone.*rank 1"):
            tf.function(lambda: hvd.allreduce(tf.constant(1.0), name="alone"))()
        assert time.monotonic() - began < 20
    else:
        time.sleep(1.5)


@pytest.mark.ranks(1)
def test_a_map_of_tf_data_with_parallel_calls_is_told(hvd, tf):
    """Ranks could not tell its elements apart; without parallel calls they meet in order."""

    from ronde.exceptions import UnsupportedError

    def mapped(calls):
        def reduce(x):
            return hvd.allreduce(x + tf.zeros([10], tf.int64), name=f"mapped.{calls}", op=hvd.Sum)[0]

        return [int(each) for each in tf.data.Dataset.range(300).map(reduce, num_parallel_calls=calls)]

    assert mapped(None) == list(range(300))
    for calls in (2, tf.data.AUTOTUNE):
        with pytest.raises(UnsupportedError, match="num_parallel_calls"):
            mapped(calls)
    with pytest.raises(UnsupportedError, match="num_parallel_calls"):
        tf.data.Dataset.range(4).interleave(
            lambda x: tf.data.Dataset.from_tensors(hvd.allreduce(x, name="interleaved")), num_parallel_calls=2
        )


@pytest.mark.ranks(2)
def test_a_wait_may_end_just_before_its_request(hvd, tf, rank, monkeypatch):
    """What has succeeded meanwhile is no failure whose error is gone."""
    from ronde.tensorflow import _native

    monkeypatch.setattr(_native, "_SLICE_S", 0.0)
    tensor = tf.ones(20_000)
    for _ in range(600):
        assert hvd.allreduce(tensor, op=hvd.Sum, name="at once")[0].numpy() == 2
