"""Keeps AutoGraph, which rewrites the Python code of functions under ``tf.function``, out of Ronde's own code, and keeps
Ronde's errors what they are on their way out of rewritten functions."""

from __future__ import annotations

from typing import Any, Iterator, Type

from ronde.exceptions import RondeError


def _errors(of: Type[RondeError]) -> Iterator[Type[RondeError]]:
    yield of
    for each in of.__subclasses__():
        yield from _errors(each)


def keep_out() -> None:
    """Tells AutoGraph. Where a version of TensorFlow keeps its rules elsewhere, functions are traced more slowly and
    errors while tracing come in AutoGraph's own class, no more."""
    try:
        from tensorflow.python.autograph.core import config
        from tensorflow.python.autograph.pyct import error_utils

        rules = tuple(config.DoNotConvert(package) for package in ("ronde", "horovod"))
        config.CONVERSION_RULES = (*rules, *config.CONVERSION_RULES)
        known: Any = error_utils.KNOWN_STRING_CONSTRUCTOR_ERRORS
        error_utils.KNOWN_STRING_CONSTRUCTOR_ERRORS = (*known, *_errors(RondeError))
    except (ImportError, AttributeError):
        return
