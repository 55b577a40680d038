from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tritonlab.core.status import RemoteException
from tritonlab.engine.execution.response_factory import failure_of as model_error
from tritonlab.stub._pb_stub.process import author_error
from tritonlab.stub._pb_stub.process.author_error import (
    failure_of,
    log_text,
    place_of,
    to_wire,
    traceback_text,
    triton_text,
)
from tritonlab.stub._pb_stub.wire.message_bodies import Failure
from tritonlab.stub._pb_stub.wire.serialization import MAX_TEXT


def raised_by(source: str, file: str = "/repo/m/1/model.py", through: str = "call()") -> BaseException:
    """Return what `call()` of the source raises, called as the stub calls a model: from a frame of ours, whose line is
    `through`.
    """
    scope: dict[str, Any] = {"__name__": "1.model"}
    exec(compile(textwrap.dedent(source), file, "exec"), scope)
    ours: dict[str, Any] = dict(scope)
    path = str(Path(author_error.__file__).with_name("model_context.py"))
    exec(compile(f"def run():\n    {through}\n", path, "exec"), ours)
    try:
        ours["run"]()
    except BaseException as error:
        trace = BaseException.__dict__["__traceback__"].__get__(error)
        return BaseException.with_traceback(error, trace.tb_next)
    raise AssertionError("nothing was raised")


def test_tritons_text() -> None:  # rule 2.5.2: innermost frame first, no source lines
    error = raised_by(
        """
        def inner():
            raise ValueError("boom")

        def call():
            inner()
        """
    )
    assert (
        triton_text(error) == "ValueError: boom\n\nAt:\n  /repo/m/1/model.py(3): inner\n  /repo/m/1/model.py(6): call\n"
    )


def test_a_frame_that_raises_again_has_the_line_of_that() -> None:  # rule 2.5.2
    error = raised_by(
        """
        def call():
            try:
                int("x")
            except ValueError as error:
                raise error
        """
    )
    assert triton_text(error).endswith("\n\nAt:\n  /repo/m/1/model.py(6): call\n")


def test_code_without_lines_has_line_minus_one() -> None:
    error = raised_by("def call():\n    int('x')\n\ncall.__code__ = call.__code__.replace(co_linetable=b'')")
    assert triton_text(error).endswith("At:\n  /repo/m/1/model.py(-1): call\n")


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),  # rule 2.5.5
        ("raise KeyboardInterrupt", "KeyboardInterrupt: <EMPTY MESSAGE>"),
        ("raise KeyError('k')", "KeyError: 'k'"),
        ("raise type('Mine', (Exception,), {})('m')", "Mine: m"),
        ("class Bad(Exception):\n        __str__ = lambda self: 1 / 0\n    raise Bad", "Bad: <MESSAGE UNAVAILABLE"),
        ("import json; json.loads('{')", "JSONDecodeError: Expecting property name"),
    ],
)
def test_types_are_named_without_their_module(statement: str, text: str) -> None:
    assert triton_text(raised_by(f"def call():\n    {statement}")).startswith(text)


def test_half_a_surrogate_pair_is_spelled_out() -> None:
    """No protocol carries it; in 2.51 it ends the stub (rule 2.5.2)."""
    text = triton_text(raised_by("def call():\n    raise ValueError('a\\udc80b')"))
    assert text.startswith("ValueError: a\\udc80b\n\nAt:\n")
    text.encode()


UNAVAILABLE = "<MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>"


def test_why_a_text_is_unavailable_comes_after_the_frames() -> None:
    """Rule 2.5.2."""
    text = triton_text(
        raised_by(
            """
            class Bad(Exception):
                def __str__(self):
                    1 / 0

            def call():
                raise Bad
            """
        )
    )
    assert text == (
        f"Bad: {UNAVAILABLE}\n\nAt:\n  /repo/m/1/model.py(7): call\n\nMESSAGE UNAVAILABLE DUE TO EXCEPTION: "
        "ZeroDivisionError: division by zero\n\nAt:\n  /repo/m/1/model.py(4): __str__\n"
    )


def test_texts_that_raise_one_another_end() -> None:
    text = triton_text(
        raised_by(
            """
            class Bad(Exception):
                def __str__(self):
                    raise Bad

            def call():
                raise Bad
            """
        )
    )
    assert text.count(UNAVAILABLE) == 5


def test_an_exception_that_was_never_raised_has_no_frames() -> None:
    assert triton_text(ValueError("x")) == "ValueError: x"
    assert to_wire(ValueError("x"))["frames"] == []


def wire_of(source: str) -> dict[str, Any]:
    wire = to_wire(raised_by(source))
    assert json.loads(json.dumps(wire)) == wire  # it must cross as JSON
    return wire


