"""Docstrings in plain English: a noun phrase for a module or class, an imperative or "Return ..." for a function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What a docstring must not begin with, by the kind of what it describes.
OPENINGS = {
    "module": re.compile(r"This module\b|These functions\b"),
    "class": re.compile(r"(Is|Holds|Says|Tells|Knows|Stands for)\b"),
    "function": re.compile(r"(Tells?|Has|Is|Holds|Hears|Returns|Says)\b"),
}
#: What it must not have anywhere. "There is no model" and "is no longer" are English.
WORDS = re.compile(r"\banew\b|(?<![Tt]here )\bis no (?!longer\b)|\b[Ww]hoever\b|\bwhat came of\b")


def findings(source: str, path: str) -> Iterator[str]:
    """Yield `file:line: text` for each docstring that is not in plain English."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module):
            kind = "module"
        elif isinstance(node, ast.ClassDef):
            kind = "class"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            kind = "function"
        else:
            continue
        text = " ".join((ast.get_docstring(node) or "").split())
        if found := OPENINGS[kind].match(text) or WORDS.search(text):
            begin = max(found.start() - 30, 0)
            yield f"{path}:{node.body[0].lineno}: {text[begin : found.end() + 50]}"


def test_the_package_is_in_plain_english() -> None:
    files = sorted((ROOT / "tritonlab").rglob("*.py"))
    assert len(files) > 350
    found = [line for file in files for line in findings(file.read_text(), str(file.relative_to(ROOT)))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        '"""This module reads pictures."""',
        'class A:\n    """Is a queue."""',
        'class A:\n    """Holds requests."""',
        'def f():\n    """Tells whether it ended."""',
        'async def f():\n    """Has it called."""',
        'def f():\n    """Is called by the timer."""',
        'def f():\n    """Returns the batch."""',
        'def f():\n    """Write it\n    anew."""',
        'def f():\n    """Return None if it is no picture."""',
    ],
)
def test_the_old_dialect_is_found(source: str) -> None:
    line = source.count("\n", 0, source.index('"""')) + 1
    (found,) = findings(source, "a.py")
    assert found.startswith(f"a.py:{line}: ")


@pytest.mark.parametrize(
    "source",
    [
        '"""The queue of one model, by priority."""',
        'class A:\n    """A request that is no longer in the queue."""',
        'def f():\n    """Return the batch; None where there is no request."""',
        'def f():\n    """Whether it has ended."""',
        "def f():\n    pass",
    ],
)
def test_plain_english_passes(source: str) -> None:
    assert not list(findings(source, "a.py"))
