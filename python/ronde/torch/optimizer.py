"""An optimizer that steps with the gradients of all ranks."""

from __future__ import annotations

import contextlib
import functools
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from ronde.exceptions import InvalidArgumentError
from ronde.torch import _living_reducers
from ronde.torch._added_groups import AddedGroups
from ronde.torch._answers import NONE
from ronde.torch._closures import Evaluation, Known, SeenGradients, goes_by_loss, known_of, of_all_ranks, refused
from ronde.torch._copying import copy_of_wrapped
from ronde.torch._flights import How
from ronde.torch._gradients import Reducer
from ronde.torch._loading import load_in_place
from ronde.torch._scaler import ReadByScalers
from ronde.torch._tensors import dense_of, gradient_type
from ronde.torch.adasum_optimizer import adasum_optimizer
from ronde.torch.compression import AnyCompressor, Compression
from ronde.torch.mpi_ops import Adasum, Average, Product, Sum, allreduce_async_
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of
from ronde.torch.sparse_ops import start_sparse_allreduce

__all__ = ["DistributedOptimizer"]

#: Reductions that change what was reduced already (averages do while a rank has joined, which adds nothing to them and
#: counts), and compressors that do not change what they have made already.
_NOT_IDEMPOTENT = (Sum, Product)
_IDEMPOTENT_COMPRESSORS = (Compression.none, Compression.fp16, Compression.bf16)

Groups = Union[int, Sequence[Sequence[torch.nn.Parameter]]]


