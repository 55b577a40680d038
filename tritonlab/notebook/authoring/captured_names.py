"""A model.py with what other cells define and it uses written in front of it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...export.preflight.names import undefined_names
from ...export.preflight.subject import SourceFile
from .class_source import Assembler
from .source_map import Segment


def with_captured_names(
    text: str, segments: Sequence[Segment], namespace: Mapping[str, Any], file: str
) -> tuple[str, tuple[Segment, ...]]:
    """Return the text of a model.py with the imports, constants, functions and classes of `namespace` in front that it
    uses and does not define, and where its lines come from.

    They stand after the docstring and the imports from `__future__`. Names that the namespace does not have are left
    as they are. Raises SourceError for a value that a model.py cannot carry.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text, tuple(segments)  # the load says what is wrong
    assembled = Assembler(dict(namespace), str(namespace.get("__name__", "__main__")))
    wanted = [name for name in undefined_names(SourceFile(file, text, tree)) if name in namespace]
    if not wanted:
        return text, tuple(segments)
    for name in wanted:
        assembled.add(name, namespace[name], used_by=file)
    lines = text.splitlines(keepends=True)
    before = _last_line_of_the_beginning(tree)
    if before and not lines[before - 1].endswith("\n"):
        lines[before - 1] += "\n"
    head, captured = assembled.head(before + 1)
    added = head + "\n\n"
    count = added.count("\n")
    moved = [part for each in segments for part in _moved(each, before, count)]
    return "".join([*lines[:before], added, *lines[before:]]), (*captured, *moved)


def _last_line_of_the_beginning(tree: ast.Module) -> int:
    """Return the last line of the docstring and of the imports from `__future__`; 0 if there are none."""
    last = 0
    for number, node in enumerate(tree.body):
        is_docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        last = node.end_lineno or last
    return last


def _moved(segment: Segment, before: int, count: int) -> list[Segment]:
    """Return the parts of a segment before and after `count` lines that are added behind line `before`."""
    parts = []
    if segment.first <= before:
        parts.append(replace(segment, last=min(segment.last, before)))
    if segment.last > before:
        first = max(segment.first, before + 1)
        parts.append(replace(segment, first=first + count, last=segment.last + count, offset=segment.offset - count))
    return parts
