"""Each call of a compiled program as two of XLA's, a start and an end, and the order of the starts.

XLA lets two operations share memory where one ends before the other begins in its schedule, so a call that waits for other
ranks could wait, before it has even begun, for the end of a call that it does not depend on; and on a rank whose program XLA
schedules otherwise, the other way round. So a call's start only hands its request in, and waits for nobody. It takes a
token, a small array, from the start before and gives one to the next: requests are handed in in the program's order, in
which the calls are numbered too. What a start waits for, by data or by memory, are then ends of calls before it only, and
no ranks wait for each other in a circle (docs/decisions/0022, which has the proof).

The token runs through functions, loops and branches as one more argument and result.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence

import numpy as np

#: The functions that XLA calls.
START, END = "ronde_jax_start", "ronde_jax_end"

_TOKEN_BYTES = 24  # as in bindings/jax/calls.h


class Order:
    """Splits and orders the calls of a module."""

    def __init__(self, module: Any, functions: Dict[str, Any], target: str) -> None:
        from jax.extend.mlir import ir

        self._ir = ir
        self._module = module
        self._functions = functions
        self._target = target
        self._holds: Dict[str, bool] = {}
        self._split: Dict[str, bool] = {}
        with module.operation.location:
            self._token_type = ir.RankedTensorType.get([_TOKEN_BYTES], ir.IntegerType.get_unsigned(8))

    def run(self, names: Sequence[str]) -> None:
        """In these functions, of which each begins an order of its own unless one before calls it. In the module's context."""
        for name in names:
            if not self._split.get(name):
                self._split[name] = True
                with self._functions[name].operation.location:
                    self._chain_block(self._entry(name), self._zeros(self._entry(name)))

    def _entry(self, name: str) -> Any:
        return self._functions[name].operation.regions[0].blocks[0]

    def _zeros(self, block: Any) -> Any:
        """What the first start gets."""
        ir = self._ir
        zeros = ir.DenseElementsAttr.get_splat(self._token_type, ir.IntegerAttr.get(self._token_type.element_type, 0))
        point = ir.InsertionPoint.at_block_begin(block)
        return ir.Operation.create(
            "stablehlo.constant", results=[self._token_type], attributes={"value": zeros}, ip=point
        ).results[0]

    def _chain_block(self, block: Any, token: Any) -> Any:
        """The token after all that the block does."""
        for operation in [each.operation for each in block.operations]:
            if self._has_calls(operation):
                with operation.location:
                    token = self._chain(operation, token)
        return token

    def _chain(self, operation: Any, token: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            return self._split_call(operation, token)
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
                self._chain_block(block, self._zeros(block))
        return token

    def _has_calls(self, operation: Any) -> bool:
        if operation.name == "stablehlo.custom_call":
            return bool(operation.attributes["call_target_name"].value == self._target)
        if operation.name == "func.call":
            name = operation.attributes["callee"].value
            if name not in self._holds:
                self._holds[name] = False  # should it call itself
                self._holds[name] = name in self._functions and self._any(self._functions[name].operation)
            return self._holds[name]
        return self._any(operation)

    def _any(self, operation: Any) -> bool:
        return any(
            self._has_calls(each.operation)
            for region in operation.regions for block in region.blocks for each in block.operations
        )

    def _split_call(self, call: Any, token: Any) -> Any:
        ir = self._ir
        said = call.attributes
        layout = ir.DenseIntElementsAttr.get(np.zeros(1, np.int64), type=ir.IndexType.get())
        empty = ir.ArrayAttr.get([])
        same = {name: said[name] for name in ("has_side_effect", "api_version", "backend_config") if name in said}
        point = ir.InsertionPoint(call)
        start = ir.Operation.create(
            "stablehlo.custom_call",
            results=[self._token_type],
            operands=[*call.operands, token],
            attributes={
                **same,
                "call_target_name": ir.StringAttr.get(START),
                "mhlo.backend_config": said["mhlo.backend_config"],
                "operand_layouts": ir.ArrayAttr.get([*said["operand_layouts"], layout]),
                "result_layouts": ir.ArrayAttr.get([layout]),
            },
            ip=point,
        )
        end = ir.Operation.create(
            "stablehlo.custom_call",
            results=[result.type for result in call.results],
            operands=[start.results[0]],
            attributes={
                **same,
                "call_target_name": ir.StringAttr.get(END),
                "mhlo.backend_config": ir.DictAttr.get({}),
                "operand_layouts": ir.ArrayAttr.get([layout]),
                "result_layouts": said["result_layouts"] if "result_layouts" in said else empty,
            },
            ip=point,
        )
        _replace(call, end)
        return start.results[0]

    def _pass_into(self, call: Any, token: Any) -> Any:
        """Through the function that is called here, and nowhere else: there is a copy of it for each call."""
        ir = self._ir
        name = call.attributes["callee"].value
        function = self._functions[name].operation
        if self._split.get(name):
            raise NotImplementedError(f"JAX has written function '{name}', which makes calls of Ronde, so that it calls itself")
        self._split[name] = True
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


def _attributes(operation: Any) -> Dict[str, Any]:
    names = [getattr(each, "name", each) for each in operation.attributes]  # JAX from 0.10 on gives the names alone
    return {name: operation.attributes[name] for name in names}


def _replace(operation: Any, made: Any) -> None:
    for result, new in zip(operation.results, made.results):
        result.replace_all_uses_with(new)
    operation.erase()
