"""Gradients on their way through the all-reduce, from the hook that autograd calls to the averaged ``p.grad``."""

from __future__ import annotations

import sys
from ctypes import Array, c_void_p
from functools import partial
from threading import RLock
from typing import Callable, Container, Dict, List, Optional, Sequence, Set, Tuple, cast

import torch

from ronde import _abi, _names, _operation
from ronde._lib import last_error, library
from ronde._slot import Slot, drive, wait_for
from ronde.exceptions import DuplicateNameError, ForkedError, InvalidArgumentError, RondeError, raise_if_the_programs
from ronde.torch import _flights, _generations, _layouts, _living_reducers, _passes
from ronde.torch._answers import NONE, Answers
from ronde.torch._flights import Flights, How, KeptTickets
from ronde.torch._left_out import left_out, vote_on_needed
from ronde.torch._moving_in import move_in
from ronde.torch._parts import ArrivalsParts
from ronde.torch._passes import TOGETHER, Hooks, Member, Ready, Turn, current_pass, without_gradient
from ronde.torch._places import DENSE, UNKNOWN, Place, Places, Reduction, Unit, epoch_now
from ronde.torch._sparse_as_dense import Origins
from ronde.torch._start import start_allreduce
from ronde.torch._step_summary import Said, StepSummary
from ronde.torch.compression import Compression
from ronde.torch.process_sets import group_of

_OK = _abi.OK


