"""A saved model whose optimizer goes on as a distributed one, whichever Keras has saved it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence

from ronde._keras.variables import rebuild_if_empty


def load_distributed(
    load: Callable[..., Any],
    distribute: Callable[[Any], Any],
    filepath: Any,
    custom_optimizers: Optional[Sequence[Any]],
    custom_objects: Optional[Dict[str, Any]],
) -> Any:
    """The model that ``load(filepath, custom_objects=...)`` gives, its optimizer made distributed by ``distribute``, which works on
    the optimizer itself. ``custom_optimizers``: classes, known by their names. Raises what these two do."""
    known = {each.__name__: each for each in custom_optimizers or ()}
    model = load(filepath, custom_objects={**known, **(custom_objects or {})})
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        rebuild_if_empty(optimizer, model)
        distribute(optimizer)
    return model