def test_frames_are_the_authors_outermost_first() -> None:
    wire = wire_of("def inner():\n    raise ValueError('boom')\n\ndef call():\n    inner()\n")
    assert wire["type"] == "ValueError"
    assert wire["text"] == "boom"
    assert wire["frames"] == [["/repo/m/1/model.py", 5, "call"], ["/repo/m/1/model.py", 2, "inner"]]


def test_a_directory_that_only_begins_like_ours_is_the_authors() -> None:
    file = author_error.STUB_DIRECTORY + "born_model/1/model.py"
    error = raised_by("def call():\n    raise ValueError('boom')\n", file)
    assert to_wire(error)["frames"] == [[file, 2, "call"]]
    assert file in triton_text(error)


def test_frames_through_which_we_called_the_author_are_left_out() -> None:
    """As those of the future of an `async def execute`; what the author has called stays."""
    source = "import json\nfrom concurrent.futures import Future, ThreadPoolExecutor\n\n"
    error = raised_by(
        source + "def call():\n    json.loads('{')\n", through="ThreadPoolExecutor(1).submit(call).result()"
    )
    frames = to_wire(error)["frames"]
    assert frames[0] == ["/repo/m/1/model.py", 5, "call"]
    assert frames[1][0].endswith("/json/__init__.py")
    assert "concurrent/futures" not in traceback_text(error)


def test_an_error_without_frames_of_the_author_has_those_of_the_library() -> None:
    source = "from concurrent.futures import Future\ncall = Future()\ncall.cancel()\n"
    assert [frame[2] for frame in to_wire(raised_by(source, through="call.result()"))["frames"]] == ["result"]


def test_types_are_qualified_for_the_author() -> None:
    assert wire_of("import json\ndef call():\n    json.loads('{')")["type"] == "json.decoder.JSONDecodeError"


def test_a_cause_is_distinguished_from_a_context() -> None:
    cause = wire_of("def call():\n    try: 1 / 0\n    except Exception as e: raise ValueError('b') from e")
    assert (cause["cause"]["type"], cause["is_context"]) == ("ZeroDivisionError", False)
    context = wire_of("def call():\n    try: 1 / 0\n    except Exception: raise ValueError('b')")
    assert (context["cause"]["type"], context["is_context"]) == ("ZeroDivisionError", True)
    neither = wire_of("def call():\n    try: 1 / 0\n    except Exception: raise ValueError('b') from None")
    assert neither["cause"] is None


def test_causes_in_a_circle_and_endless_chains_end() -> None:
    wire_of(
        "def call():\n    a, b = ValueError('a'), ValueError('b')\n    a.__cause__, b.__cause__ = b, a\n    raise a"
    )
    wire = wire_of(
        """
        def call():
            error = ValueError("0")
            for number in range(1000):
                next = ValueError(str(number))
                next.__cause__ = error
                error = next
            raise error
        """
    )
    depth = 0
    while wire is not None:
        wire, depth = wire["cause"], depth + 1
    assert depth == 16


def test_deep_recursion_crosses() -> None:
    wire = wire_of("def call():\n    call()")
    assert wire["type"] == "RecursionError"
    assert len(wire["frames"]) > 100


def test_a_syntax_error_carries_its_place() -> None:
    wire = wire_of("def call():\n    compile('x = = 1', 'helper.py', 'exec')")
    detail = wire["detail"]
    assert (detail["filename"], detail["lineno"], detail["text"].strip()) == ("helper.py", 1, "x = = 1")
    assert detail["offset"] == 5


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with Python 3.11")
def test_notes_cross() -> None:
    assert wire_of("def call():\n    e = ValueError('x')\n    e.add_note('hint')\n    raise e")["notes"] == ["hint"]


@pytest.mark.parametrize(
    "spoil",
    [
        "e.__notes__ = 5",
        "e = SyntaxError('s'); e.lineno = object(); e.text = b'bytes'",
        "e = type('Odd', (Exception,), {'__module__': None})('x')",
        "e = type('Odd', (Exception,), {'__str__': lambda self: 5})('x')",
        "e = type('Odd', (Exception,), {'__str__': lambda self: exit()})('x')",
        "e = ValueError('\\ud800')",
        "e = type('Odd', (Exception,), {'__getattribute__': lambda self, name: 1 / 0})('x')",
    ],
)
def test_an_odd_exception_never_raises_another(spoil: str) -> None:
    """Whatever the author made of it: an error while reporting an error would take the stub with it."""
    error = raised_by(f"def call():\n    e = ValueError('x')\n    {spoil}\n    raise e")
    outcome = Failure(*json.loads(json.dumps(failure_of(error))))
    assert outcome.code == 1
    failure = model_error(outcome)
    assert failure.exception is None or isinstance(failure.exception, RemoteException)


