"""The reference is made of docstrings (tools/docs): each public name has one that says what it takes and raises."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import sys
from pathlib import Path
from typing import Any, Iterator, List, Set, Tuple

import pdoc.doc
import pytest

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools/docs"))
MODULES = TOOL["MODULES"]
OURS = ("ronde", "horovod")
#: ``:func:`allreduce```: what is said there holds here too.
REFERENCE = re.compile(r":(?:func|meth|class|mod):`([\w.]+)`")


def is_own(member: pdoc.doc.Doc[Any], cls: pdoc.doc.Class) -> bool:
    """Whether the class itself defines it, and no base."""
    module, path = cls.taken_from
    return member.taken_from == (module, f"{path}.{member.name}")


def documented(scope: pdoc.doc.Namespace[Any]) -> Iterator[pdoc.doc.Doc[Any]]:
    """All that the reference has of a module or class, without what others' classes bring along."""
    for member in scope.members.values():
        if isinstance(member, pdoc.doc.Module) or member.taken_from[0].split(".")[0] not in OURS:
            continue
        if isinstance(scope, pdoc.doc.Class) and (member.name.startswith("_") or not is_own(member, scope)):
            continue
        yield member
        if isinstance(member, pdoc.doc.Class):
            yield from documented(member)


def target_of(reference: str, module: str, owner: str) -> Any:
    """The object that a reference in a docstring of this class of this module means, or None."""
    for candidate in (f"{module}.{owner}.{reference}", f"{module}.{reference}", reference):
        names = candidate.replace("..", ".").split(".")
        for cut in range(len(names), 0, -1):
            try:
                found: Any = importlib.import_module(".".join(names[:cut]))
                for name in names[cut:]:
                    found = getattr(found, name)
                return found
            except (ImportError, AttributeError):
                continue
    return None


def text_of(doc: pdoc.doc.Doc[Any]) -> str:
    """The docstring, and those of the functions and classes that it refers to."""
    texts: List[str] = []
    seen: Set[int] = set()
    module, path = doc.taken_from
    left: List[Tuple[str, str, str]] = [(doc.docstring, module, path)]
    while left:
        text, module, path = left.pop()
        texts.append(text)
        for reference in REFERENCE.findall(text):
            target = target_of(reference, module, path) or target_of(reference, module, path.rpartition(".")[0])
            assert target is not None, f"{doc.fullname}: its docstring refers to '{reference}', which is not there"
            if id(target) not in seen:
                seen.add(id(target))
                where = target.__name__ if inspect.ismodule(target) else target.__module__
                left.append((inspect.getdoc(target) or "", where, getattr(target, "__qualname__", "")))
    return "\n".join(texts)


def parameters_of(doc: pdoc.doc.Doc[Any]) -> List[str]:
    if isinstance(doc, pdoc.doc.Class):
        made_by = doc.members.get("__init__")
        doc = made_by if made_by is not None and is_own(made_by, doc) else doc
    if not isinstance(doc, pdoc.doc.Function):
        return []
    return [name for name in doc.signature.parameters if name not in ("self", "cls", "args")]


def lacks(doc: pdoc.doc.Doc[Any], scope: pdoc.doc.Namespace[Any]) -> Iterator[str]:
    """What the docstring does not say."""
    text = doc.docstring.strip()
    if isinstance(doc, pdoc.doc.Variable):  # the module or class may say what it holds
        text = text or "".join(re.findall(rf"^.*``{doc.name}``.*$|^ *{doc.name}: .*$", scope.docstring, re.MULTILINE))
    if not text:
        yield "no docstring"
        return
    said = text_of(doc)
    if isinstance(doc, pdoc.doc.Class) and "__init__" in doc.members:
        said += doc.members["__init__"].docstring
    for name in parameters_of(doc):
        if not re.search(rf"\b{name}\b", said):
            yield f"not a word about {name}"
    if isinstance(doc, pdoc.doc.Function) and not re.search(r"\braises?\b", said, re.IGNORECASE):
        yield "not a word about what it raises"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_says_what_it_takes_and_raises(module):
    reference = pdoc.doc.Module(importlib.import_module(module))
    assert reference.docstring, module
    assert getattr(reference.obj, "__all__", None), f"{module} says in no __all__ what is public"
    lacking = []
    for doc in documented(reference):
        scope = reference.get(doc.qualname.rpartition(".")[0]) or reference
        lacking += [f"{doc.fullname}: {what}" for what in lacks(doc, scope)]
    assert not lacking, "\n".join(lacking)


@pytest.mark.long
def test_the_pages_are_made_and_lead_from_one_name_to_the_next(tmp_path):
    assert TOOL["build"](sys.executable, tmp_path) == 0
    assert {str(page.relative_to(tmp_path)) for page in tmp_path.rglob("*.html")} == {
        "index.html", *(f"{module.replace('.', '/')}.html" for module in MODULES)}
    page = (tmp_path / "ronde/torch.html").read_text(encoding="utf-8")
    assert 'id="grouped_allreduce"' in page and 'href="#grouped_allreduce"' in page
    assert "Handle" in page and ":func:" not in page
