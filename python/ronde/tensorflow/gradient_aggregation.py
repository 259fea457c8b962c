"""Gradients added up over several backward passes, so that the ranks reduce and step once for all of them."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import tensorflow as tf

from ronde.exceptions import InvalidArgumentError
from ronde.tensorflow._gradients import ref_of
from ronde.tensorflow.process_sets import ProcessSet, global_process_set

__all__ = ["LocalGradientAggregationHelper", "LocalGradientAggregationHelperEager"]


class LocalGradientAggregationHelper:
    """Adds gradients up in variables of its own, and has them reduced with every ``backward_passes_per_step``-th pass.

    Args:
        backward_passes_per_step: after how many passes; 1 or more.
        allreduce_func: takes a list of gradients and a list of variables and returns the reduced gradients.
        sparse_as_dense: accepted for compatibility: what is added up is dense.
        average_aggregated_gradients: whether the sum is divided by ``backward_passes_per_step``.
        rank: this process's; accepted for compatibility, as are ``optimizer_type``, ``process_set`` and
            ``scale_local_gradients``.
        name: of the variables.

    Works in eager mode, in ``tf.function`` and in graphs of ``tf.compat.v1``. Raises ValueError for fewer than one pass.
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[List[Any], List[Any]], List[Any]],
        sparse_as_dense: bool = False,
        average_aggregated_gradients: bool = False,
        rank: int = 0,
        optimizer_type: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        del sparse_as_dense, rank, optimizer_type, process_set, scale_local_gradients
        if backward_passes_per_step < 1:
            raise InvalidArgumentError(f"backward_passes_per_step is {backward_passes_per_step}; expected 1 or more", 1)
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self._allreduce = allreduce_func
        self._name = name or "aggregation"
        self._counter: Any = None
        self._sums: dict[Any, Any] = {}
        self._passes: Any = None  # those that there were with the last call of compute_gradients
        self._in_step: set[Any] = set()  # in eager mode: the variables that have had a gradient in this step

    def _make_variables(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        with tf.init_scope():
            if self._counter is None:
                self._counter = self._variable(tf.zeros([], tf.int32), "counter")
            for number, (gradient, variable) in enumerate(zip(gradients, variables)):
                if gradient is not None and ref_of(variable) not in self._sums:
                    zeros = tf.zeros(variable.shape, gradient.dtype)
                    self._sums[ref_of(variable)] = self._variable(zeros, f"gradient_{number}")

    def _variable(self, initial_value: Any, name: str) -> Any:
        return tf.Variable(initial_value, trainable=False, name=f"{self._name}/{name}")

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> List[Any]:
        """Adds the gradients ``grads`` of the variables ``vars``. Returns the reduced sums with the last pass of a step, and
        what has been added up so far before it, which :meth:`apply_gradients` does not apply. None is returned where it was
        given; in eager mode only where the variable has had no gradient in this step's earlier passes either. Raises what
        ``allreduce_func`` does."""
        gradients = [tf.convert_to_tensor(each) if isinstance(each, tf.IndexedSlices) else each for each in grads]
        variables = list(vars)
        self._make_variables(gradients, variables)
        places = self._places(gradients, variables)
        sums = [self._sums[ref_of(variables[place])] for place in places]
        added = [total.assign_add(gradients[place]) for total, place in zip(sums, places) if gradients[place] is not None]
        with tf.control_dependencies(added):
            passes = tf.identity(self._counter.assign_add(1))
        self._passes = passes
        with tf.control_dependencies([passes]):
            totals = [total.read_value() for total in sums]

        def reduce() -> List[Any]:
            try:
                reduced = self._allreduce(list(totals), [variables[place] for place in places])
            except Exception:
                if tf.executing_eagerly():  # what comes next is another step
                    self._clear(sums)
                raise
            if self.average_aggregated_gradients:
                reduced = [each / tf.cast(self.backward_passes_per_step, each.dtype) for each in reduced]
            with tf.control_dependencies(reduced):
                cleared = self._clear(sums)
            with tf.control_dependencies(cleared):
                return [tf.identity(each) for each in reduced]

        results = list(gradients)
        chosen = self._if_last(passes, reduce, lambda: [tf.identity(each) for each in totals])
        for place, result in zip(places, chosen):
            results[place] = result
        return results

    def _clear(self, sums: Sequence[Any]) -> List[Any]:
        if tf.executing_eagerly():
            self._in_step.clear()
        return [total.assign(tf.zeros_like(total)) for total in sums]

    def _places(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[int]:
        """Those of the variables with something to be reduced in this step: in eager mode what an earlier pass has added up
        counts though this pass has no gradient for it. A graph is the same each time, so it knows this pass alone."""
        if not tf.executing_eagerly():
            return [place for place, each in enumerate(gradients) if each is not None]
        refs = [ref_of(each) for each in variables]
        self._in_step.update(ref for ref, each in zip(refs, gradients) if each is not None)
        return [place for place, ref in enumerate(refs) if ref in self._in_step]

    def _if_last(self, passes: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        is_last = tf.equal(passes % self.backward_passes_per_step, 0)
        if tf.executing_eagerly():
            return then() if bool(is_last) else otherwise()
        return tf.cond(is_last, then, otherwise)

    def apply_gradients(
        self, apply_grads_closure: Callable[[], Any], optimizer: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls ``apply_grads_closure`` after the last pass of a step; after the others it only counts the step of the
        ``optimizer``, if that counts. ``args`` and ``kwargs`` are accepted for compatibility. Raises what the closure does.
        """
        del args, kwargs
        passes = self._passes

        def apply() -> Any:
            result = apply_grads_closure()
            with tf.control_dependencies([] if result is None or tf.executing_eagerly() else [result]):
                return tf.constant(True)

        def count() -> Any:
            iterations = getattr(optimizer, "iterations", None)
            counted = [] if iterations is None else [iterations.assign_add(1)]
            with tf.control_dependencies(counted if not tf.executing_eagerly() else []):
                return tf.constant(False)

        result = self._if_last(passes, apply, count)
        return result if tf.executing_eagerly() or tf.inside_function() else result.op


class LocalGradientAggregationHelperEager(LocalGradientAggregationHelper):
    """The same under the name that Horovod has for eager mode. Arguments, and what it raises, as there."""


def helper_of(
    passes: int, reduce: Callable[[List[Any], List[Any]], List[Any]], average: bool, name: str
) -> Optional[LocalGradientAggregationHelper]:
    """None for a step with every pass."""
    if passes == 1:
        return None
    return LocalGradientAggregationHelper(passes, reduce, average_aggregated_gradients=average, name=name)