class Reducer(ArrivalsParts):
    """Starts the reduction of a gradient, or of a group of gradients, as soon as it is complete, and waits for all.

    Units are what is reduced by one request each: mostly single parameters. The order in which they get ready may
    differ between ranks; they meet by name. Single parameters have a place in shared memory (see ``_places``) and go
    from there by slot; groups, what is compressed and what has no place go from private memory.
    """

    _epoch = -1  # of what could not be made

    def __init__(self, passes: int, how: How) -> None:
        self._hooks = Hooks(self, Reducer._count)
        self._how = how
        self._passes = passes
        self._process_set = how.process_set
        self._group = group_of(how.process_set)
        self._in_turn = 0  # how many calls of :meth:`_count` and :meth:`_end_pass` are at it
        self._units: List[Unit] = []
        self._members: List[Member] = []
        self._ready = {}  # by the number of the backward pass that runs
        self._layouts_are_open = False
        self._epoch = epoch_now()  # of the job in which the ranks have agreed on layouts
        self._generation = 0  # of its gradients: they meet none of a pass that a rank has dropped
        self._is_to_leave = False  # this one, when the next pass begins
        self._is_left = False  # and nothing is begun until all ranks have entered another
        self._leaves_behind = False  # leaves it behind the step that is under way
        self._next_generation = 0  # if later: another optimizer of its names has begun it while this one was in a step
        self.refresh: Callable[[], Optional[Callable[[], None]]] = lambda: None  # looks for parameters that came or went
        self._turn = RLock()  # backward passes may run in several threads at once
        self._summary = StepSummary()
        self._origins = Origins() if how.sparse_as_dense else None
        self._holds_back = False  # gradients, until all ranks have agreed on layouts, or entered a generation
        self._round = 1  # from one synchronize() to the next
        self._without: Set[torch.nn.Parameter] = set()  # frozen, and had no gradient when its reduction began
        #: That had no gradient when a pass has ended of this step; of the last one before this rank has said how it stands.
        self._lacking: Optional[List[Member]] = None
        self.groups: List[Unit] = []  # of several parameters
        self._flights: Flights = {}
        self._placed: Dict[Unit, Place] = {}  # under way from their places
        self._kept_tickets = KeptTickets()
        self._places = Places(self._units, Reduction(how.op, how.prescale, how.postscale))
        self._submit_slot = library().ronde_submit_slot
        self._is_in_forked_child = self._has_lost_a_pass = False
        self._has_loaded = self._has_new_units = False  # since the last step: a state, units
        self.name = ""  # that of the first unit that it began with: the same on all ranks, and no other reducer's
        _living_reducers.enter(self)

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
        unit.begin(self._generation)
        if is_single and not how.sparse_as_dense:
            unit.layout = UNKNOWN
            self._layouts_are_open = True
        self._units.append(unit)
        self._has_new_units = True
        if not is_single:
            self.groups.append(unit)
        for parameter in parameters:
            if self._origins is not None:
                self._origins.add(parameter)
            self._members.append(Member(parameter, unit))
            self._hooks.add(self._members[-1])
            if self._lacking is not None:
                self._lacking.append(self._members[-1])  # nobody has looked for its gradient
        self._watch()

    def begin(self) -> None:
        """It has its units now. Others of its name may have been before it in this job."""
        self.name = min(self._unit_names(), default="")
        for other in _living_reducers.in_the_middle_of_a_step(self.name):
            other.end_for_successor()
        self._begin(_generations.latest_generation(self.name, self._unit_names()))
        self._is_to_leave = _generations.is_left(self.name, self._unit_names())  # earlier ones have dropped some
        _living_reducers.note_shared(self)
        self._has_new_units = False

    def _unit_names(self) -> List[str]:
        return [unit.first_name for unit in self._units]

    def names_of_parameters(self) -> Dict[torch.nn.Parameter, str]:
        return {member.parameter: member.unit.first_name for member in self._members}

    def remove(self, parameter: torch.nn.Parameter) -> None:
        """Its gradients are reduced no more. What this rank has begun ends: others may have noticed before they began it."""
        member = next(member for member in self._members if member.parameter is parameter)
        self._members.remove(member)
        self._hooks.remove(member)
        if self._origins is not None:
            self._origins.remove(parameter)
        unit = member.unit
        _flights.end(unit, self._flights, self._placed)
        _generations.reached(self.name, self._generation + 1)  # by successors: what has ended may be owed
        if len(unit.parameters) > 1:
            unit.leave(parameter, self._generation, was_missing=member.round != self._round or member.left > 0)
        else:
            self._units.remove(unit)
            if not unit.is_single:
                self.groups.remove(unit)
        self._places.generation += 1  # what was known of all of them holds no more

    def _watch(self) -> List[Member]:
        """Has autograd call for the members that need a gradient now for the first time, and returns them."""
        members = self._hooks.watch()
        for member in members:
            member.unit.is_needed = True
            if self._origins is not None:
                self._origins.need(member.parameter)
        return members

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # An optimizer that ends in the middle of a step: its successor's gradients must not meet what it has asked for.
        if not is_finalizing():
            self._hooks.remove_all()
        if not is_finalizing() and self._epoch == epoch_now() and not self._is_in_forked_child and self.touched:
            _flights.ask_to_cancel(self._flights, self._placed, self._origins)
            self._leave_generation()

    def leave_job(self) -> None:
        """In a forked child, which is no rank: the model may be trained there, by the child alone."""
        self._is_in_forked_child = True
        self._hooks.remove_all()

    @property
    def _under_way(self) -> int:
        return len(self._placed) + len(self._flights) + sum(len(ready.units) for ready in self._ready.values())

    @property
    def pending(self) -> bool:
        """Whether reductions are under way, or held back: of this process's, which a forked child's are not."""
        return not self._is_in_forked_child and (self._under_way > 0 or self._holds_back)

    @property
    def touched(self) -> bool:
        """Whether a backward pass has reached any parameter since the last :meth:`synchronize`."""
        return self.pending or any(member.round == self._round for member in self._members)

    def ask(self, or_here: bool = False, has_left: bool = False, is_refused: bool = False) -> Answers:
        """On how many ranks :attr:`touched`, or ``or_here``, says so, and the others. Collective."""
        if not self._units:
            return NONE
        self._follow_set()
        # What was frozen until now may have gradients of a pass that no hook could tell.
        touched = or_here or self.touched or any(member.parameter.grad is not None for member in self._watch())
        own = torch.tensor([touched, has_left, is_refused, True], dtype=torch.int32, device="cpu")
        counts = self.reduced(own, "touched", _abi.SUM).tolist()
        return Answers(counts[0], counts[1], counts[2], counts[3], self._process_set.size() or 0)

    def reduced(self, tensor: torch.Tensor, what: str, op: int = _abi.MAX, is_in_step: bool = False) -> torch.Tensor:
        """All-reduces a tensor beside the gradients. Requires: it has units."""
        name = self._name_of(what, is_in_step)
        return cast(torch.Tensor, start_allreduce([tensor], None, name, op, 1.0, 1.0, True, wait=True))

    def _name_of(self, what: str, is_in_step: bool = True) -> str:
        """Of a request beside the gradients, of this generation or of any: the same on all ranks, and no other reducer's."""
        is_first = self._generation == 0 or not is_in_step
        return _names.part_of(self.name, what if is_first else f"{what} in generation {self._generation}")

    def set_passes(self, passes: int) -> None:
        """How many backward passes add to a gradient before it is reduced; counting starts again. What is under way stays:
        other ranks may have begun other gradients."""
        self._passes = passes
        for member in [each for each in self._members if each.round == self._round and each.left > 0]:
            member.left = passes

    def drop(self) -> None:
        """Forgets the gradients of this round, on all ranks that do, whatever backward pass each of them has made. The next
        ones wait until all ranks have entered another generation, which they do in their next steps. Waits for no rank."""
        self._enter_job()
        self._has_loaded = True
        self.look_for_changes(None)
        if not self.touched and not self._summary.is_sent:
            self._is_to_leave = True  # others may have gradients under way; but this rank may have no more, and join first
            _generations.is_to_leave(self.name, self._unit_names())
            self.restart()
            return
        if self._under_way > 0:
            try:
                _flights.cancel(self._flights, self._placed, self._origins)
            except RondeError as error:
                raise_if_the_programs(error)  # else nobody's any more
        self._give_up_generation()

    def agree_on_generation(self) -> None:
        """All ranks of the job are at the same place of the program, and go on in one. Collective."""
        self._enter_job()
        if self._is_to_leave:
            self._leave_generation()
        is_busy = self._under_way > 0 or self._summary.is_sent
        if self._units and self._group == 0 and _generations.meet(self.name, self._is_left, is_busy, self.reduced):
            self._enter_generation()

    def end_for_successor(self) -> None:
        """Another optimizer has its names, and it is in the middle of a step."""
        self.drop()
        self._has_loaded = False
        self._has_lost_a_pass = True

    def _give_up_generation(self) -> None:
        """Forgets what is under way, and begins nothing until all ranks have left. The others are told."""
        self.restart()
        self._leave_generation()

    def go_on_in(self, generation: int, group: int) -> None:
        """With the next step. Nothing is under way: all ranks of the process set have joined, if it is this one's."""
        if group == self._group and self._epoch == epoch_now():
            self._begin(generation)

    def go_along(self, generation: int) -> None:
        """An optimizer of the same names goes on with it: so does this one, behind the step that it has begun."""
        if generation <= self._generation or self._epoch != epoch_now():
            return
        if self._under_way == 0 and not self._summary.is_sent:
            self._begin(generation)
        else:
            self._next_generation = generation

    def leave_along(self) -> None:
        """An optimizer of the same names has left their generation, and told so."""
        if self._under_way == 0 and not self._summary.is_sent:
            self._is_left = True
        else:
            self._leaves_behind = True

    def _leave_generation(self) -> None:
        if self._is_left or not self._units or self._epoch == 0 or self._epoch != epoch_now():
            return
        try:
            self._summary.drop(self._name_of("step"))
        except RondeError as error:
            raise_if_the_programs(error)  # else nothing can be told any more, and nobody is left behind
        self._summary.is_sent = self._is_to_leave = self._leaves_behind = False
        self._is_left = True
        _generations.leave(self.name, self._unit_names())

    def _enter_generation(self) -> None:
        """With all ranks: they have left theirs, or hear of it now. Collective. Requires: nothing is under way."""
        vote = self._name_of("next generation")
        self._begin(_generations.enter(self.name, self._unit_names(), vote))
        _generations.has_entered(vote)

    def _begin(self, generation: int) -> None:
        self._generation, self._next_generation = generation, 0
        self._is_to_leave = self._is_left = self._leaves_behind = False
        for unit in self._units:
            unit.begin(generation)
        self._places.generation += 1
        self._summary.is_sent = False

    def _enter_job(self) -> None:
        """In another job than the last: it may have ended when some ranks had agreed on layouts and others not, and some of
        this one's may be new."""
        epoch = epoch_now()
        if self._epoch == epoch or epoch == 0:
            return
        self._epoch = epoch
        self._begin(_generations.latest_generation(self.name, self._unit_names()))
        if self._origins is not None:
            self._origins.reopen()
        else:
            self._layouts_are_open = _layouts.reopen(self._units)

    def _start_rest(self, is_first: bool = False) -> None:
        """Starts what no hook has. ``is_first``: but for what may be sparse on the other ranks, as far as is known."""
        if len(self._placed) < len(self._units):
            for unit in self._units:
                if not unit.is_needed or unit in self._placed or unit in self._flights:
                    continue
                if not (is_first and unit.layout == UNKNOWN and unit.parameters[0].grad is None):
                    self._start(unit)

    def restart(self) -> None:
        """Forgets what is under way and counts from the start. Other ranks must do the same."""
        if self._flights or self._placed:
            _flights.give_up(self._flights.values(), self._placed)
            self._flights, self._placed = {}, {}
        if self._origins is not None:
            self._origins.forget()
        self._ready.clear()
        for parameter in self._without:  # what was sent for it is none
            parameter.grad = None
        self._without.clear()
        self._holds_back = False
        self._lacking = None
        self._round += 1
        for unit in self.groups:
            unit.missing = len(unit.parameters)

    def _follow_set(self) -> None:
        """A set that is registered anew, in another job above all, has another id there. ValueError if it is not registered."""
        if self._process_set.process_set_id == self._group:
            return
        self.restart()  # what was under way ended with the set
        self._group = group_of(self._process_set)
        for unit in self._units:
            unit.move_to(self._group)
        self.name = _names.in_group(self._group, str(self.name))
        _living_reducers.note_shared(self)
        self._begin(_generations.latest_generation(self.name, self._unit_names()))

    def _count(self, member: Member) -> None:
        """A backward pass has reached the parameter. Its gradient is started by a later one's call: the program's hooks may
        change it until autograd has left this parameter, and of some, at the gradient accumulator, nothing tells that they
        are there. The last ones are started when the pass ends."""
        with self._turn, Turn(self):
            if self._process_set.process_set_id != self._group:
                self._follow_set()
            unit = member.unit
            if self._origins is not None and member.parameter.grad is not None:
                self._origins.note(member.parameter, member.parameter.grad)
            is_last = member.reach(self._round, self._passes) == 0
            now = current_pass()
            ready = self._ready.get(now)
            if ready is None:
                ready = self._begin_pass(now)
            waiting = ready.take() if ready.n_bytes >= TOGETHER and not self._is_left else []
            if is_last:
                if not unit.is_single:
                    unit.missing -= 1
                if unit.is_single or unit.missing == 0:
                    ready.add(unit)
                if not unit.is_private and (unit.layout == DENSE or unit.layout == UNKNOWN) and not self._is_left:
                    # Now, while it can be told who has made it. Not before: a pass in another thread may be adding to it.
                    move_in(unit, self._places, self._origins, self._without, is_fresh=True)
            if waiting:
                try:
                    self._start_all(waiting)
                except BaseException:
                    self._ready.pop(now, None)  # the pass ends here
                    raise

    def _begin_pass(self, number: int) -> Ready:
        _living_reducers.require_unshared(self)
        self._enter_job()
        if self._is_to_leave:
            self._leave_generation()
        self._watch()
        if number != -1:
            torch.autograd.Variable._execution_engine.queue_callback(partial(self._end_pass, number))
        ready = self._ready[number] = Ready()
        return ready

    def look_for_changes(self, among: Optional[Container[torch.nn.Parameter]]) -> None:
        """Whether parameters have come or gone. ``among``: only if it has one of these. To be called where all ranks do."""
        refresh = self.refresh()
        if refresh is not None and (among is None or any(m.parameter in among for m in self._members)):
            refresh()

    def _end_pass(self, number: int) -> None:
        with self._turn, Turn(self):
            ready = self._ready.pop(number, None)
            if ready is None:
                return
            self._holds_back = self._holds_back or (self._is_left and len(ready.units) > 0)
            if not self._is_left:
                self._start_all(ready.units)
            if not self._summary.is_sent:
                self._lacking = without_gradient(self._members)
                if self._placed or self._flights:
                    self._say(self._lacking)

    def _start(self, unit: Unit) -> None:
        place = unit.place
        if place is None or not place.has_gradient_of(unit.parameters[0]) or not place.fits(unit.parameters[0]):
            if unit.layout != DENSE and self._start_sparse(unit):
                return
            place = move_in(unit, self._places, self._origins, self._without, is_fresh=False)
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
        self._drive_if_all()

    def _start_all(self, units: List[Unit]) -> None:
        """Starts several: those that lie in their places by one call."""
        elsewhere = units
        if self._origins is None:
            elsewhere, status, failed = _flights.submit_places(units, self._placed)
            if status != _OK:
                place = failed[0].place
                assert place is not None
                self._submit_again(failed[0], place, status)
                elsewhere = [*elsewhere, *failed[1:]]
        for unit in _flights.start_on_devices(elsewhere, self._how, self._without, self._origins, self._flights):
            self._start(unit)
        self._drive_if_all()

    def _drive_if_all(self) -> None:
        if len(self._placed) == len(self._units):
            # The last one. Others may wait for this rank's share only, and autograd takes a while to wind up before it waits.
            drive(self._tickets(), len(self._placed))

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

    def _start_sparse(self, unit: Unit) -> bool:
        """Whether the gradient goes as a sparse tensor: it is then under way, or held back until ``synchronize()``."""
        parameter = unit.parameters[0]
        if unit.layout == UNKNOWN:
            is_sparse = parameter.grad is not None and parameter.grad.is_sparse
            self._holds_back = self._holds_back or is_sparse
            return is_sparse
        if parameter.grad is None and not parameter.requires_grad:
            self._without.add(parameter)
        self._flights[unit] = _flights.start_sparse(unit, self._how, self._group)
        return True

    def _start_private(self, unit: Unit) -> None:
        if unit.place is not None and not unit.place.is_free():  # frees the name
            unit.place.slot.settle()
        self._flights[unit] = _flights.start_private(unit, self._how, self._without, self._origins)

    def synchronize(self) -> None:
        """Starts what no hook has started, waits for all, and leaves the results in ``p.grad``.

        If one fails, none is waited for any more and the error is raised; the gradients are then of no use.
        """
        if self._is_in_forked_child:
            raise ForkedError("a forked child of a rank is none: it cannot average gradients with the others", _abi.FORKED)
        self._follow_set()
        if self._has_lost_a_pass and not self.touched:
            what = "an optimizer with the same names was made between this one's backward() and step()"
            raise InvalidArgumentError(f"'{self.name}': {what}: give them named_parameters= with other names", 1)
        self._has_lost_a_pass = False
        self._watch()
        self._enter_job()
        if self._is_to_leave:
            self._leave_generation()
        for number in list(self._ready):
            self._end_pass(number)  # one that an error has ended
        lacking = without_gradient(self._members)
        taken = _passes.taken_away(lacking, self._lacking, self._round)
        try:
            if self._is_left and self._units:
                self._enter_generation()
            self._start_rest(is_first=True)
            if self._units and not self._summary.is_sent:
                self._say(lacking)
            left_out_here = self._wait(lacking, taken)
            _flights.take_from_places(self._placed)
            if self._flights:
                _flights.land(self._flights, self._how.compression)
            if self._origins is not None:
                self._origins.restore()
            for parameter in left_out_here:
                parameter.grad = None
            self._placed, self._flights = {}, {}
            self._without.clear()
        except BaseException:
            _flights.ask_to_cancel(self._flights, self._placed, self._origins)  # who comes later must not meet it
            self._give_up_generation()
            raise
        self.restart()
        _generations.set_steps(self.name, _generations.steps_made(self.name) + 1)
        self._has_loaded = self._summary.is_sent = False
        if self._next_generation > self._generation:
            self._begin(self._next_generation)
        elif self._leaves_behind:
            self._leave_generation()  # the other one could not tell, as this one's summary had its name

    def _say(self, lacking: List[Member]) -> None:
        """Tells the other ranks how this one stands (see ``_step_summary``). ``lacking``: what has no gradient."""
        needed = sum([unit.number for unit in self._units if unit.is_needed])
        has_unused, steps, origins = _passes.is_any_reduced(lacking), _generations.steps_made(self.name), self._origins
        are_open = self._layouts_are_open and _layouts.are_open(self._units) if origins is None else origins.are_open()
        self._summary.send(self._name_of("step"), needed, are_open, has_unused, steps, self._has_loaded)

    def _agree_on_layouts(self) -> None:
        """On all ranks, as some of them do not know all."""
        units = self._by_name()
        if self._origins is None:
            self._layouts_are_open = _layouts.settle(units, self._name_of("layouts"))
            return
        self._origins.agree([parameter for unit in units for parameter in unit.parameters], self._name_of("layouts"))
        for unit in [*self._placed, *self._flights]:
            self._origins.exchange_rows(unit)

    def _wait(self, lacking: List[Member], taken: Set[torch.nn.Parameter]) -> Set[torch.nn.Parameter]:
        """Until all that has a place is reduced, and the other ranks have said how they stand. Returns what is left out.
        ``lacking``: what had no gradient before the rest was started; ``taken``: of these, what the program took away."""
        if not self._units:
            return set()
        said, is_done = self._wait_for_summary()
        while said.is_dropped:
            self._follow(lacking)
            said, is_done = self._wait_for_summary()
        if said.are_apart:
            raise _generations.apart(self.name, said.steps)
        _generations.set_steps(self.name, said.steps)  # where all have loaded a state, they may have made fewer
        has_new_units, self._has_new_units = self._has_new_units, False  # on all ranks, perhaps after they have said so
        if said.is_uneven or has_new_units:
            vote_on_needed(self._by_name(), partial(self.reduced, is_in_step=True))
        if said.are_layouts_open or has_new_units:
            self._agree_on_layouts()
        begun = len(self._placed)
        self._start_rest()
        if not is_done or len(self._placed) > begun:
            wait_for(self._tickets(self._summary.slot), self._slots)
        if not said.has_unused:
            return taken  # on all ranks, which had all gradients
        parameters = [parameter for unit in self._by_name() for parameter in unit.parameters]
        return left_out(parameters, self._without, taken, partial(self.reduced, is_in_step=True))

    def _wait_for_summary(self) -> Tuple[Said, bool]:
        """And for the gradients, unless they wait for this rank. Returns what all have said, and whether all begun is done."""
        # Waiting does this rank's share of the work, and others may need only that: what can be done afterwards is.
        tickets = self._tickets(self._summary.slot)
        return self._summary.wait_beside(partial(wait_for, tickets, self._slots, self._has_more_to_do))

    def _slots(self) -> List[Slot]:
        return [*(place.slot for place in self._placed.values()), self._summary.slot]

    def _has_more_to_do(self) -> bool:
        """Asked while this rank waits for others, which may wait for something that it has not begun."""
        said = self._summary.said() if self._summary.slot.done() else None
        return said is not None and (said.is_dropped or said.is_uneven or said.are_layouts_open or self._has_new_units)

    def _follow(self, lacking: List[Member]) -> None:
        """Another rank has dropped a backward pass. What this rank has begun ends, and begins anew under the names of a
        generation that all ranks enter now."""
        is_unused = _flights.cancel(self._flights, self._placed, self._origins)
        if self._origins is not None:
            is_unused = self._origins.take_back() and is_unused
        if not is_unused:
            raise _generations.added_to_dropped(self.name)
        _flights.give_up(self._flights.values(), self._placed)
        self._placed, self._flights = {}, {}
        self._is_left = True
        _generations.leave(self.name, self._unit_names())
        self._enter_generation()
        self._start_rest(is_first=True)
        self._say([*lacking, *(member for member in self._members if member.parameter in self._without)])

    def _tickets(self, last: Optional[Slot] = None) -> "Array[c_void_p]":
        return self._kept_tickets.of(self._placed, len(self._placed) == len(self._units), self._places.generation, last)

    def _by_name(self) -> List[Unit]:
        """The units in an order that is the same on all ranks, whatever that of their parameters is."""
        return sorted(self._units, key=lambda unit: str(unit.first_name))
