"""The order of a compiled program's calls, in which one waits for those before it only.

XLA lets two operations share memory where one ends before the other begins in its schedule, so a call that waits for other
ranks could wait, before it has even begun, for the end of a call that it does not depend on; and on a rank whose program XLA
schedules otherwise, the other way round. So each call takes a token, a small array, from the one before it and gives one to
the next: requests are handed in in the program's order, in which the calls are numbered too. A call of small arrays becomes
two of XLA's: a start, which hands the request in, waits for nobody and gives the token on, and an end, which brings the
results. A call of large arrays stays one, on the program's own memory, and gives the token on when it has ended. What a call
waits for before it begins, by data, by memory or by the token, are then ends of calls before it only, and no ranks wait for
each other in a circle (docs/decisions/0025, which has the proof).

The token runs through functions, loops and branches as one more argument and result. What is done last gives it back, so that
it is known of an execution that it has made its calls; and the first one says which program it is. A program whose one call
stands in no function, loop or branch of its own has no token.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any, Dict, List, Sequence

import numpy as np

#: The functions that XLA calls: for a whole call, for its two parts, before calls that hand no token on, and when all calls of
#: an execution have begun.
WHOLE, START, END = "ronde_jax_collective", "ronde_jax_start", "ronde_jax_end"
BEGIN, DONE = "ronde_jax_begin", "ronde_jax_done"

TARGETS = (WHOLE, START, END, BEGIN, DONE)

#: A call of more bytes stays one: its start and end would copy them, twice.
_MOST_BYTES = 1 << 20

#: Operations with regions through which the token goes, in one order.
PASSES_THROUGH = frozenset(("stablehlo.while", "stablehlo.case", "stablehlo.if"))

_TOKEN_BYTES = 24  # as in bindings/jax/call.h


class Order:
    """Orders the calls of a module."""

    def __init__(self, module: Any, functions: Dict[str, Any], program: str, a_call: Any) -> None:
        """``program``: of a program that makes other calls another one, on this rank. ``a_call``: any of its calls."""
        from jax.extend.mlir import ir

        self._ir = ir
        self._module = module
        self._functions = functions
        self._program = program
        self._begun = 0  # orders of the program
        self._with_calls: Dict[str, bool] = {}  # functions, by name
        self._ordered: Dict[str, bool] = {}
        said = a_call.attributes
        # What all calls of ours say alike, as this JAX says it.
        self._same = {name: said[name] for name in ("has_side_effect", "api_version", "backend_config") if name in said}
        with module.operation.location:
            self._token_type = ir.RankedTensorType.get([_TOKEN_BYTES], ir.IntegerType.get_unsigned(8))

    def run(self, names: Sequence[str]) -> None:
        """In these functions, of which each begins an order of its own unless one before calls it. In the module's context."""
        for name in names:
            if not self._ordered.get(name):
                self._ordered[name] = True
                with self._functions[name].operation.location:
                    self._order_block(self._entry(name))

    def _entry(self, name: str) -> Any:
        return self._functions[name].operation.regions[0].blocks[0]

    def _order_block(self, block: Any) -> None:
        """Gives it an order of its own, if it has calls."""
        if not any(self._has_calls(each.operation) for each in block.operations):
            return
        ir = self._ir
        program = hashlib.blake2b(f"{self._program} {self._begun}".encode(), digest_size=8).digest()
        bytes_ = np.frombuffer(program.rjust(_TOKEN_BYTES, b"\0"), np.uint8)
        token = ir.Operation.create(
            "stablehlo.constant",
            results=[self._token_type],
            attributes={"value": ir.DenseElementsAttr.get(bytes_, type=self._token_type.element_type)},
            ip=ir.InsertionPoint.at_block_begin(block),
        ).results[0]
        self._begun += 1
        token = self._chain_block(block, token)
        last = block.operations[len(block.operations) - 1].operation
        self._call(DONE, [self._token_type], [token], ir.DictAttr.get({}), ir.InsertionPoint(last))

    def _call(self, target: str, results: List[Any], operands: List[Any], arguments: Any, place: Any) -> Any:
        """A call of XLA's, of arrays in the plain layout."""
        layouts = ([self._layout(operand.type) for operand in operands], [self._layout(type_) for type_ in results])
        return self._call_with(target, results, operands, arguments, place, *layouts)

    def _call_with(
        self, target: str, results: List[Any], operands: List[Any], arguments: Any, place: Any, operand_layouts: List[Any],
        result_layouts: List[Any],
    ) -> Any:
        ir = self._ir
        return ir.Operation.create(
            "stablehlo.custom_call",
            results=results,
            operands=operands,
            attributes={
                **self._same,
                "call_target_name": ir.StringAttr.get(target),
                "mhlo.backend_config": arguments,
                "operand_layouts": ir.ArrayAttr.get(operand_layouts),
                "result_layouts": ir.ArrayAttr.get(result_layouts),
            },
            ip=place,
        )

    def _has_calls(self, operation: Any) -> bool:
        """Whether it is a call of ours, or something in it is."""
        if operation.name == "stablehlo.custom_call":
            return bool(operation.attributes["call_target_name"].value == WHOLE)
        if operation.name == "func.call":
            name = operation.attributes["callee"].value
            if name not in self._with_calls:
                self._with_calls[name] = False  # should it call itself
                self._with_calls[name] = name in self._functions and self._has_calls(self._functions[name].operation)
            return self._with_calls[name]
        return any(
            self._has_calls(each.operation)
            for region in operation.regions for block in region.blocks for each in block.operations
        )

    def _chain_block(self, block: Any, token: Any) -> Any:
        """The token after all that the block does."""
        for operation in [each.operation for each in block.operations]:
            if self._has_calls(operation):
                with operation.location:
                    token = self._chain(operation, token)
        return token

    def _chain(self, operation: Any, token: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            return self._order_call(operation, token)
        if operation.name == "func.call":
            return self._pass_into(operation, token)
        if operation.name == "stablehlo.while":
            return self._pass_round(operation, token)
        if operation.name in ("stablehlo.case", "stablehlo.if"):
            for region in operation.regions:
                self._give_back(region.blocks[0], self._chain_block(region.blocks[0], token))
            return self._with_token(operation, operation.operands).results[-1]
        # What is not known, as shard_map's body on one device, has an order of its own.
        for region in operation.regions:
            for block in region.blocks:
                self._order_block(block)
        return token

    def _order_call(self, call: Any, token: Any) -> Any:
        most = max(sum(_bytes_of(value.type) for value in values) for values in (call.operands, call.results))
        return self._split(call, token) if most <= _MOST_BYTES else self._keep(call, token)

    def _split(self, call: Any, token: Any) -> Any:
        ir = self._ir
        said = call.attributes
        layout = self._token_layout()
        before = ir.InsertionPoint(call)
        start = self._call_with(
            START, [self._token_type], [*call.operands, token], said["mhlo.backend_config"], before,
            [*said["operand_layouts"], layout], [layout],
        )
        end = self._call_with(
            END, [result.type for result in call.results], [start.results[0]], ir.DictAttr.get({}), before, [layout],
            self._result_layouts(call),
        )
        _replace(call, end)
        return start.results[0]

    def _keep(self, call: Any, token: Any) -> Any:
        ir = self._ir
        said = call.attributes
        layout = self._token_layout()
        arguments = {each.name: each.attr for each in said["mhlo.backend_config"]}
        arguments["is_ordered"] = ir.IntegerAttr.get(arguments["is_ordered"].type, 1)
        made = self._call_with(
            WHOLE, [*(result.type for result in call.results), self._token_type], [*call.operands, token],
            ir.DictAttr.get(arguments), ir.InsertionPoint(call), [*said["operand_layouts"], layout],
            [*self._result_layouts(call), layout],
        )
        if "output_operand_aliases" in said:
            made.attributes["output_operand_aliases"] = self._aliases(call)
        _replace(call, made)
        return made.results[-1]

    def _aliases(self, call: Any) -> Any:
        """Those of the call, with results that are numbered: one alone has no number."""
        from jax.extend.mlir.dialects import stablehlo

        return self._ir.ArrayAttr.get([
            stablehlo.OutputOperandAlias.get(
                output_tuple_indices=list(each.output_tuple_indices) or [0],
                operand_index=each.operand_index,
                operand_tuple_indices=list(each.operand_tuple_indices),
            )
            for each in map(stablehlo.OutputOperandAlias, call.attributes["output_operand_aliases"])
        ])

    def _token_layout(self) -> Any:
        return self._layout(self._token_type)

    def _layout(self, type_: Any) -> Any:
        """The last dimension's elements lie side by side."""
        dimensions = np.arange(len(type_.shape) - 1, -1, -1, np.int64)
        return self._ir.DenseIntElementsAttr.get(dimensions, type=self._ir.IndexType.get())

    def _result_layouts(self, call: Any) -> List[Any]:
        return list(call.attributes["result_layouts"]) if "result_layouts" in call.attributes else []

    def _pass_into(self, call: Any, token: Any) -> Any:
        """Through the function that is called here, and nowhere else: there is a copy of it for each call."""
        ir = self._ir
        name = call.attributes["callee"].value
        function = self._functions[name].operation
        if self._ordered.get(name):
            raise NotImplementedError(f"JAX has written function '{name}', which makes calls of Ronde, so that it calls itself")
        self._ordered[name] = True
        block = self._entry(name)
        before = block.add_argument(self._token_type, ir.Location.unknown())
        self._give_back(block, self._chain_block(block, before))
        type_ = function.attributes["function_type"].value
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([*type_.inputs, self._token_type], [*type_.results, self._token_type])
        )
        for each in ("arg_attrs", "res_attrs"):
            if each in function.attributes:
                function.attributes[each] = ir.ArrayAttr.get([*function.attributes[each], ir.DictAttr.get({})])
        return self._with_token(call, [*call.operands, token]).results[-1]

    def _pass_round(self, loop: Any, token: Any) -> Any:
        """Through a loop, whose condition and body take turns."""
        condition, body = (region.blocks[0] for region in loop.regions)
        if any(self._has_calls(each.operation) for each in condition.operations):
            # A condition gives nothing back but itself: each time its calls begin from the same token, which says already to
            # which execution they belong.
            place = self._ir.InsertionPoint(loop)
            token = self._call(BEGIN, [self._token_type], [token], self._ir.DictAttr.get({}), place).results[0]
        self._chain_block(condition, condition.add_argument(self._token_type, self._ir.Location.unknown()))
        before = body.add_argument(self._token_type, self._ir.Location.unknown())
        self._give_back(body, self._chain_block(body, before))
        return self._with_token(loop, [*loop.operands, token]).results[-1]

    def _give_back(self, block: Any, token: Any) -> None:
        """Has the block return the token too."""
        last = block.operations[len(block.operations) - 1].operation
        self._ir.Operation.create(
            last.name, operands=[*last.operands, token], attributes=_attributes(last), loc=last.location,
            ip=self._ir.InsertionPoint(last),
        )
        last.erase()

    def _with_token(self, operation: Any, operands: Sequence[Any]) -> Any:
        """The operation with these operands and with the token as one more result, in place of the one there is."""
        made = self._ir.Operation.create(
            operation.name,
            results=[*(result.type for result in operation.results), self._token_type],
            operands=list(operands),
            attributes=_attributes(operation),
            regions=len(operation.regions),
            loc=operation.location,
            ip=self._ir.InsertionPoint(operation),
        )
        for region, new in zip(operation.regions, made.regions):
            region.blocks[0].append_to(new)
        _replace(operation, made)
        return made


def _bytes_of(type_: Any) -> int:
    """Of an array of this type of MLIR's."""
    element = str(type_.element_type)  # as i1, ui8, bf16, f8E4M3FN, complex<f32>
    found = re.search(r"\d+", element)
    bits = max(8, int(found.group()) if found else 64) * (2 if "complex" in element else 1)
    numbers: int = math.prod(type_.shape)
    return numbers * bits // 8


def _attributes(operation: Any) -> Dict[str, Any]:
    names = [getattr(each, "name", each) for each in operation.attributes]  # JAX from 0.10 on gives the names alone
    return {name: operation.attributes[name] for name in names}


def _replace(operation: Any, made: Any) -> None:
    for result, new in zip(operation.results, made.results):
        result.replace_all_uses_with(new)
    operation.erase()
