"""Names of calls in a compiled program: the program, and which of its calls this is.

Ranks meet by name, and XLA makes independent calls in another order on every rank and run. So each call of a compiled program
needs a name of its own, which is the same on every rank. While JAX traces there is none to be had: JAX traces a helper with
its own ``jit``, a body of ``scan`` or a function under ``checkpoint`` once and keeps it, for other programs too, and a rank
with a batch of another size traces some of them anew and finds others. What is the same on every rank is the program that
comes of it. So calls get their numbers there, in its order, when JAX has written it and before XLA reads it.

JAX writes what it has traced once as one function, however often it is called. Here each call gets a copy with names of its
own: XLA would write them out one by one as well, and what is called twice may be under way at once.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import threading
from typing import Any, Dict, List, Optional, Set

import jax
import numpy as np

from ronde.jax import _effect, _endings, _order, _pairs, _scope
from ronde.jax._order import WHOLE

#: An attribute of calls whose name is not whole yet: their trace, and that of the call whose gradient they are (_pairs.py). It
#: is taken away with the number.
_UNNUMBERED = "unnumbered"

#: Whether JAX takes the gradients of a program's calls in one order, whatever a rank computes beside (tried with 0.4.38, 0.6.2 to 0.10.2).
_IN_ONE_ORDER = jax.__version_info__ >= (0, 6)


def unnumbered(trace: int, gradient_of: int) -> Dict[str, Any]:
    """What a call without a name says of itself, beside what all say."""
    return {_UNNUMBERED: np.array((trace, gradient_of), np.int64)}


class _Writing:
    """A program that JAX writes now."""

    has_calls = False  # that are to be numbered
    program: Optional[_endings.Program] = None  # one with other calls


class _Written(threading.local):
    """The programs that JAX writes now in this thread, the innermost last."""

    def __init__(self) -> None:
        self.now: List[_Writing] = []
        self.ever = 0


_written = _Written()


@functools.lru_cache(maxsize=None)
def install() -> None:
    """Has JAX show each program that it has written. JAX has no public way: without this one nothing is shown, which
    :func:`programs_shown` tells."""
    try:
        from jax._src.interpreters import mlir

        write = mlir.lower_jaxpr_to_module
    except (ImportError, AttributeError):
        return

    @functools.wraps(write)
    def write_and_number(module_name: str, jaxpr: Any, *arguments: Any, **options: Any) -> Any:
        _written.ever += 1
        _written.now.append(_Writing())
        try:
            result = write(module_name, jaxpr, *arguments, **options)
        finally:
            writing = _written.now.pop()
        label = _label(module_name, jaxpr)
        if writing.program is not None or writing.has_calls:
            _effect.refuse_where_unseen(jaxpr, label)
        if writing.program is not None:
            _endings.mark(result, writing.program)
        if writing.has_calls:
            _scope.refuse_devices(_devices_of(result.module), label)
            _scope.refuse_export(getattr(options.get("lowering_parameters"), "for_export", False), label)
            _endings.mark(result, _Numbering(result.module, label).run())
        return result

    mlir.lower_jaxpr_to_module = write_and_number


def programs_shown() -> int:
    """How many programs JAX has shown in this thread."""
    return _written.ever


def expect_call() -> bool:
    """Has the program that JAX writes now looked through for calls. False: it is not shown, so its calls get no names."""
    if not _written.now:
        return False
    _written.now[-1].has_calls = True
    return True


def expect_program(program: _endings.Program) -> None:
    """The program that JAX writes now is to be this one, if JAX shows what it writes."""
    if _written.now:
        _written.now[-1].program = program


def _devices_of(module: Any) -> int:
    """How many devices run the program, each its own part of it."""
    attributes = module.operation.attributes
    counts = [attributes[count].value for count in ("mhlo.num_partitions", "mhlo.num_replicas") if count in attributes]
    return math.prod(counts)


def _label(module_name: str, jaxpr: Any) -> str:
    """``step@train.py:12``: without the folder, which may be another on other hosts."""
    source = getattr(getattr(getattr(jaxpr, "jaxpr", None), "debug_info", None), "func_src_info", None)
    return re.sub(r" at (?:.*[/\\])?", "@", str(source or module_name)).replace(" ", "_")


class _Numbering:
    """Of the calls of one program."""

    def __init__(self, module: Any, label: str) -> None:
        self._module = module
        self._label = label
        self._functions: Dict[str, Any] = {}
        for function in module.body.operations:
            if function.operation.name == "func.func":
                self._functions[function.attributes["sym_name"].value] = function
        self._holds: Dict[str, bool] = {}
        self._visited: Dict[str, bool] = {}
        self._names: Dict[int, List[str]] = {}  # of all calls, by group
        self._given: Set[int] = set()  # groups in which calls have names that the caller has given
        self._given_names: Set[str] = set()
        self._all: Dict[int, int] = {}  # unnamed calls without a pair, by group
        self._calls: Dict[int, int] = {}  # those of them that have their names
        self._pairs: Dict[int, _pairs.Pair] = {}  # of calls without names, by their place in the program
        self._made: Dict[int, str] = {}  # names, by place
        self._uses: Dict[Any, int] = {}
        self._copies = 0
        self._certain: Set[int] = set()  # groups of which a call stands in no branch or loop that may leave it out,
        self._is_known = True  # and none in what may be done once more or less
        self._in_order: List[Any] = []

    def run(self) -> _endings.ProgramOfLibrary:
        with self._module.context:
            # The first is where the program begins. Others may be reached by ways that are not known here.
            for number, (name, function) in enumerate(list(self._functions.items())):
                if not self._visited.get(name) and self._has_calls(name):
                    self._is_known &= number == 0
                    self._visit(name, function, number == 0)
            # After all copies are made: they are copies of what JAX has written.
            self._find_pairs()
            for place in range(len(self._in_order)):
                self._count(place)
            for place in range(len(self._in_order)):
                self._give_name(place)
            written = self._written()
            for operation in self._in_order:
                _say(operation, written)
            program = f"{self._label} {sorted(self._calls)} {sorted(self._uses)}"
            order = _order.Order(self._module, self._functions, program, self._in_order[0])
            if len(self._in_order) > 1 or self._is_nested(self._in_order[0]):
                order.run(list(self._visited))
        return written

    def _visit(self, name: str, function: Any, is_certain: bool) -> None:
        """``is_certain``: each execution comes to the function."""
        self._visited[name] = True
        for operation in _of_interest(function):
            around = _operations_around(operation, function)
            comes_here = is_certain and all(map(_runs_once, around))
            self._is_known &= _order.PASSES_THROUGH.issuperset(each.name for each in around)
            if operation.name == "stablehlo.custom_call":
                self._in_order.append(operation)
                if comes_here:
                    self._certain.add(_said(operation)["group"].value)
                continue
            called = operation.attributes["callee"].value
            if not self._has_calls(called):
                continue
            inner = self._functions[called]
            if self._visited.get(called):
                called, inner = self._copy(called, operation)
            self._visit(called, inner, comes_here)

    def _copy(self, name: str, call: Any) -> Any:
        """Another function with this one's body for the call."""
        from jax.extend.mlir import ir

        while True:
            self._copies += 1
            new_name = f"{name}_call_{self._copies}"
            if new_name not in self._functions:
                break
        with ir.InsertionPoint(self._module.body):
            copied = self._functions[name].operation.clone()
        copied.attributes["sym_name"] = ir.StringAttr.get(new_name)
        call.attributes["callee"] = ir.FlatSymbolRefAttr.get(new_name)
        self._functions[new_name] = copied
        self._holds[new_name] = True
        return new_name, copied

    def _is_nested(self, operation: Any) -> bool:
        """Whether the call is not one of the program itself, so that it may be made several times."""
        begin = next(iter(self._functions.values())).operation
        return bool(operation.parent != begin)

    def _has_calls(self, name: str) -> bool:
        """Whether the function has calls of ours, or others that it calls have."""
        known = self._holds.get(name)
        if known is None:
            self._holds[name] = False  # should it call itself
            known = name in self._functions and any(
                operation.name == "stablehlo.custom_call" or self._has_calls(operation.attributes["callee"].value)
                for operation in _of_interest(self._functions[name])
            )
            self._holds[name] = known
        return known

    def _find_pairs(self) -> None:
        """Of gradients without names, within each group: a rank makes no calls of the groups that it is not in."""
        places: Dict[int, List[int]] = {}
        for place, operation in enumerate(self._in_order):
            said = _said(operation)
            if _UNNUMBERED in said:
                places.setdefault(said["group"].value, []).append(place)
        for own in places.values():
            found = _pairs.pairs([_call(_said(self._in_order[place])) for place in own], _IN_ONE_ORDER)
            for place, pair in found.items():
                self._pairs[own[place]] = pair._replace(of=own[pair.of])

    def _count(self, place: int) -> None:
        said = _said(self._in_order[place])
        group = said["group"].value
        if _UNNUMBERED not in said:
            self._given.add(group)
        elif place not in self._pairs:
            self._all[group] = self._all.get(group, 0) + 1

    def _give_name(self, place: int) -> str:
        """With a number behind it, and of how many: where one rank's program has a call less than another's, its calls must not
        meet those that stand one further on."""
        from jax.extend.mlir import ir

        if place in self._made:
            return self._made[place]
        operation = self._in_order[place]
        said = _said(operation)
        group: int = said["group"].value
        name: str = said["name"].value
        pair = self._pairs.get(place)
        if said.pop(_UNNUMBERED, None) is None:
            # The program may have a call with a name several times, of one layer's function that is called for each.
            number = self._uses.get((group, name), 0)
            self._uses[group, name] = number + 1
            name = f"{name}~{number}" if number else name
            self._given_names.add(f"{group} {name}")
        elif pair is None:
            number = self._calls.get(group, 0)
            self._calls[group] = number + 1
            name = f"{name}.{self._label}.{number}/{self._all[group]}"
        else:
            counted = f" of {_number_of(pair.counted):x}" if pair.counted else ""
            name = f"{name} {self._give_name(pair.of)}" + (f" {pair.number}" if pair.number else "") + counted
        self._made[place] = name
        self._names.setdefault(group, []).append(name)
        said["name"] = ir.StringAttr.get(name)
        operation.attributes["mhlo.backend_config"] = ir.DictAttr.get(said)
        return name

    def _written(self) -> _endings.ProgramOfLibrary:
        """The program as bindings/jax/executions.h has it. Its number comes of the function's name and those of its calls in
        the group, and is the same on all ranks that make these."""
        places: List[int] = []
        for group, names in sorted(self._names.items()):
            program = _number_of("\n".join([self._label, *sorted(names)]))
            always_calls = group in self._certain and self._is_known
            places += [group, 0 if group in self._given else program, program, int(always_calls)]
        return _endings.ProgramOfLibrary(places, list(map(_number_of, sorted(self._given_names))))