def test_an_outcome_may_have_a_text_of_its_own() -> None:
    outcome = failure_of(ValueError("x"), "Failed to process")
    assert outcome.exception is not None
    assert (outcome.text, outcome.code, outcome.exception["type"]) == ("Failed to process", 1, "ValueError")


# -- the log


CHAINED = "def call():\n    try: 1 / 0\n    except Exception as e: raise ValueError('b') from e"


def test_the_log_says_what_the_client_reads_and_no_more_where_that_is_all() -> None:  # rule 3.5.4
    assert log_text(raised_by("def call():\n    raise ValueError('b')"), "told") == "told"
    assert log_text(raised_by(CHAINED.replace("from e", "from None")), "told") == "told"


def test_the_log_says_causes_notes_and_groups() -> None:
    text = log_text(raised_by(CHAINED), "told")
    first, _, second = text.partition("\nThe above exception was the direct cause of the following exception:\n")
    assert first.startswith('told\nTraceback (most recent call last):\n  File "/repo/m/1/model.py", line 2, in call\n')
    assert first.endswith("ZeroDivisionError: division by zero\n")
    assert second.endswith("ValueError: b\n")
    assert "model_context.py" not in text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups and notes came with Python 3.11")
def test_the_log_says_notes_and_the_exceptions_of_a_group() -> None:
    noted = "def call():\n    e = ValueError('x')\n    e.add_note('hint')\n    raise e"
    assert "hint" in log_text(raised_by(noted), "")
    group = "def call():\n    raise ExceptionGroup('all', [ValueError('one'), KeyError('two')])"
    text = log_text(raised_by(group), "told")
    assert "ValueError: one" in text
    assert "KeyError: 'two'" in text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_the_first_exceptions_of_a_group_cross() -> None:
    members = "[ExceptionGroup('some', [KeyError(1)]), *map(ValueError, range(9))]"
    wire = to_wire(raised_by(f"def call():\n    raise ExceptionGroup('all', {members})"))
    assert [member["text"] for member in wire["exceptions"]] == ["some (1 sub-exception)", *map(str, range(6))]
    assert [member["type"] for member in wire["exceptions"][0]["exceptions"]] == ["KeyError"]
    big = f"def call():\n    raise ExceptionGroup('all', [ValueError('x' * {BIG})] * 1000)"
    assert size_of(failure_of(raised_by(big))) < 9 * MAX_TEXT


def test_an_exception_is_placed_in_the_models_own_file() -> None:
    error = raised_by("import json\ndef call():\n    json.loads('{')")
    assert place_of(error, "/repo/m/1/model.py") == ("/repo/m/1/model.py", 3)
    file, _ = place_of(error, "/another.py")
    assert file.endswith("json/decoder.py")
    assert place_of(ValueError("never raised"), "/repo/m/1/model.py") == ("/repo/m/1/model.py", 0)


# -- bounds


BIG = 30 << 20
MARK = f" … [{BIG - MAX_TEXT} characters left out]"


def size_of(outcome: Any) -> int:
    return len(json.dumps(outcome, ensure_ascii=False))


@pytest.mark.parametrize(
    "statement",
    [
        f"raise ValueError('x' * {BIG})",
        f"raise KeyError('x' * {BIG}, 1)",
        f"raise SyntaxError('x' * {BIG}, ('f', 1, 1, 'y' * {BIG}))",
        f"raise type('Odd', (Exception,), {{'__str__': lambda self: 'x' * {BIG}}})",
        f"raise ValueError('a') from ValueError('x' * {BIG})",
        f"e = ValueError('a'); e.__notes__ = ['x' * {BIG}] * 3; raise e",
        f"e = ValueError('a'); e.__notes__ = ['x'] * {BIG >> 2}; raise e",
    ],
)
def test_what_crosses_of_an_exception_is_bounded(statement: str) -> None:  # rule 3.5.5
    error = raised_by(f"def call():\n    {statement}")
    outcome = failure_of(error)
    assert size_of(outcome) < 9 * MAX_TEXT
    assert len(traceback_text(error)) < MAX_TEXT + 100
    assert len(log_text(error, "told")) < MAX_TEXT + 100


def test_a_text_above_the_bound_is_cut_and_marked() -> None:
    text = triton_text(raised_by(f"def call():\n    raise ValueError('x' * {BIG})"))
    assert text == f"ValueError: {'x' * MAX_TEXT}{MARK}\n\nAt:\n  /repo/m/1/model.py(2): call\n"


def test_a_text_of_the_bounds_size_is_whole() -> None:
    text = triton_text(ValueError("x" * MAX_TEXT))
    assert text == "ValueError: " + "x" * MAX_TEXT


def test_frames_without_end_are_bounded() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        error = raised_by("def call(n=9000):\n    call(n - 1) if n else 1 / 0")
    finally:
        sys.setrecursionlimit(before)
    assert triton_text(error).count("model.py") == len(to_wire(error)["frames"]) == 4096
