"""Blocks that must raise, or warn."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from typing import Iterator, Tuple, Type, Union


@contextmanager
def raises(kind: Union[Type[BaseException], Tuple[Type[BaseException], ...]], text: str) -> Iterator[None]:
    """The block must raise this, with a text in which the pattern is found."""
    try:
        yield
    except kind as error:
        assert re.search(text, str(error)), f"expected {text!r} in: {error}"
        return
    raise AssertionError(f"{kind} was not raised; its text would have had {text!r}")


@contextmanager
def warns(text: str) -> Iterator[None]:
    """The block must warn so."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    said = [str(each.message) for each in caught]
    assert any(re.search(text, each) for each in said), f"expected a warning with {text!r}, found {said}"