def _number_of(text: str) -> int:
    """Another one for each text, positive, and so that its negative is none's either."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 2


def _call(said: Dict[str, Any]) -> _pairs.Call:
    """Of a call without a name, what it says of itself."""
    trace, gradient_of = map(int, said[_UNNUMBERED])
    return _pairs.Call(trace, gradient_of, (said["name"].value, said["op"].value))


def _said(operation: Any) -> Dict[str, Any]:
    """What a call of ours says of itself."""
    return {each.name: each.attr for each in operation.attributes["mhlo.backend_config"]}


def _say(operation: Any, program: _endings.ProgramOfLibrary) -> None:
    """Has a call of ours say where its program makes calls."""
    from jax.extend.mlir import ir

    more = {
        "places": ir.DenseElementsAttr.get(np.array(program.places, np.int64)),
        # One 0 in front: there are no empty arrays here.
        "given": ir.DenseElementsAttr.get(np.array([0, *program.given], np.int64)),
    }
    operation.attributes["mhlo.backend_config"] = ir.DictAttr.get({**_said(operation), **more})


def _operations_around(operation: Any, function: Any) -> List[Any]:
    """Those in whose regions it stands within the function."""
    found: List[Any] = []
    parent = operation.parent
    while parent != function.operation:
        found.append(parent)
        parent = parent.parent
    return found


def _runs_once(operation: Any) -> bool:
    """Whether it is a loop whose body runs at least once, as that of ``scan`` over one step or more."""
    from jax.extend.mlir import ir

    def constant(value: Any) -> Any:
        if getattr(value.owner, "name", "") != "stablehlo.constant" or not re.fullmatch(r"tensor<u?i\d+>", str(value.type)):
            return None
        return int(ir.DenseIntElementsAttr(value.owner.attributes["value"])[0])

    if operation.name != "stablehlo.while":
        return False
    condition = operation.regions[0].blocks[0]
    compared = condition.operations[len(condition.operations) - 1].operation.operands[0].owner
    if getattr(compared, "name", "") != "stablehlo.compare" or "LT" not in str(compared.attributes["comparison_direction"]):
        return False
    counter, end = compared.operands
    firsts = [constant(first) for first, each in zip(operation.operands, condition.arguments) if each == counter]
    last = constant(end)
    return last is not None and len(firsts) == 1 and firsts[0] is not None and bool(firsts[0] < last)


def _of_interest(function: Any) -> List[Any]:
    """The operations in a function that are calls of ours, or call another function, in the program's order."""
    from jax.extend.mlir import ir

    found: List[Any] = []

    def look(operation: Any) -> Any:
        if operation.name == "func.call" or (
            operation.name == "stablehlo.custom_call" and operation.attributes["call_target_name"].value == WHOLE
        ):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    function.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    return found
