"""A compiled program keeps the id of the process set that it was traced with. After a new init, in which sets were added
in another order, it must never work in another set that has got this id: either it works in its own, or it is told."""

from __future__ import annotations

import numpy as np
import pytest

FRESH = pytest.mark.ranks(3, fresh=True)
PAIRS = ([0, 1], [1, 2])
TOLD = "was given out before the last init"


def sum_of(ranks):
    return float(sum(10**each for each in ranks))


def compiled_runs(hvd, rank, compiled, made_anew):
    """`compiled(made)`: a function of a number's vector that sums over the set. `made_anew`: it is called after the new init
    under a function traced then."""
    sets = [hvd.add_process_set(ranks) for ranks in PAIRS]
    functions = [compiled(each) for each in sets]
    mine = [i for i, ranks in enumerate(PAIRS) if rank in ranks]
    for i in mine:
        assert functions[i]() == sum_of(PAIRS[i])
    old_ids = [each.process_set_id for each in sets]
    hvd.shutdown()
    hvd.init()
    for each in reversed(sets):
        hvd.add_process_set(each)
    assert not set(old_ids) & {each.process_set_id for each in sets}
    for i in mine:
        if made_anew:
            assert functions[i]() == sum_of(PAIRS[i])
        else:
            with pytest.raises(Exception, match=TOLD):
                functions[i]()
    for i in mine:  # in the right set, since it is traced now
        assert compiled(sets[i])() == sum_of(PAIRS[i])


@FRESH
def test_jax(hvd, rank):
    import jax

    import ronde.jax as rj

    x = np.full(1, 10.0**rank, np.float32)

    def compiled(made):
        function = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum, process_set=made))
        return lambda: float(function(x)[0])

    compiled_runs(rj, rank, compiled, made_anew=False)


@FRESH
def test_tensorflow(hvd, rank):
    import tensorflow as tf

    import ronde.tensorflow as ht

    x = tf.constant([10.0**rank])

    def compiled(made):
        function = tf.function(lambda x: ht.allreduce(x, op=ht.Sum, process_set=made))
        return lambda: float(function(x)[0])

    compiled_runs(ht, rank, compiled, made_anew=False)


@FRESH
def test_torch_compile(hvd, rank):
    import torch

    x = torch.tensor([10.0**rank])

    def compiled(made):
        function = torch.compile(lambda x: hvd.allreduce(x * 1, op=hvd.Sum, process_set=made), backend="eager")
        return lambda: float(function(x)[0])

    compiled_runs(hvd, rank, compiled, made_anew=True)


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
        with pytest.raises(Exception, match=TOLD):
            outputs[i].backward(torch.ones(1))
        assert inputs[i].grad is None