class _DistributedOptimizer(ReadByScalers):
    """The methods that come before the wrapped optimizer's own, see :func:`DistributedOptimizer`."""

    _reducer: Optional[Reducer]  # None in a job of one rank
    _parameter_names: Dict[torch.nn.Parameter, str]
    _synchronized: bool
    _scaling: Optional[Tuple["weakref.ref[torch.amp.GradScaler]", Any]]  # for whose step gradients are synchronized
    _synchronize_in_step: bool
    _added_groups: AddedGroups
    _prefix: str  # of the names of what is added: other optimizers get groups too
    _process_set: ProcessSet
    _how: How
    _has_reduced = False  # gradients that may be there yet
    _left_reduced: Optional[SeenGradients] = None  # by the last step, if that had a closure and reductions are not idempotent
    _evaluation: Optional[Evaluation] = None  # of a closure that is under way, if they are not
    _has_anyone_joined = False  # as far as was known when the ranks last asked each other: at the beginning of such a step

    # What Horovod's has too, and programs read.
    op: int
    process_set: ProcessSet
    backward_passes_per_step: int
    gradient_predivide_factor: float
    sparse_as_dense: bool
    _compression: AnyCompressor

    def _allreduce_grad_async(self, p: torch.nn.Parameter) -> Tuple[Any, Any]:
        """Horovod's, for programs that reduce a gradient by themselves: begins the reduction of ``p.grad`` as it is, zeros
        if there is none, as the optimizer would, and returns a handle with the compressor's context. Give the former to
        ``hvd.synchronize``, and what that returns, with the latter, to the compressor's ``decompress``. Of a sparse
        gradient the handle is a function that returns the result."""
        if p.grad is None:
            p.grad = torch.zeros_like(p, dtype=gradient_type(p))
        name, how = self._parameter_names[p], self._how
        if p.grad.is_sparse and not how.sparse_as_dense:
            factor = how.prescale * how.postscale
            group = group_of(how.process_set)
            return start_sparse_allreduce(p.grad, name, how.op, group, how.compression, factor), None
        tensor, context = how.compression.compress(dense_of(p.grad) if p.grad.is_sparse else p.grad)
        handle = allreduce_async_(
            tensor,
            name=name,
            op=how.op,
            prescale_factor=how.prescale,
            postscale_factor=how.postscale,
            process_set=how.process_set,
        )
        return handle, context

    def _before_reading(self, scaler: torch.amp.GradScaler) -> None:
        if self._reducer is not None:
            self._synchronize_for(scaler, self._reducer)

    # Whether a rank takes part in a synchronize() must be the same on all: it may hang on what the program has called, and
    # on what all ranks have told each other, but not on whether a backward pass has reached anything on this rank. One
    # exception: behind a synchronize() of the program's a scaler's look asks nobody, as in Horovod's recipe, which needs no
    # order of optimizers.

    def _synchronize_for(self, scaler: torch.amp.GradScaler, reducer: Reducer) -> None:
        if self._is_synchronized_for(scaler):
            is_due = self._is_pass_behind_look(reducer)  # it looks again
        else:
            # The program has called synchronize(), as Horovod's recipe does, and optimizers then need no order.
            is_due = not self._synchronized or reducer.touched
        if is_due:
            self.synchronize()
        self._synchronized = False
        self._scaling = weakref.ref(scaler), scaler._per_optimizer_states

    def _is_pass_behind_look(self, reducer: Reducer) -> bool:
        """Whether there has been a pass since a scaler's look, for which gradients were reduced. ValueError, on all ranks,
        where to reduce these once more would change them."""
        answers = reducer.ask()
        if answers.touched > 0 and not self._is_idempotent(answers.has_joined):
            reducer.drop()
            raise InvalidArgumentError(
                "a backward pass has come after a GradScaler had looked at the gradients, for which they were reduced: with "
                "Sum, Product, compressors of your own, and averages while a rank has joined, they would become others if "
                "they were reduced once more. Make the pass before unscale_(), or call optimizer.zero_grad() between",
                1,
            )
        return answers.touched > 0

    def _is_synchronized_for(self, scaler: Optional[torch.amp.GradScaler]) -> bool:
        """For the step that this scaler is about to make. With ``scaler.update()`` it begins a new one, with new states."""
        if scaler is None or self._scaling is None or self._scaling[0]() is not scaler:
            return False
        return scaler._per_optimizer_states is self._scaling[1]

    def synchronize(self) -> None:
        """Waits until the gradients of all ranks are reduced; afterwards ``p.grad`` holds the result.

        Parameters that took no part in this rank's backward pass count as zeros. Call it yourself to change or look at
        the reduced gradients, and then step within :meth:`skip_synchronize`. Nobody may differentiate them (ValueError): the
        graph of ``backward(create_graph=True)`` is this rank's alone. Raises what ``ronde.torch.synchronize`` does.
        """
        if self._reducer is not None:
            self._take_added_groups()
            self._reducer.synchronize()
        else:
            self._require_still_alone()
        self._synchronized = self._has_reduced = True
        self._scaling = self._left_reduced = None
        if self._evaluation is not None:
            self._evaluation.note_synchronized()

    def _require_still_alone(self) -> None:
        """Ranks would go apart and nobody would be told."""
        if self._process_set.included() and (self._process_set.size() or 1) > 1:
            raise InvalidArgumentError(
                "the optimizer was made in a job where it shared gradients with no other rank, and would now have to "
                f"with {self._process_set.size()} ranks: make it anew after init()",
                1,
            )

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it ``step()`` does not synchronize, since you have: to clip gradients, for instance. ValueError where there
        was a backward pass since."""
        self._synchronize_in_step = False
        try:
            yield
        finally:
            self._synchronize_in_step = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Synchronizes, then steps as the wrapped optimizer does and returns what it returns.

        With a closure, gradients are synchronized after each evaluation of it, before the optimizer uses them, also those
        that it sets without a backward pass; not those that it leaves as they were, as where it computes the loss only, if
        that would change them: sums, products, and averages while a rank has joined. ValueError where that cannot be told, and
        where a pass adds to such gradients. Closures compute gradients, and return a loss, on all ranks or on none, but for
        ranks that have zeroed theirs. An optimizer that may go by the loss, which is LBFGS or none of PyTorch's own, is given
        that of the ranks, their average, or their sum with ``op=Sum``; of a tuple, list or dictionary each number in it is one.
        """
        is_done = not self._synchronize_in_step
        looked = self._scaling[0]() if self._scaling is not None else None
        is_looked = not is_done and self._reducer is not None and self._is_synchronized_for(looked)
        if is_looked and closure is None:  # which would compute others
            assert self._reducer is not None
            is_done = not self._is_pass_behind_look(self._reducer)
        if is_done:
            if closure is None:
                self._require_reduced()
            self._forget_synchronizing()
            return super().step(None if closure is None else self._synchronizing_closure(closure))
        if self._synchronized:
            warnings.warn(
                "optimizer.step() called without optimizer.skip_synchronize() after optimizer.synchronize(): the "
                "gradients are reduced twice. Step within `with optimizer.skip_synchronize():`.",
                stacklevel=2,
            )
        if closure is None:
            self.synchronize()
            result = super().step()
        else:
            result = super().step(self._synchronized_closure(closure, is_looked))
            if self._looks_at_gradients():
                self._left_reduced = SeenGradients(self._parameter_names)
        self._forget_synchronizing()
        return result

    def _forget_synchronizing(self) -> None:
        self._synchronized = False
        self._scaling = None

    step.hooked = True  # type: ignore[attr-defined] # the wrapped optimizer's step() calls the hooks of steps

    def _synchronized_closure(self, closure: Callable[..., Any], are_older_reduced: bool) -> Callable[..., Any]:
        # Gradients computed before step() are complete; those that the closure computes take their place.
        answers = self._reducer.ask() if self._reducer is not None else NONE
        self._has_anyone_joined = answers.has_joined
        if answers.touched > 0:
            self.synchronize()
        are_older_reduced = are_older_reduced or answers.touched > 0

        def evaluate(*arguments: Any, **named: Any) -> Any:
            nonlocal are_older_reduced
            self._synchronized = False
            # As gradients are now: the optimizer may have changed them since the last evaluation, by clipping say.
            evaluation = Evaluation(self._known_gradients(are_older_reduced)) if self._looks_at_gradients() else None
            self._evaluation = evaluation
            try:
                with evaluation.under_way() if evaluation else contextlib.nullcontext():
                    loss = closure(*arguments, **named)
            finally:
                self._evaluation = None
            if self._reducer is not None and self._are_gradients_new(evaluation):
                self.synchronize()
            are_older_reduced = True
            return self._loss_of_all_ranks(loss)

        return evaluate

    def _synchronizing_closure(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """That does it itself."""

        def evaluate(*arguments: Any, **named: Any) -> Any:
            loss = closure(*arguments, **named)
            self._require_reduced()
            return self._loss_of_all_ranks(loss)

        return evaluate

    def _require_reduced(self) -> None:
        if self._reducer is not None and self._reducer.touched:
            raise InvalidArgumentError(
                "optimizer.step() within optimizer.skip_synchronize(): gradients that a backward pass has computed were not "
                "reduced. Call optimizer.synchronize() behind the pass",
                1,
            )

    def _looks_at_gradients(self) -> bool:
        return self._reducer is not None and not self._is_idempotent(self._has_anyone_joined)

    def _is_idempotent(self, has_anyone_joined: bool) -> bool:
        """Whether to reduce once more what was reduced changes nothing."""
        compressor = self._compression if isinstance(self._compression, type) else type(self._compression)
        if self._how.op in _NOT_IDEMPOTENT or compressor not in _IDEMPOTENT_COMPRESSORS:
            return False
        return self._how.op != Average or not has_anyone_joined

    def _known_gradients(self, are_reduced: bool) -> Dict[torch.nn.Parameter, Known]:
        if are_reduced or not self._has_reduced:
            return dict.fromkeys(self._parameter_names, Known.REDUCED if are_reduced else Known.NOT_REDUCED)
        return {parameter: known_of(parameter, self._left_reduced) for parameter in self._parameter_names}

    def _are_gradients_new(self, evaluation: Optional[Evaluation]) -> bool:
        """Whether an evaluation of a closure has left gradients that are to be reduced. One without a backward pass leaves
        those of before: to average them once more changes nothing, to add them up does. The closure may have called
        ``synchronize()`` itself, as Horovod wants it, and there may have been a pass since. ValueError, on all ranks alike,
        where some rank cannot tell. Collective."""
        assert self._reducer is not None
        if evaluation is None:
            return not self._synchronized or self._reducer.ask().touched > 0
        found = evaluation.look()
        answers = self._reducer.ask(found.is_new, found.are_left, found.refusal is not None)
        error = refused(answers, found.refusal)
        if error is not None:
            self._reducer.drop()
            raise error
        return answers.touched > 0

    def _loss_of_all_ranks(self, loss: Any) -> Any:
        """Where an optimizer that goes by the loss searches, how far it goes and how often it evaluates: ranks must decide
        alike, and the loss must be the one that the gradients are of."""
        if self._reducer is None or not goes_by_loss(self, _DistributedOptimizer):
            return loss
        op = Sum if self._how.op == Sum else Average
        return of_all_ranks(loss, functools.partial(self._reducer.reduced, op=op))

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As the wrapped optimizer's. AssertionError while reductions are under way, since it would spoil them: call it
        after ``step()`` or ``synchronize()``."""
        if self._reducer is not None and self._reducer.pending:
            raise AssertionError(
                "optimizer.zero_grad() was called while gradients are being reduced, between backward() and step() or "
                "synchronize(): call it before backward() or after step()"
            )
        self._forget_synchronizing()
        self._has_reduced, self._left_reduced = False, None
        super().zero_grad(*args, **kwargs)
        if self._evaluation is not None:
            self._evaluation.note_zeroed()

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up before gradients are reduced, from now on. ValueError unless positive."""
        _require_positive(passes)
        self.backward_passes_per_step = passes
        if self._reducer is not None:
            self._reducer.set_passes(passes)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "_DistributedOptimizer":
        """A distributed optimizer, too, of the copied parameters, as if made anew: under the same names, so every rank that
        steps it has to copy. Raises what :func:`DistributedOptimizer` does."""
        groups = [] if self._reducer is None else [unit.parameters for unit in self._reducer.groups]
        plain, named = copy_of_wrapped(self, self._parameter_names, memo)
        copied: _DistributedOptimizer = DistributedOptimizer(
            plain,
            named,
            compression=self._compression,
            backward_passes_per_step=self.backward_passes_per_step,
            op=self.op,
            gradient_predivide_factor=self.gradient_predivide_factor,
            groups=[[memo[id(parameter)] for parameter in group] for group in groups],
            sparse_as_dense=self.sparse_as_dense,
            process_set=self.process_set,
        )
        memo[id(self)] = copied
        return copied

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """As the wrapped optimizer's; gradients of a backward pass without a step are forgotten, whichever ranks have made one.
        What the wrapped optimizer, and schedulers made for it, share with this one stays shared."""
        if self._reducer is not None:
            self._reducer.drop()
        self._forget_synchronizing()
        self._load_beside(*args, **kwargs)

    def _load_beside(self, *args: Any, **kwargs: Any) -> None:
        """The same, and what is under way stays."""
        load = super().load_state_dict
        load_in_place(self, lambda: load(*args, **kwargs))

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """As the wrapped optimizer's; the new parameters' gradients are reduced too, under names made by their
        place."""
        super().add_param_group(param_group)
        self._take_added_groups()

    def _take_added_groups(self) -> None:
        # One optimizer's only: what is known of gradients' generations is known by the name that they are reduced under.
        name = "" if self._reducer is None else str(self._reducer.name)
        prefix = name[len("allreduce.") :] if name.startswith("allreduce.") else name or self._prefix
        added, removed = self._added_groups.changes(self._groups(), self._parameter_names, prefix)
        for parameter in removed:
            del self._parameter_names[parameter]
            if self._reducer is not None:
                self._reducer.remove(parameter)
        if added:
            _living_reducers.move_here({parameter for parameter, _ in added})
        for parameter, name in added:
            self._parameter_names[parameter] = name
            if self._reducer is not None:
                self._reducer.add_unit([parameter], name)
        if added and self._reducer is not None:
            _living_reducers.note_shared(self._reducer)


def _require_positive(passes: int) -> None:
    if passes <= 0:
        raise InvalidArgumentError(f"backward_passes_per_step must be 1 or more, not {passes}", 1)


def _names_of(
    optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]]
) -> Dict[torch.nn.Parameter, str]:
    """A name for each parameter of the optimizer, in its order."""
    numbered = [
        (f"allreduce.noname.{group}.{index}", parameter)
        for group, settings in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(settings["params"])
    ]
    if named_parameters is None:
        return {parameter: name for name, parameter in numbered}
    given = list(named_parameters)
    if not all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in given):
        raise InvalidArgumentError("named_parameters must be pairs of name and parameter: model.named_parameters()", 1)
    seen = set()
    for name, _ in given:
        if name in seen:
            raise InvalidArgumentError(f"named_parameters has the name '{name}' twice; each must be unique", 1)
        seen.add(name)
    names = {parameter: name for name, parameter in given}
    for _, parameter in numbered:
        if parameter not in names:
            raise InvalidArgumentError(
                f"named_parameters lacks a parameter of the optimizer, of shape {tuple(parameter.shape)}; name them all",
                1,
            )
    return {parameter: names[parameter] for _, parameter in numbered}


