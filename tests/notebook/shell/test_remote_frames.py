from __future__ import annotations

import linecache
import traceback

import pytest

from tritonlab.core.status import Frame, RemoteException
from tritonlab.notebook.shell.remote_frames import as_exception

SOURCE = "def execute():\n    inner()\ndef inner():\n    raise Custom('no')\n"


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "<m>", (len(SOURCE), None, SOURCE.splitlines(keepends=True), "<m>"))


def test_it_prints_as_python_would_have_printed_it() -> None:
    cause = RemoteException("KeyError", "'k'", frames=(Frame("<m>", 4, "inner"),))
    remote = RemoteException(
        "pkg.Custom",
        "no",
        frames=(Frame("<m>", 2, "execute"), Frame("<m>", 4, "inner")),
        cause=cause,
        notes=("a note",),
    )
    assert "".join(traceback.format_exception(as_exception(remote))) == (
        "Traceback (most recent call last):\n"
        '  File "<m>", line 4, in inner\n'
        "    raise Custom('no')\n"
        "KeyError: 'k'\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "<m>", line 2, in execute\n'
        "    inner()\n"
        '  File "<m>", line 4, in inner\n'
        "    raise Custom('no')\n"
        "pkg.Custom: no\n"
        "a note\n"
    )


def test_context_and_cause_are_distinguished() -> None:
    inner = RemoteException("KeyError", "'k'")
    assert as_exception(RemoteException("E", "", cause=inner, is_context=True)).__cause__ is None
    assert as_exception(RemoteException("E", "", cause=inner)).__cause__ is not None


def test_a_syntax_error_is_one() -> None:
    detail = {"msg": "bad", "filename": "<m>", "lineno": 2, "offset": 5, "text": "    inner()\n"}
    error = as_exception(RemoteException("IndentationError", "bad (m, line 2)", detail=detail))
    assert isinstance(error, IndentationError)
    assert (error.filename, error.lineno, error.offset) == ("<m>", 2, 5)


def test_a_line_far_down_and_a_line_of_zero_are_possible() -> None:
    for line in (100_000, 0):
        assert as_exception(RemoteException("E", "", frames=(Frame("<m>", line, "f"),))).__traceback__ is not None


def test_a_recursion_has_few_frames() -> None:
    turn = (Frame("<m>", 2, "execute"), Frame("<m>", 4, "inner"))
    error = as_exception(RemoteException("RecursionError", "too deep", frames=(Frame("<m>", 1, "first"), *turn * 400)))
    frames = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    assert frames == [("first", 1), *[("execute", 2), ("inner", 4)] * 3]
    assert error.__notes__ == ["794 more frames repeat those above"]
    few = as_exception(RemoteException("E", "", frames=turn * 3, notes=("a note",)))
    assert len(traceback.extract_tb(few.__traceback__)) == 6
    assert few.__notes__ == ["a note"]
