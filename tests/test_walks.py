"""The profile function of a walk counts what it has to."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.walks import Call, Walk

_SOURCE = """
def outer():
    return [inner(n) for n in sorted([2, 1], key=abs)]

def inner(n):
    return n
"""


def test_calls_of_the_package_are_kept_with_their_depth(tmp_path: Path) -> None:
    space: dict[str, object] = {}
    exec(compile(_SOURCE, str(tmp_path / "package" / "a.py"), "exec"), space)
    outer = space["outer"]
    assert callable(outer)
    walk = Walk(tmp_path / "package")
    sys.setprofile(walk)
    try:
        outer()
    finally:
        sys.setprofile(None)
    functions = [call for call in walk.calls if "listcomp" not in call.function]  # Python 3.12 calls none
    assert [(call.file, call.function) for call in functions] == [
        ("a.py", "outer"),
        ("a.py", "inner"),
        ("a.py", "inner"),
    ]
    assert functions[0] == Call(0, "a.py", "outer")
    assert functions[1].depth > 0
    assert walk.modules == 1
    assert walk.total >= len(walk.calls)
    assert str(walk).startswith("a.py  outer\n  a.py")


def test_calls_are_counted_by_caller() -> None:
    walk = Walk()
    walk.calls = [Call(0, "a.py", "f"), *[Call(1, "b.py", "g"), Call(2, "c.py", "h")] * 2, Call(0, "c.py", "h")]
    assert walk.by_caller().splitlines() == [
        "   2  b.py  g  <-  a.py  f",
        "   2  c.py  h  <-  b.py  g",
        "   1  a.py  f  <-  IPython",
        "   1  c.py  h  <-  IPython",
    ]


def test_the_longest_row_of_loads_is_found() -> None:
    walk = Walk()
    walk.calls = [Call(depth, "a.py", name) for depth, name in enumerate(["load", "A._load_all", "begin", "load"])]
    walk.calls += [Call(depth, "a.py", name) for depth, name in enumerate(["load", "reload", "load.<locals>.f"], 1)]
    assert walk.loads == 3