def _units(parameters: Sequence[torch.nn.Parameter], groups: Groups) -> List[List[torch.nn.Parameter]]:
    """Splits the parameters into what is reduced together."""
    if isinstance(groups, int) and not isinstance(groups, bool):
        if groups < 0:
            raise InvalidArgumentError(f"groups must not be negative, not {groups}", 1)
        if groups == 0:
            return [[parameter] for parameter in parameters]
        count = min(groups, len(parameters))
        bounds = [len(parameters) * i // count for i in range(count + 1)]
        return [list(parameters[first:last]) for first, last in zip(bounds, bounds[1:])]
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, (list, tuple)) for group in groups):
        raise InvalidArgumentError("groups must be a number of groups or a list of lists of parameters", 1)
    known = set(parameters)
    grouped = set()
    units = []
    for group in groups:
        for parameter in group:
            if parameter in grouped:
                raise InvalidArgumentError("groups overlap: each parameter may be in one group only", 1)
            grouped.add(parameter)
        members = [parameter for parameter in group if parameter in known]
        if members:
            units.append(members)
    return units + [[parameter] for parameter in parameters if parameter not in grouped]


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]] = None,
    compression: AnyCompressor = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Optional[Groups] = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> _DistributedOptimizer:
    """Wraps an optimizer so that it steps with the gradients of all ranks.

    Each gradient's all-reduce starts as soon as the backward pass has computed it and runs beside the rest of that
    pass; ``step()`` waits for all. The result is of a subclass of the optimizer's class, and shares its state and
    ``param_groups``, so learning-rate schedulers work on either. Give the ranks the same start with
    ``broadcast_parameters`` and ``broadcast_optimizer_state``.

    Args:
        optimizer: any of ``torch.optim`` or a subclass of ``torch.optim.Optimizer``; not of parameters of a model in
            ``DistributedDataParallel`` or FSDP, which reduce the gradients themselves, in the same memory.
        named_parameters: ``model.named_parameters()``; gradients are called by these names, in errors too. None: by
            their place in the optimizer.
        compression: what travels: ``Compression.none``, ``.fp16``, ``.bf16`` or a ``Compressor`` of your own.
        backward_passes_per_step: how many backward passes add up before gradients are reduced; they are added, not
            averaged: scale the loss. Until the last one gradients lie in memory of their own beside their places in shared
            memory, unless ``zero_grad(set_to_none=False)`` keeps them there.
        op: Average, Sum, Min, Max or Product of gradients; or Adasum, with which each rank steps by its own gradients
            and the ranks combine what the steps have changed (``groups`` and ``sparse_as_dense`` then mean nothing).
        gradient_predivide_factor: f: gradients are multiplied by 1/f before and by f after the average.
        groups: how many groups, or lists of parameters, are reduced as one operation each (once ``num_groups``).
        sparse_as_dense: sparse gradients (``Embedding(sparse=True)``) are made dense, reduced as such, and sparse again
            for the optimizer. Without it their entries are gathered, see ``sparse_allreduce_async``; op must be Average
            or Sum, and they must not be in ``groups``.
        process_set: the ranks that take part; on other ranks the optimizer behaves as the wrapped one. After another
            ``init()`` register the same object again before the next backward pass.

    It also has ``synchronize()``, which waits for the reduced gradients, ``skip_synchronize()``, a context in which
    ``step()`` does not, and ``set_backward_passes_per_step(passes)``.

    Gradients are reduced as they stand in ``p.grad``. With Sum and Product, and while a rank has joined, call ``zero_grad()``
    before each step's first pass, else what is there from the last one is reduced again.

    Gradients move into memory that the ranks of a host share, where that is possible, and ``p.grad`` is then the same
    memory in each step. In a forked child (a DataLoader worker) such a
    ``p.grad`` is None, and other references to it must not be touched. Read gradients after ``synchronize()`` only. One
    that is a part of a larger tensor which the program has put there, or that it held in a variable before the pass, stays
    where it is. What a pass makes fresh gradients of (the gradient that it was given, a tensor that a function of the
    program's cuts into parts) keeps this rank's own values.

    ``LBFGS`` needs ``step(closure)``, as ever; for it, and for optimizers that are none of PyTorch's own, the closure's loss
    is averaged over the ranks (added up with ``op=Sum``), so that all step alike and evaluate it equally often.
    ``torch.amp.GradScaler`` may be used as without Ronde: what overflows on one rank is skipped by all.
    In a job of one rank nothing is reduced and the optimizer behaves as the wrapped one.
    Raises ValueError for arguments that make no sense, NotInitializedError (a ValueError) before ``init()``.
    """
    _require_positive(backward_passes_per_step)
    group_of(process_set)  # raises unless it is registered
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgumentError("gradient_predivide_factor needs op=Average", 1)
    if num_groups != 0:
        warnings.warn("num_groups= is deprecated: use groups=", DeprecationWarning, stacklevel=2)
    names = _names_of(optimizer, named_parameters)
    units = _units(list(names), num_groups if groups is None else groups)
    is_alone = not process_set.included() or process_set.size() == 1
    if op == Adasum and not is_alone:
        adasum: _DistributedOptimizer = adasum_optimizer(optimizer, names, compression, process_set)
        return adasum

    factor = gradient_predivide_factor
    how = How(compression, op, 1.0 / factor, factor, sparse_as_dense, process_set)
    prefix = "allreduce" if named_parameters is None else min(names.values(), default="allreduce")
    distributed = _wrapper(optimizer, names, prefix, how)
    distributed.backward_passes_per_step, distributed.gradient_predivide_factor = backward_passes_per_step, factor
    if not is_alone:
        _living_reducers.move_here(names)
        distributed._reducer = Reducer(backward_passes_per_step, how)
        for unit in units:
            distributed._reducer.add_unit(unit, names[unit[0]])
        distributed._reducer.begin()
        distributed._reducer.refresh = weakref.WeakMethod(distributed._take_added_groups)
    return distributed


def _wrapper(
    optimizer: torch.optim.Optimizer, names: Dict[torch.nn.Parameter, str], prefix: str, how: How
) -> _DistributedOptimizer:
    """An object of a subclass of the optimizer's class, with its state; it reduces nothing yet."""
    base = type(optimizer)
    members = {"__module__": base.__module__, "__doc__": base.__doc__}
    cls: Any = type(base.__name__, (_DistributedOptimizer, base), members)
    distributed: _DistributedOptimizer = object.__new__(cls)
    # A learning-rate scheduler puts a step() of its own into the instance; that one leads to the wrapped optimizer.
    distributed.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    distributed._parameter_names = names
    distributed._forget_synchronizing()
    distributed._synchronize_in_step = True
    distributed._added_groups = AddedGroups(optimizer.param_groups)
    distributed._prefix = prefix
    distributed._process_set = how.process_set
    distributed._reducer = None
    distributed._how, distributed._compression = how, how.compression
    distributed.op, distributed.process_set, distributed.sparse_as_dense = how.op, how.process_set, how.sparse_as_dense
    return distributed
