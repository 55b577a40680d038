"""The lines below `At:` of an error that was raised again: those at which its frames ended (rule 2.5.2)."""

from __future__ import annotations

import re
import textwrap

import pytest

from .clients import Client
from .models import SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, eventually, script

MODELS = {"again": model(SCRIPTED, config(*TENSORS))}

#: The source of `call`, and where Triton says that it raised.
SHAPES = {
    "in the same function": (
        """
        def call():
            try:
                int("x")
            except Exception as error:
                raise error
        """,
        ["6: call"],
    ),
    "by a bare raise": (
        """
        def call():
            try:
                int("x")
            except Exception:
                print("sorry")
                raise
        """,
        ["7: call"],
    ),
    "by the caller": (
        """
        def inner():
            int("x")

        def call():
            try:
                inner()
            except Exception as error:
                raise error
        """,
        ["3: inner", "9: call"],
    ),
    "by both": (
        """
        def inner():
            try:
                int("x")
            except Exception as error:
                raise error

        def call():
            try:
                inner()
            except Exception as error:
                raise error
        """,
        ["6: inner", "12: call"],
    ),
    "by another function": (
        """
        def again(error):
            raise error

        def call():
            try:
                int("x")
            except Exception as error:
                again(error)
        """,
        ["9: call"],
    ),
    "as another error": (
        """
        def call():
            try:
                try:
                    int("x")
                except Exception as error:
                    raise RuntimeError("why") from error
            except RuntimeError as error:
                raise error
        """,
        ["9: call"],
    ),
    "after the except clause": (
        """
        def call():
            for attempt in range(3):
                try:
                    int("x" * attempt)
                except Exception as error:
                    last = error
            raise last
        """,
        ["8: call"],
    ),
    "over several lines": (
        """
        def call():
            try:
                int(
                    "x"
                )
            except ValueError as error:
                raise (
                    error
                )
        """,
        ["8: call"],
    ),
    "without its traceback": (
        """
        def call():
            try:
                int("x")
            except Exception as error:
                raise error.with_traceback(None)
        """,
        ["6: call"],
    ),
    "by a finally clause": (
        """
        def call():
            try:
                int("x")
            finally:
                a = 1
                b = 2
        """,
        ["7: call"],
    ),
    "by a with statement": (
        """
        from contextlib import suppress

        def call():
            with suppress(KeyError):
                int("x")
        """,
        ["6: call"],
    ),
    "in each of its own calls": (
        """
        def call(n=1):
            try:
                if n == 0:
                    int("x")
                call(n - 1)
            except Exception as error:
                raise error
        """,
        ["8: call", "8: call"],
    ),
    "in a generator": (
        """
        def numbers():
            yield 1
            try:
                int("x")
            except Exception as error:
                raise error

        def call():
            list(numbers())
        """,
        ["7: numbers"],
    ),
    "where no lines are known": (
        """
        def call():
            try:
                int("x")
            except Exception as error:
                raise error

        call.__code__ = call.__code__.replace(co_linetable=b"")
        """,
        ["-1: call"],
    ),
}
AGAIN = """
class TritonPythonModel:
    def initialize(self, args):
        fails("start")

    def execute(self, requests):
        return []

    def finalize(self):
        fails("end")


def fails(when):
    if when in FAILS:
        try:
            int("x")
        except Exception as error:
            raise error
"""


def frames_in(text: str, file: str) -> list[str]:
    """Return the lines and functions of the file that an error names."""
    return [f"{line}: {name}" for line, name in re.findall(rf"{file}\((-?\d+)\): (\w+)$", text, re.MULTILINE)]


@rule("2.5.2")
@pytest.mark.parametrize("name", SHAPES)
def test_the_line_at_which_each_frame_ended_is_reported(client: Client, name: str) -> None:
    source, frames = SHAPES[name]
    body = f"exec(compile({textwrap.dedent(source)!r}, 'shape.py', 'exec'), globals())\ncall()\n"
    assert frames_in(client.infer("again", script(body)).error, "shape.py") == frames


@rule("2.4.2", "2.5.2")
def test_the_line_in_initialize(side: Client) -> None:
    assert side.placed("again_first", model("FAILS = ['start']" + AGAIN, config(*TENSORS))) is not None
    (entry,) = (entry for entry in side.index() if entry["name"] == "again_first")
    assert frames_in(entry["reason"], "again_first/1/model.py") == ["18: fails", "4: initialize"]


@rule("2.5.2", "2.8.2")
def test_the_line_in_finalize(side: Client) -> None:
    assert side.placed("again_last", model("FAILS = ['end']" + AGAIN, config(*TENSORS))) is None
    side.unload("again_last")
    # Triton's log has the text as a JSON string
    last = eventually(lambda: frames_in(side.log().replace("\\n", "\n"), "again_last/1/model.py"))
    assert last == ["18: fails", "10: finalize"]
