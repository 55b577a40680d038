"""Plain English: a docstring is a noun phrase for a module or class, an imperative or "Return ..." for a function, and
a name says what the thing is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What a docstring must not begin with, by the kind of what it describes. That of a test may state a fact.
OPENINGS = {
    "module": re.compile(
        r"(This|These) (module|functions|tests|fixtures|program|plugin|pytest plugin)\b|Tests (for|of|that)\b"
        r"|`\w+` (is|knows|keeps|takes|gives|decides|finds|opens|does|stands)\b"
    ),
    "class": re.compile(r"(Is|Has|Holds|Says|Tells|Knows|Keeps|Gives|Starts|Stands|Runs|Carries|Forwards)\b"),
    "function": re.compile(
        r"(Tells?|Has|Is|Does|Holds|Hears|Returns|Yields|Says|Gives|Calls|Keeps|Raises|Runs|Starts|Stops|Ends|Waits|Sends"
        r"|Opens|Closes|Writes|Reads|Makes|Takes|Lets|Leaves|Kills|Puts|Sets|Gets|Adds|Loads|Fills|Fails|Fires|Executes"
        r"|Replaces|Handles|Measures|Presses|Types|Asks|Finds|Shows|Checks|Skips|Brings|Begins|Serves|Creates)\b"
    ),
    "test": re.compile(r"(?!)"),
}
#: What it must not have anywhere. "There is no model" and "is no longer" are English.
WORDS = re.compile(r"\banew\b|(?<![Tt]here )\bis no (?!longer\b)|\b[Ww]hoever\b|\bwhat came of\b")

#: Words of the old dialect that no name of ours has, by folder.
WORDS_OF_NAMES = {"tritonlab": {"said", "told", "asked", "anew", "alike", "heard"}}
WORDS_OF_NAMES["tests"] = WORDS_OF_NAMES["tritonlab"] | {"ask", "shown", "given"}
WORDS_OF_NAMES["notebooks"] = WORDS_OF_NAMES["tests"]
#: The name of the package that stays as it is: a column of saved recordings, and a field of the extension's protocol.
STAYING = "asked"


def findings(source: str, path: str, folder: str = "tests") -> Iterator[str]:
    """Yield `file:line: text` for each docstring, and `file:line: name` for each name, that is not in plain English."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = " ".join((ast.get_docstring(node) or "").split())
            if found := OPENINGS[_kind(node)].match(text) or WORDS.search(text):
                begin = max(found.start() - 30, 0)
                yield f"{path}:{node.body[0].lineno}: {text[begin : found.end() + 50]}"
        if not (name := _name(node)):
            continue
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
        stays = name == STAYING and (folder == "tritonlab" or isinstance(node, ast.Attribute))
        if words & WORDS_OF_NAMES[folder] and not stays:
            yield f"{path}:{getattr(node, 'lineno', 0)}: {name}"


def _kind(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.Module):
        return "module"
    if isinstance(node, ast.ClassDef):
        return "class"
    return "test" if node.name.startswith("test_") else "function"


def _name(node: ast.AST) -> str:
    """Return the name that the node gives to a function, class, argument, variable, attribute or import, or ""."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr
    if isinstance(node, ast.alias):
        return node.asname or ""
    return (node.name or "") if isinstance(node, ast.ExceptHandler) else ""


@pytest.mark.parametrize(("folder", "least"), [("tritonlab", 350), ("tests", 350), ("notebooks", 2)])
def test_docstrings_and_names_are_in_plain_english(folder: str, least: int) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert len(files) >= least
    found = [line for file in files for line in findings(file.read_text(), str(file.relative_to(ROOT)), folder)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def f(told): ...", "told"),
        ("class AskedAgain: ...", "AskedAgain"),
        ("_SAID = 1", "_SAID"),
        ("def _anew(): ...", "_anew"),
        ("self.heard_at = 1", "heard_at"),
        ("def test_it_is_shown(): ...", "test_it_is_shown"),
        ("from a import send as ask", "ask"),
        ("try: ...\nexcept OSError as given_up: ...", "given_up"),
    ],
)
def test_a_name_of_the_old_dialect_is_found(source: str, name: str) -> None:
    assert list(findings(source, "a.py")) == [f"a.py:{source.count(chr(10)) + 1}: {name}"]


@pytest.mark.parametrize(
    "source",
    [
        '"""This module reads pictures."""',
        '"""These tests read pictures."""',
        '"""Tests for pictures."""',
        'class A:\n    """Is a queue."""',
        'class A:\n    """Holds requests."""',
        'def f():\n    """Tells whether it ended."""',
        'async def f():\n    """Has it called."""',
        'def f():\n    """Is called by the timer."""',
        'def f():\n    """Returns the batch."""',
        'def f():\n    """Waits until it ended."""',
        '"""`Queue` keeps requests."""',
        'class A:\n    """Keeps requests."""',
        'def f():\n    """Gives back a block."""',
        'def f():\n    """Write it\n    anew."""',
        'def f():\n    """Return None if it is no picture."""',
        'def test_f():\n    """It is no picture."""',
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
        'def test_f():\n    """Raises what its stub raised."""',
        "def f():\n    pass",
        "from hypothesis import given",
        "a.said",
        "self.asked = 1",
    ],
)
def test_plain_english_passes(source: str) -> None:
    assert not list(findings(source, "a.py"))
