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
    "module": re.compile(
        r"This module\b|These functions\b|`\w+` (is|knows|keeps|takes|gives|decides|finds|opens|does)\b"
    ),
    "class": re.compile(r"(Is|Holds|Says|Tells|Knows|Keeps|Gives|Starts|Stands for)\b"),
    "function": re.compile(r"(Tells?|Has|Is|Holds|Hears|Returns|Says|Gives|Calls|Keeps|Raises)\b"),
}
#: What it must not have anywhere. "There is no model" and "is no longer" are English.
WORDS = re.compile(r"\banew\b|(?<![Tt]here )\bis no (?!longer\b)|\b[Ww]hoever\b|\bwhat came of\b")

#: Words of the old dialect that no name of ours has.
WORDS_OF_NAMES = {"said", "told", "asked", "anew", "alike", "heard"}
#: The names that stay as they are: `asked` is a column of saved recordings, and a field of the extension's protocol.
STAYING = {"asked"}


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


def name_findings(source: str, path: str) -> Iterator[str]:
    """Yield `file:line: name` for each function, class, argument and variable that has a word of the old dialect."""
    for node in ast.walk(ast.parse(source)):
        name = ""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = node.name
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
        if words & WORDS_OF_NAMES and name not in STAYING:
            yield f"{path}:{node.lineno}: {name}"


def test_names_of_the_package_are_plain_english() -> None:
    files = sorted((ROOT / "tritonlab").rglob("*.py"))
    found = [line for file in files for line in name_findings(file.read_text(), str(file.relative_to(ROOT)))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def f(told): ...", "told"),
        ("class AskedAgain: ...", "AskedAgain"),
        ("_SAID = 1", "_SAID"),
        ("def _anew(): ...", "_anew"),
        ("self.heard_at = 1", "heard_at"),
    ],
)
def test_a_name_of_the_old_dialect_is_found(source: str, name: str) -> None:
    assert list(name_findings(source, "a.py")) == [f"a.py:1: {name}"]


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
        '"""`Queue` keeps requests."""',
        'class A:\n    """Keeps requests."""',
        'def f():\n    """Gives back a block."""',
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
