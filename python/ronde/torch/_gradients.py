"""Gradients on their way through the all-reduce, from the hook that autograd calls to the averaged ``p.grad``."""

from __future__ import annotations

import os
import sys
import weakref
from ctypes import Array, c_void_p
from functools import partial
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set

import torch

from ronde import _abi, _operation
from ronde._lib import last_error, library
from ronde._slot import drive, tickets_of, wait_for
from ronde.exceptions import DuplicateNameError, ForkedError, RondeError, UnsupportedError
from ronde.torch import _frozen, _layouts, _names
from ronde.torch._flights import Flight, Flights, Packed, SparseFlight, give_up
from ronde.torch._handles import synchronize
from ronde.torch._holders import HELD_BY_ONE_VARIABLE, is_seen_elsewhere
from ronde.torch._places import DENSE, UNKNOWN, Place, Places, Reduction, Unit, epoch_now
from ronde.torch._sparse_as_dense import Origins
from ronde.torch._start import scale, start_allreduce
from ronde.torch._tensors import as_sent, dense_of, gradient_type, is_expanded, memory_order
from ronde.torch.compression import AnyCompressor, Compression
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of
from ronde.torch.sparse_ops import start_sparse_allreduce

_OK = _abi.OK


class How(NamedTuple):
    """How gradients are reduced."""

    compression: AnyCompressor
    op: int
    prescale: float
    postscale: float
    sparse_as_dense: bool
    process_set: ProcessSet = global_process_set


class _Member:
    """A parameter in its unit."""

    __slots__ = ("parameter", "unit", "round", "left")

    def __init__(self, parameter: torch.nn.Parameter, unit: Unit) -> None:
        self.parameter = parameter
        self.unit = unit
        self.round = 0  # in which a backward pass reached it last
        self.left = 0  # in that round: backward passes until its gradient is complete


#: All there are; a forked child's leave the job.
_reducers: "weakref.WeakSet[Reducer]" = weakref.WeakSet()


def _leave_job() -> None:
    for reducer in _reducers:
        reducer.leave_job()


os.register_at_fork(after_in_child=_leave_job)


