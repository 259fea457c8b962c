"""Horovod's optimizer with each of its options, the layer, and what gives all ranks the same start, against NumPy."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import torch
from all_of_horovod_expect import raises, warns
from all_of_horovod_names import Watched
from all_of_horovod_reference import REDUCED, Array, check, numbers, tensor_of

RATE, MOMENTUM, STEPS = 0.125, 0.5, 3
SHAPES: Dict[str, Tuple[int, ...]] = {"first": (3, 2), "second": (5,)}


class Parameters(torch.nn.Module):
    """Two parameters; gradients are chosen by :func:`backward`."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_parameter(name, torch.nn.Parameter(torch.ones(shape)))


def gradient(rank: int, name: str, number: int) -> Array:
    """Of the ``number``-th backward pass on this rank."""
    return numbers(rank, SHAPES[name], number % 3)


def backward(model: Parameters, rank: int, number: int) -> None:
    """A pass that leaves just those gradients."""
    terms = [(value * tensor_of(gradient(rank, name, number))).sum() for name, value in model.named_parameters()]
    torch.stack(terms).sum().backward()


def simulated(ranks: List[int], op: str, passes: int) -> Dict[str, Array]:
    """The parameters after STEPS steps of SGD with momentum on the ranks' reduced gradients."""
    found = {}
    for name, shape in SHAPES.items():
        value = np.ones(shape)
        velocity = [np.zeros(shape) for _ in ranks]
        for step in range(STEPS):
            of_ranks = [
                np.sum([gradient(each, name, passes * step + i) for i in range(passes)], axis=0) for each in ranks
            ]
            if op != "Adasum" or len(ranks) == 1:
                of_ranks = [REDUCED[op](of_ranks)] * len(ranks)
            velocity = [MOMENTUM * old + new for old, new in zip(velocity, of_ranks)]
            # Adasum combines what each rank's own gradients would have changed.
            value = value - RATE * (velocity[0] if op != "Adasum" else REDUCED[op](velocity))
        found[name] = value
    return found


class Case(NamedTuple):
    """Options of the optimizer, and what they make of the gradients."""

    options: Dict[str, Any]
    op: str = "Average"
    passes: int = 1


def cases(hvd: Any, model: Parameters) -> List[Case]:
    named = list(model.named_parameters())
    return [
        Case({}),
        *(Case({"op": getattr(hvd, op), "named_parameters": named}, op) for op in REDUCED),
        Case({"compression": hvd.Compression.fp16, "op": hvd.Sum, "named_parameters": iter(named)}, "Sum"),  # exact
        Case({"compression": hvd.Compression.none}),
        Case({"backward_passes_per_step": 2}, "Average", 2),
        Case({"backward_passes_per_step": 2, "op": hvd.Adasum}, "Adasum", 2),
        Case({"gradient_predivide_factor": 2.0}),
        Case({"groups": 1}),
        Case({"groups": 2, "op": hvd.Sum, "named_parameters": named}, "Sum"),
        Case({"groups": [[model.second, model.first]], "gradient_predivide_factor": 4.0}),
        Case({"num_groups": 1}),
        Case({"sparse_as_dense": True}),
    ]


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)


def check_optimizer(hvd: Any, make: Any, where: Any, rank: int) -> None:
    """Each option by itself, with the ranks of the process set."""
    for index in range(len(cases(hvd, Parameters()))):
        model = Parameters()
        case = cases(hvd, model)[index]
        plain = sgd(model)
        if "num_groups" in case.options:
            with warns("num_groups"):
                optimizer = make(plain, process_set=where, **case.options)
        else:
            optimizer = make(plain, process_set=where, **case.options)
        assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
        assert optimizer.param_groups is plain.param_groups
        for step in range(STEPS):
            optimizer.zero_grad()
            for number in range(case.passes):
                backward(model, rank, case.passes * step + number)
            optimizer.step()
        expected = simulated(where.ranks if where.included() else [rank], case.op, case.passes)
        for name, value in model.named_parameters():
            check(value.detach(), expected[name], f"parameter {name} with {case.options}")


def check_methods(hvd: Any, rank: int, size: int) -> None:
    """What the optimizer can do beside step()."""
    model = Parameters()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    assert optimizer._parameter_names == {value: name for name, value in model.named_parameters()}
    mean = np.mean([gradient(each, "first", 0) for each in range(size)], axis=0)
    backward(model, rank, 0)
    if size > 1:
        with raises(AssertionError, "zero_grad"):
            optimizer.zero_grad()
    optimizer.synchronize()
    check(model.first.grad, mean, "what synchronize() leaves")
    with optimizer.skip_synchronize():
        optimizer.step()
    check(model.first.detach(), 1 - RATE * mean, "a step within skip_synchronize()")
    optimizer.zero_grad(set_to_none=True)
    assert model.first.grad is None
    backward(model, rank, 0)
    optimizer.synchronize()
    with warns("skip_synchronize"):
        optimizer.step()
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    optimizer.set_backward_passes_per_step(2)
    optimizer.zero_grad()
    backward(model, rank, 0)
    backward(model, rank, 0)
    optimizer.synchronize()
    check(model.first.grad, 2 * mean, "two passes")
    with optimizer.skip_synchronize():
        loss = optimizer.step(lambda: torch.tensor(7.0))
    assert loss.item() == 7.0
    named = list(model.named_parameters())
    for wrong, text in (
        ({"named_parameters": [named[0], named[0]]}, "twice"),
        ({"named_parameters": [value for _, value in named]}, "pairs"),
        ({"named_parameters": named[:1]}, "lacks"),
        ({"backward_passes_per_step": 0}, "backward_passes_per_step"),
        ({"groups": [[model.first], [model.first]]}, "overlap"),
        ({"groups": "some"}, "groups"),
        ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "predivide"),
    ):
        with raises(ValueError, text):
            hvd.DistributedOptimizer(sgd(model), **wrong)


