"""A compiled program keeps the id of the process set that it was traced with. After a new init, in which sets were added
in another order and others before them, it works in its own, never in another set that has got this id; where its set was
not added again it is told."""

from __future__ import annotations

import numpy as np
import pytest

FRESH = pytest.mark.ranks(3, fresh=True)
PAIRS = ([0, 1], [1, 2])


def sum_of(ranks):
    return float(sum(10**each for each in ranks))


def compiled_runs(hvd, rank, compiled):
    """`compiled(made)`: a function of a number's vector that sums over the set."""
    sets = [hvd.add_process_set(ranks) for ranks in PAIRS]
    functions = [compiled(each) for each in sets]
    mine = [i for i, ranks in enumerate(PAIRS) if rank in ranks]
    for i in mine:
        assert functions[i]() == sum_of(PAIRS[i])
    ids = [each.process_set_id for each in sets]
    hvd.shutdown()
    hvd.init()
    other = hvd.add_process_set([0, 2])
    for each in reversed(sets):
        hvd.add_process_set(each)
    assert [each.process_set_id for each in sets] == ids and other.process_set_id not in ids
    for i in mine:
        assert functions[i]() == sum_of(PAIRS[i])
    hvd.shutdown()
    hvd.init()
    hvd.add_process_set([1])
    hvd.add_process_set(sets[1])
    for i in mine:
        if i == 1:
            assert functions[i]() == sum_of(PAIRS[i])
        else:
            with pytest.raises(Exception, match="no process set with the id|is not registered"):
                functions[i]()


@FRESH
def test_jax(hvd, rank):
    import jax

    import ronde.jax as rj

    x = np.full(1, 10.0**rank, np.float32)

    def compiled(made):
        function = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum, process_set=made))
        return lambda: float(function(x)[0])

    compiled_runs(rj, rank, compiled)


@FRESH
def test_tensorflow(hvd, rank):
    import tensorflow as tf

    import ronde.tensorflow as ht

    x = tf.constant([10.0**rank])

    def compiled(made):
        function = tf.function(lambda x: ht.allreduce(x, op=ht.Sum, process_set=made))
        return lambda: float(function(x)[0])

    compiled_runs(ht, rank, compiled)


@FRESH
def test_torch_compile(hvd, rank):
    import torch

    x = torch.tensor([10.0**rank])

    def compiled(made):
        function = torch.compile(lambda x: hvd.allreduce(x * 1, op=hvd.Sum, process_set=made), backend="eager")
        return lambda: float(function(x)[0])

    compiled_runs(hvd, rank, compiled)


@FRESH
def test_a_backward_pass_of_an_earlier_job(hvd, rank):
    import torch

    sets = [hvd.add_process_set(ranks) for ranks in PAIRS]
    mine = [i for i, ranks in enumerate(PAIRS) if rank in ranks]
    inputs = [torch.tensor([10.0**rank], requires_grad=True) for _ in PAIRS]
    outputs = [hvd.allreduce(inputs[i], op=hvd.Sum, process_set=sets[i]) if i in mine else None for i in range(2)]
    hvd.shutdown()
    hvd.init()
    for each in reversed(sets):
        hvd.add_process_set(each)
    for i in mine:
        outputs[i].backward(torch.full((1,), 10.0**rank))
        assert inputs[i].grad.tolist() == [sum_of(PAIRS[i])]
