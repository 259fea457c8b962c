"""The reference is made of docstrings (tools/docs): each public name has one that says what it takes and raises."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from typing import Any, Iterator, List, Set

import pdoc.doc
import pytest

MODULES = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools/docs"))["MODULES"]
OURS = ("ronde", "horovod")
#: ``:func:`allreduce```: what is said there holds here too.
REFERENCE = re.compile(r":(?:func|meth|class|mod):`([\w.]+)`")


def documented(scope: pdoc.doc.Namespace[Any]) -> Iterator[pdoc.doc.Doc[Any]]:
    """All that the reference has of a module or class, without what others' classes bring along."""
    for member in scope.members.values():
        if isinstance(member, pdoc.doc.Module) or member.taken_from[0].split(".")[0] not in OURS:
            continue
        yield member
        if isinstance(member, pdoc.doc.Class):
            yield from documented(member)


def target_of(reference: str, doc: pdoc.doc.Doc[Any]) -> Any:
    """The object that a reference in a docstring means: of the same class, of the module, or by its whole path."""
    module, path = doc.taken_from
    owner = ".".join([module, *path.split(".")[:-1]])
    for candidate in (f"{owner}.{reference}", f"{module}.{reference}", reference):
        names = candidate.split(".")
        for cut in range(len(names), 0, -1):
            try:
                found: Any = importlib.import_module(".".join(names[:cut]))
                for name in names[cut:]:
                    found = getattr(found, name)
                return found
            except (ImportError, AttributeError):
                continue
    raise AssertionError(f"{doc.fullname}: the docstring refers to '{reference}', which is not there")


def text_of(doc: pdoc.doc.Doc[Any]) -> str:
    """The docstring, and those of the functions and classes that it refers to."""
    texts: List[str] = []
    seen: Set[str] = set()
    open_texts = [doc.docstring]
    while open_texts:
        text = open_texts.pop()
        texts.append(text)
        for reference in REFERENCE.findall(text):
            target = target_of(reference, doc)
            if reference not in seen:
                seen.add(reference)
                open_texts.append(target.__doc__ or "")
    return "\n".join(texts)


def parameters_of(doc: pdoc.doc.Doc[Any]) -> List[str]:
    if isinstance(doc, pdoc.doc.Class):
        doc = doc.members.get("__init__", doc)
    if not isinstance(doc, pdoc.doc.Function):
        return []
    if doc.taken_from[0].split(".")[0] not in OURS:
        return []
    return [name for name in doc.signature.parameters if name not in ("self", "cls", "args")]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_says_what_it_takes_and_raises(module):
    reference = pdoc.doc.Module(importlib.import_module(module))
    assert reference.docstring, module
    assert getattr(reference.obj, "__all__", None), f"{module} says in no __all__ what is public"
    lacking = []
    for doc in documented(reference):
        text = text_of(doc)
        if not doc.docstring.strip():
            lacking.append(f"{doc.fullname}: no docstring")
            continue
        lacking += [f"{doc.fullname}: not a word about {name}" for name in parameters_of(doc)
                    if not re.search(rf"\b{name}\b", text)]
        if isinstance(doc, pdoc.doc.Function) and doc.name != "__init__" and not re.search(r"\braises?\b", text, re.I):
            lacking.append(f"{doc.fullname}: not a word about what it raises")
    assert not lacking, "\n".join(lacking)