def check_sparse_gradients(hvd: Any, rank: int, size: int) -> None:
    """Of an embedding: gathered as they are, or made dense."""
    expected = np.zeros((4, 2))
    for each in range(size):
        np.add.at(expected, [each % 4, 3], 1 / size)
    for as_dense in (False, True):
        table = torch.nn.Embedding(4, 2, sparse=True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=RATE), sparse_as_dense=as_dense)
        table(torch.tensor([rank % 4, 3])).sum().backward()
        optimizer.synchronize()
        if size > 1:
            assert table.weight.grad.is_sparse
        check(table.weight.grad.to_dense(), expected, "the gradient of an embedding")


def check_batch_norm(hvd: Any, rank: int, size: int) -> None:
    """Mean and variance of all ranks' batches, forwards and backwards."""
    shape = (3, 2, 4)
    layer = hvd.SyncBatchNorm(2, eps=0.5, momentum=0.25).double()
    torch.nn.init.constant_(layer.weight, 1.5)
    values = np.concatenate([numbers(each, shape) for each in range(size)])
    slopes = np.concatenate([numbers(each, shape, 2) for each in range(size)]) * 1.5
    axes = (0, 2)
    centred = values - values.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(values.var(axes, keepdims=True) + 0.5)
    normal = centred * inverse
    back = inverse * (
        slopes - slopes.mean(axes, keepdims=True) - normal * (slopes * normal).mean(axes, keepdims=True)
    )
    mine = tensor_of(numbers(rank, shape), torch.float64).requires_grad_()
    result = layer(mine)
    (result * tensor_of(numbers(rank, shape, 2), torch.float64)).sum().backward()
    own = slice(3 * rank, 3 * rank + 3)
    np.testing.assert_allclose(result.detach().numpy(), 1.5 * normal[own], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mine.grad.numpy(), back[own], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.25 * values.mean(axes), rtol=1e-9)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.75 + 0.25 * values.var(axes, ddof=1), rtol=1e-9)


def check_compression(compression: Any) -> None:
    """The two compressors by themselves."""
    values = tensor_of(numbers(0))
    packed, context = compression.none.compress(values)
    assert packed is values and compression.none.decompress(packed, context) is values
    packed, context = compression.fp16.compress(values)
    check(packed, numbers(0), "compressed", torch.float16)
    check(compression.fp16.decompress(packed, context), numbers(0), "decompressed")


def check_same_start(functions: Any, rank: int, size: int) -> None:
    """Parameters, optimizer state and objects of one rank on all, and those of all on each."""
    root = size - 1
    forms = (lambda m: dict(m.state_dict()), lambda m: list(m.named_parameters()), lambda m: list(m.parameters()))
    for form in forms:
        model = Parameters()
        for name, value in model.named_parameters():
            value.data.copy_(tensor_of(numbers(rank, SHAPES[name])))
        functions.broadcast_parameters(form(model), root_rank=root)
        for name, value in model.named_parameters():
            check(value.detach(), numbers(root, SHAPES[name]), "broadcast_parameters")
    with raises(ValueError, "broadcast_parameters"):
        functions.broadcast_parameters(7, root_rank=0)
    model = Parameters()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE * (rank + 1), momentum=MOMENTUM)
    if rank == root:  # the others have no state yet
        backward(model, rank, 0)
        optimizer.step()
    functions.broadcast_optimizer_state(optimizer, root_rank=root)
    assert optimizer.param_groups[0]["lr"] == RATE * (root + 1)
    for name, value in model.named_parameters():
        check(optimizer.state[value]["momentum_buffer"], gradient(root, name, 0), "broadcast_optimizer_state")
    with raises(ValueError, "LBFGS"):
        functions.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), root_rank=0)
    thing = {"rank": rank, "values": numbers(rank).tolist(), "call": lambda: rank}
    received = functions.broadcast_object(thing, root_rank=root, name="all.object")
    assert (received["rank"], received["values"], received["call"]()) == (root, numbers(root).tolist(), root)
    assert functions.broadcast_object(rank) == 0
    everything = functions.allgather_object([rank] * rank, name="all.objects")
    assert everything == functions.allgather_object([rank] * rank) == [[each] * each for each in range(size)]


def check_training(hvd: Any, modules: Dict[str, Any], where: Any, rank: int, size: int) -> None:
    """``modules``: those where the same names are found as well; ``where``: a process set, this rank in it or not."""
    check_optimizer(hvd, hvd.DistributedOptimizer, hvd.global_process_set, rank)
    check_optimizer(hvd, modules["optimizer"].DistributedOptimizer, where, rank)
    check_methods(hvd, rank, size)
    check_sparse_gradients(hvd, rank, size)
    check_batch_norm(hvd, rank, size)
    for owner in (hvd, modules["compression"]):
        check_compression(Watched("horovod.torch.compression:Compression", owner.Compression))
    for owner in (hvd, modules["functions"]):
        check_same_start(owner, rank, size)