class Reducer:
    """Starts the reduction of a gradient, or of a group of gradients, as soon as it is complete, and waits for all.

    Units are what is reduced by one request each: mostly single parameters. The order in which they get ready may
    differ between ranks; they meet by name. Single parameters have a place in shared memory (see ``_places``) and go
    from there by slot; groups, what is compressed and what has no place go from private memory.
    """

    def __init__(self, passes: int, how: How) -> None:
        self._how = how
        self._tells_frozen = _frozen.can_be_told(how.op, how.compression)
        self._passes = passes
        self._process_set = how.process_set
        self._group = group_of(how.process_set)
        self._units: List[Unit] = []
        self._members: List[_Member] = []
        self._unwatched: List[int] = []  # members without a hook, since they were frozen
        self._hooks: Dict[int, torch.utils.hooks.RemovableHandle] = {}  # of the others
        #: By backward pass, of which several may run at once: whose gradient is there, but may not be complete before other
        #: hooks of the program's have run.
        self._next: Dict[int, Unit] = {}
        self._passes_seen: Set[int] = set()  # at the end of each the last one is started
        self._layouts_are_open = False
        self._layouts_epoch = epoch_now()  # in which the ranks agree on layouts
        self._origins = Origins() if how.sparse_as_dense else None
        self._holds_back = False  # a sparse gradient, until the layouts are agreed
        self._round = 1  # from one synchronize() to the next
        self._without: Set[torch.nn.Parameter] = set()  # had no gradient when the reduction under way began, and got none
        self._groups: List[Unit] = []
        self._flights: Flights = {}
        self._placed: Dict[Unit, Place] = {}  # under way from their places
        self._all_tickets: Optional["Array[c_void_p]"] = None  # of all units, while each has a place
        self._tickets_of_generation = 0
        self._places = Places(self._units, Reduction(how.op, how.prescale, how.postscale))
        self._submit_slot = library().ronde_submit_slot
        self._is_in_forked_child = False
        _reducers.add(self)

    def add_unit(self, parameters: Sequence[torch.nn.Parameter], name: str) -> None:
        """From now on these parameters' gradients are reduced, together, under this name."""
        how = self._how
        is_single = len(parameters) == 1
        unit = Unit(
            _names.name_of("allreduce" if is_single else "grouped_allreduce", name, self._group),
            list(parameters),
            # The C interface takes a factor of 0 for none; the way from private memory says what is wrong with it.
            is_private=not is_single or how.compression is not Compression.none or how.prescale * how.postscale == 0,
        )
        if is_single and not how.sparse_as_dense:
            unit.layout = UNKNOWN
            self._layouts_are_open = True
        self._units.append(unit)
        if not is_single:
            self._groups.append(unit)
        for parameter in parameters:
            if self._origins is not None:
                self._origins.add(parameter)
            self._members.append(_Member(parameter, unit))
            self._unwatched.append(len(self._members) - 1)
        self._watch()

    def _watch(self) -> None:
        """Has autograd call for the members that need a gradient; what is frozen waits for a later call."""
        for index in self._unwatched:
            member = self._members[index]
            if member.parameter.requires_grad:
                self._add_hook(index)
                member.unit.is_needed = True
                if self._origins is not None:
                    self._origins.need(member.parameter)
        self._unwatched = [i for i in self._unwatched if not self._members[i].parameter.requires_grad]

    def _add_hook(self, index: int) -> None:
        # A model outlives its optimizer at times; then its gradients must neither be sent nor keep memory any more.
        reference = weakref.ref(self)
        count = Reducer._count if self._origins is None else Reducer._note_and_count

        def on_gradient(_: torch.Tensor) -> None:
            reducer = reference()
            if reducer is not None:
                count(reducer, reducer._members[index])

        parameter = self._members[index].parameter
        hook = parameter.register_post_accumulate_grad_hook(on_gradient)  # type: ignore[no-untyped-call] # torch's
        self._hooks[index] = hook

    def leave_job(self) -> None:
        """In a forked child, which is no rank: the model may be trained there, by the child alone."""
        self._is_in_forked_child = True
        for hook in self._hooks.values():
            hook.remove()

    @property
    def under_way(self) -> int:
        """How many reductions are, or are about to be."""
        return len(self._placed) + len(self._flights) + len(self._next)

    @property
    def pending(self) -> bool:
        """Whether reductions are under way, or held back."""
        return self.under_way > 0 or self._holds_back

    @property
    def touched(self) -> bool:
        """Whether a backward pass has reached any parameter since the last :meth:`synchronize`."""
        return self.pending or any(member.round == self._round for member in self._members)

    def is_touched_anywhere(self) -> bool:
        """Whether :attr:`touched` says so on any rank. Collective."""
        if not self._units:
            return False
        if self._process_set.process_set_id != self._group:
            self._follow_set()
        touched = self.touched or self._meets_unseen_gradients()
        return bool(self.reduced(torch.tensor([touched], dtype=torch.uint8, device="cpu"), "touched", _abi.MAX)[0])

    def reduced(self, tensor: torch.Tensor, what: str, op: int) -> torch.Tensor:
        """All-reduces a tensor beside the gradients, under a name that is this reducer's. Requires: it has units."""
        result: torch.Tensor = start_allreduce([tensor], None, self._name_of(what), op, 1.0, 1.0, True, wait=True)
        return result

    def _name_of(self, what: str) -> str:
        """Of a request beside the gradients: the same on all ranks, and no other reducer's. Requires: it has units."""
        return _names.part_of(min(self._units, key=lambda unit: str(unit.name)).name, what)

    def _meets_unseen_gradients(self) -> bool:
        """Whether parameters that were frozen until now have gradients, of a pass that no hook could tell."""
        unwatched = self._unwatched
        self._watch()
        seen = [self._members[index].parameter for index in unwatched if index in self._hooks]
        return any(parameter.grad is not None for parameter in seen)

    def set_passes(self, passes: int) -> None:
        """How many backward passes add to a gradient before it is reduced; counting starts again. What is under way stays:
        other ranks may have begun other gradients."""
        self._passes = passes
        for member in self._members:
            if member.round == self._round and member.left > 0:
                member.left = passes

    def drop(self) -> None:
        """Forgets the gradients of this round. Other ranks may have begun others, so what this rank has not begun is begun
        here, and then all is cancelled: every rank that drops a pass has asked for each gradient once, and none of them meets
        a later one. Waits for no rank's program, so it cannot help where a rank has made no pass at all."""
        # In the middle of accumulation nothing is, and p.grad is to stay as it is.
        is_complete = any(member.round == self._round and member.left == 0 for member in self._members)
        is_of_this_job = self._layouts_epoch == epoch_now()  # what an ended one has left needs nothing
        if is_of_this_job and (self.under_way > 0 or is_complete):
            try:
                for number in list(self._next):
                    self._end_pass(number)
                self._start_rest(is_dropped=True)
                self._cancel()
            except RondeError:
                pass  # nobody's any more
        self.restart()

    def _start_rest(self, is_dropped: bool = False) -> None:
        """Starts what no hook has. ``is_dropped``: but for what has no layout yet."""
        if len(self._placed) < len(self._units):
            for unit in self._units:
                is_under_way = unit in self._placed or unit in self._flights
                if not is_under_way and unit.is_needed and not (is_dropped and unit.layout == UNKNOWN):
                    self._start(unit)

    def _cancel(self) -> None:
        """Ends what is under way: on all ranks, unless all have begun it."""
        slots = [place.slot for place in self._placed.values()]
        for slot in slots:
            slot.cancel()
        for flight in self._flights.values():
            flight.cancel()
        for slot in slots:
            slot.settle()

    def restart(self) -> None:
        """Forgets what is under way and counts from the start. Other ranks must do the same."""
        if self._flights or self._placed:
            give_up(self._flights.values(), self._placed)
            self._flights, self._placed = {}, {}
        if self._origins is not None:
            self._origins.forget()
        self._next.clear()
        self._passes_seen.clear()
        self._without.clear()
        self._holds_back = False
        self._round += 1
        for unit in self._groups:
            unit.missing = len(unit.parameters)

    def _follow_set(self) -> None:
        """A process set that is registered anew, in another job above all, has an id of its own there, and the id that
        it had may be another set's. ValueError if it is not registered."""
        self.restart()  # what was under way ended with the set
        self._group = group_of(self._process_set)
        for unit in self._units:
            unit.move_to(self._group)

    def _note_and_count(self, member: _Member) -> None:
        assert self._origins is not None
        if member.parameter.grad is not None:
            self._origins.note(member.parameter, member.parameter.grad)
        self._count(member)

    def _count(self, member: _Member) -> None:
        """A backward pass has reached the parameter.

        Its gradient is started by the next one's call: the program's hooks may change it until autograd has left this
        parameter, and of some, at the gradient accumulator, nothing tells that they are there. The last one's is started
        when the pass ends.
        """
        if self._process_set.process_set_id != self._group:
            self._follow_set()
        unit = member.unit
        if member.round != self._round:
            member.round = self._round
            member.left = self._passes
        left = member.left - 1
        if left < 0:
            raise AssertionError(
                f"'{unit.name}': a gradient was computed more often than backward_passes_per_step="
                f"{self._passes} times before step() or synchronize(). Raise backward_passes_per_step to accumulate "
                "gradients; torch.utils.checkpoint needs use_reentrant=False."
            )
        member.left = left
        now = torch._C._current_graph_task_id()
        waiting = self._next.pop(now, None)
        if now not in self._passes_seen and now != -1:
            self._passes_seen.add(now)
            torch.autograd.Variable._execution_engine.queue_callback(partial(self._end_pass, now))
        if left == 0:
            if not unit.is_single:
                unit.missing -= 1
            if unit.is_single or unit.missing == 0:
                self._next[now] = unit
        if not unit.is_private and unit.layout in (DENSE, UNKNOWN):
            self._move_in(unit)  # now, while it can be told who has made it; what is still to come is added there
        if waiting is not None:
            try:
                self._start(waiting)
            except BaseException:
                self._next.pop(now, None)  # the pass ends here
                raise

    def _end_pass(self, number: int) -> None:
        self._passes_seen.discard(number)
        unit = self._next.pop(number, None)
        if unit is not None:
            self._start(unit)

    def _start(self, unit: Unit) -> None:
        place = unit.place
        if place is None or unit.parameters[0].grad is not place.view or place.view.data_ptr() != place.address:
            if unit.layout != DENSE and self._start_sparse(unit):
                return
            place = self._move_in(unit, is_fresh=False)
        if place is None:
            self._start_private(unit)
        if self._origins is not None:
            self._origins.exchange_rows(unit)  # by now its own were seen
        if place is None:
            return
        place.busy = True
        status = self._submit_slot(place.number)
        if status != _OK:
            self._submit_again(unit, place, status)
            return
        self._placed[unit] = place
        if len(self._placed) == len(self._units):
            # The last one. The others may be waiting for nothing but this rank's share of the work, and it takes a while
            # until autograd has wound up and the caller waits.
            drive(self._tickets_of(self._placed))

    def _submit_again(self, unit: Unit, place: Place, status: int) -> None:
        error = last_error(status, unit.name)
        if self._places.are_outdated():
            self._start(unit)
            return
        if isinstance(error, DuplicateNameError):  # by an earlier one that nobody has waited for
            _operation.settle(unit.name)
            place.slot.settle()
            status = self._submit_slot(place.number)
            if status == _OK:
                self._placed[unit] = place
                return
            error = last_error(status, unit.name)
        raise error

    def _move_in(self, unit: Unit, is_fresh: bool = True) -> Optional[Place]:
        """Brings the gradient to its place, which becomes ``p.grad``; None: it has none, or the program knows the gradient
        elsewhere, and stays where it is. ``is_fresh``: autograd has just computed the gradient, or added to it."""
        place = None if unit.is_private else self._places.of(unit)
        if place is None:
            return None
        parameter = unit.parameters[0]
        gradient: Optional[torch.Tensor] = parameter.grad
        if gradient is place.view:
            return place
        if sys.getrefcount(gradient) > HELD_BY_ONE_VARIABLE and gradient is not None:
            return None  # in a variable of the program, which expects the result there too, as Horovod leaves it
        if gradient is not None:
            if gradient.requires_grad:  # of create_graph=True: the graph belongs to this tensor and no other
                return None
            if self._origins is not None:
                self._origins.note(parameter, gradient)
            if gradient.layout is not torch.strided:
                if unit.layout != DENSE or is_fresh:
                    return None  # as long as it stays sparse, further passes add their rows
                gradient = dense_of(gradient)
            elif is_seen_elsewhere(gradient) and not (is_fresh and gradient._version == 0):
                return None  # autograd has added to what was there; else it has made this one, of another's memory perhaps
        if not place.make_room():
            return None
        view = place.view
        if gradient is None:  # unused on this rank, but perhaps not on the others
            _frozen.fill_with_nothing(view, self._tells_frozen and not parameter.requires_grad)
        else:
            view.copy_(gradient)
        if gradient is not None or parameter.requires_grad:
            parameter.grad = view
        else:
            self._without.add(parameter)
        return place

    def _start_sparse(self, unit: Unit) -> bool:
        """Whether the gradient goes as a sparse tensor: it is then under way, or held back until ``synchronize()``."""
        parameter = unit.parameters[0]
        if self._layouts_epoch != epoch_now():
            self._reopen_layouts()
        if unit.layout == UNKNOWN:
            is_sparse = parameter.grad is not None and parameter.grad.is_sparse
            self._holds_back = self._holds_back or is_sparse
            return is_sparse
        gradient = _layouts.in_layout(parameter, unit.layout)
        how = self._how
        factor = scale(how.prescale, "prescale_factor") * scale(how.postscale, "postscale_factor")
        is_somebodys = parameter.requires_grad or parameter.grad is not None
        if parameter.grad is None:
            self._without.add(parameter)
        finish = start_sparse_allreduce(
            gradient, unit.name, how.op, self._group, how.compression, factor, is_somebodys
        )
        self._flights[unit] = SparseFlight(finish)
        return True

    def _start_private(self, unit: Unit) -> None:
        how = self._how
        if unit.place is not None and not unit.place.is_free():  # frees the name
            unit.place.slot.settle()
        _operation.settle(unit.name)
        packed = [self._pack(parameter, unit.name, len(unit.parameters) > 1) for parameter in unit.parameters]
        tensors = [item.sent for item in packed]
        handle = start_allreduce(tensors, tensors, unit.name, how.op, how.prescale, how.postscale, False, wait=False)
        self._flights[unit] = Flight(handle, packed)

    def _pack(self, parameter: torch.nn.Parameter, name: str, is_grouped: bool) -> Packed:
        gradient: Optional[torch.Tensor] = parameter.grad
        if gradient is None:  # unused on this rank, but perhaps not on the others
            gradient = torch.empty_like(parameter, dtype=gradient_type(parameter), requires_grad=False)
            _frozen.fill_with_nothing(gradient, self._tells_frozen and not parameter.requires_grad)
            if parameter.requires_grad:
                parameter.grad = gradient
            else:
                self._without.add(parameter)
        elif self._origins is not None:
            self._origins.note(parameter, gradient)
        # Autograd may have made several gradients of one memory, or have to compute others from it; and the program keeps
        # its own, whatever comes after an error.
        is_seen = sys.getrefcount(gradient) > HELD_BY_ONE_VARIABLE
        is_seen = is_seen or (gradient.layout is torch.strided and is_seen_elsewhere(gradient))
        bare = gradient.detach()
        if bare.layout is not torch.strided:
            if is_grouped and not self._how.sparse_as_dense:
                raise UnsupportedError(
                    f"'{name}' has a sparse gradient in a group: leave it out of groups=, or give sparse_as_dense=True "
                    "to DistributedOptimizer",
                    3,
                    tensor=name,
                )
            bare = dense_of(bare)
            gradient = parameter.grad = bare
        if is_expanded(bare):  # nothing can be written there
            bare = bare.contiguous()
            gradient = parameter.grad = bare
        bare = as_sent(bare, memory_order(parameter))
        sent, context = self._how.compression.compress(bare.clone() if is_seen else bare)
        return Packed(parameter, gradient, bare, sent, context)

    def synchronize(self) -> None:
        """Starts what no hook has started, waits for all, and leaves the results in ``p.grad``.

        If one fails, none is waited for any more and the error is raised; the gradients are then of no use.
        """
        if self._is_in_forked_child:
            raise ForkedError("a forked child of a rank is none: it cannot average gradients with the others", _abi.FORKED)
        if self._process_set.process_set_id != self._group:
            self._follow_set()
        if self._unwatched:
            self._watch()
        for number in list(self._next):
            self._end_pass(number)  # one that an error has ended
        if self._layouts_epoch != epoch_now():
            self._reopen_layouts()
        if self._layouts_are_open and _layouts.are_open(self._units):
            units = self._by_name()
            for unit, layout in zip(units, self._agree(_layouts.seen(units))):
                unit.layout = layout
            self._layouts_are_open = any(unit.layout == UNKNOWN for unit in self._units)
        self._start_rest()
        if self._origins is not None and self._origins.are_open():
            parameters = [parameter for unit in self._by_name() for parameter in unit.parameters]
            self._origins.settle(parameters, self._agree(self._origins.seen(parameters)))
            for unit in [*self._placed, *self._flights]:
                self._origins.exchange_rows(unit)
        placed, flights = self._placed, self._flights
        self._placed, self._flights = {}, {}
        try:
            # Waiting does this rank's share of the work, and the other ranks may need only that: what can be done
            # afterwards is, all the more as memory is cold after a backward pass.
            if placed:
                wait_for(self._tickets_of(placed), lambda: [place.slot for place in placed.values()])
            for unit, place in placed.items():
                place.busy = False
                result = place.result()
                if unit.parameters[0].grad is not result:
                    self._put(unit.parameters[0], result)
            if flights:
                self._land(flights)
            if self._origins is not None:
                self._origins.restore()
        except BaseException:
            give_up(flights.values(), placed)
            raise
        finally:
            self.restart()

    def _tickets_of(self, placed: Dict[Unit, Place]) -> "Array[c_void_p]":
        """The tickets of what is under way, found made in most steps."""
        is_all = len(placed) == len(self._units)
        if is_all and self._all_tickets is not None and self._tickets_of_generation == self._places.generation:
            return self._all_tickets
        tickets = tickets_of([place.slot for place in placed.values()])
        # What was submitted before its unit got another place goes with this step, and its ticket with it.
        if is_all and all(unit.place is place for unit, place in placed.items()):
            self._all_tickets, self._tickets_of_generation = tickets, self._places.generation
        return tickets

    def _land(self, flights: Flights) -> None:
        with torch.no_grad():
            for unit, flight in flights.items():
                if isinstance(flight, SparseFlight):
                    result = flight.finish()
                    parameter = unit.parameters[0]
                    if result is not None and (parameter.grad is not None or parameter in self._without):
                        parameter.grad = result
                else:
                    self._store(flight.packed, synchronize(flight.handle))

    def _by_name(self) -> List[Unit]:
        """The units in an order that is the same on all ranks, whatever that of their parameters is."""
        return sorted(self._units, key=lambda unit: str(unit.name))

    def _reopen_layouts(self) -> None:
        """In another job: the last one may have ended when some ranks had agreed and others not."""
        self._layouts_epoch = epoch_now()
        if self._origins is not None:
            self._origins.reopen()
            return
        for unit in self._units:
            if unit.is_single:
                unit.layout = UNKNOWN
                self._layouts_are_open = True

    def _agree(self, mine: List[int]) -> List[int]:
        """Has the ranks agree on layouts, under a name of its own."""
        try:
            return _layouts.agree(mine, self._name_of("layouts"))
        except BaseException:
            self.restart()  # as after any other reduction that fails
            raise

    def _store(self, packed: Iterable[Packed], results: Iterable[torch.Tensor]) -> None:
        for item, result in zip(packed, results):
            if item.sent is not item.bare:
                item.bare.copy_(self._how.compression.decompress(result, item.context))
            self._put(item.parameter, item.gradient)

    def _put(self, parameter: torch.nn.Parameter, gradient: torch.Tensor) -> None:
        """Makes the reduced gradient the parameter's; mostly it is, as it was reduced in place. One that the program has taken
        away meanwhile (``p.grad = None``, so that it is not stepped) stays away."""
        current = parameter.grad
        if current is gradient:
            return
        if current is not None:
            current.detach().copy_(gradient.detach())
        elif parameter in self._without and not (self._tells_frozen and _frozen.is_nothing(gradient)):
            parameter.grad = gradient
