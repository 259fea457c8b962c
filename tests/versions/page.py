#!/usr/bin/env python3
"""Writes the tables of docs/versions.md from matrix.toml: page.py; tests/install/test_versions.py holds both equal."""

from __future__ import annotations

import re
from typing import List

from matrix import FACES, ROOT, Line, load

PAGE = ROOT / "docs/versions.md"
BEGIN, END = "<!-- tables: tests/versions/page.py -->\n", "<!-- end of tables -->\n"


def tables(lines: List[Line]) -> str:
    """One table for each framework, a row for each version."""
    parts = []
    for framework in dict.fromkeys(line.framework for line in lines):
        own = [line for line in lines if line.framework == framework]
        faces = [face for face in FACES if any(face in line.expected for line in own)]
        notes = any(line.reason or line.not_tried for line in own)
        heads = [framework, *(FACES[face].title for face in faces), *(["note"] if notes else [])]
        rows = [heads, ["---"] * len(heads)]
        for line in own:
            cells = [_cell(line, face) for face in faces]
            note = "; ".join(part for part in (line.reason, line.not_tried) if part)
            rows.append([line.version, *cells, *([note] if notes else [])])
        parts.append("".join(f"| {' | '.join(row)} |\n" for row in rows))
    return "\n" + "\n".join(parts) + "\n"


def _cell(line: Line, face: str) -> str:
    expected = line.expected.get(face)
    if expected is None:
        return ""
    said = re.sub(r"^(refused|fails): (.*)$", r'\1: "\2"', expected)
    return f"not tried, would be: {said}" if line.not_tried else said


def written(text: str, lines: List[Line]) -> str:
    """The page's text with these tables. ValueError if it has no place for them."""
    head, begin, rest = text.partition(BEGIN)
    _, end, foot = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no lines {BEGIN!r} and {END!r}")
    return head + BEGIN + tables(lines) + END + foot


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), load()), encoding="utf-8")
