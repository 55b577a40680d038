from __future__ import annotations

import copy
import traceback

import pytest

from tritonlab.core.status import (
    Code,
    EnsembleError,
    Frame,
    InternalError,
    InvalidArgumentError,
    ModelError,
    ModelLoadError,
    NotFoundError,
    RemoteException,
    TritonError,
)


@pytest.mark.parametrize("code", list(Code))
def test_one_class_per_code(code: Code) -> None:
    error = TritonError.from_code(code, "text")
    assert (error.code, error.message, str(error)) == (code, "text", "text")
    assert type(error).__bases__ == (TritonError,)


def test_codes_are_those_of_the_python_backend() -> None:
    """Rule 1.2."""
    assert [code.name for code in Code] == [
        "UNKNOWN",
        "INTERNAL",
        "NOT_FOUND",
        "INVALID_ARG",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "ALREADY_EXISTS",
        "CANCELLED",
    ]
    assert [code.value for code in Code] == list(range(8))


def test_code_words_of_load_errors() -> None:
    """Rule 2.5.1."""
    assert {code.text for code in Code} == {
        "Internal",
        "Invalid argument",
        "Not found",
        "Unsupported",
        "Unavailable",
        "Already exists",
        "Unknown",
        "Cancelled",
    }


def test_a_model_error_is_internal_and_does_not_take_its_place() -> None:
    assert type(TritonError.from_code(Code.INTERNAL, "x")) is InternalError
    assert type(TritonError.from_code(Code.INVALID_ARG, "x")) is InvalidArgumentError
    error = ModelError("boom", log=("last line",))
    assert (error.code, error.exception, error.log) == (Code.INTERNAL, None, ("last line",))
    assert isinstance(error, InternalError)


@pytest.mark.parametrize("code", Code)
@pytest.mark.parametrize("kind", [ModelError, ModelLoadError, EnsembleError])
def test_what_failed_in_a_model_is_caught_by_its_code(kind: type[ModelError], code: Code) -> None:
    error = kind("m", code=code, reason="why", log=("line",))
    assert isinstance(error, kind) and error.code is code
    caught = [other for other in Code if isinstance(error, type(TritonError.from_code(other, "")))]
    assert caught == [code]
    assert type(error).__name__ == kind.__name__ and type(kind("n", code=code)) is type(error)
    again = copy.copy(error)
    assert (type(again), again.code, again.message, again.reason) == (type(error), code, "m", "why")


def test_the_text_of_an_error_is_its_message_whatever_it_carries() -> None:
    error = InvalidArgumentError("no")
    error.args += ("a response",)
    assert (str(error), error.args) == ("no", ("no", "a response"))


def test_a_load_error_has_its_own_code_and_a_reason() -> None:
    assert ModelLoadError("x").reason == "x"
    error = ModelLoadError("failed to load 'm'", code=Code.NOT_FOUND, reason="why")
    assert (error.code, error.reason) == (Code.NOT_FOUND, "why")
    assert isinstance(error, ModelError)
    assert isinstance(error, NotFoundError)
    assert not isinstance(error, InternalError)


def test_exceptions_survive_the_wire() -> None:
    cause = RemoteException("KeyError", "'x'", (Frame("a.py", 1, "f"),))
    error = RemoteException("ValueError", "bad", (Frame("m.py", 3, "execute"),), cause, True, {"line": 4}, ("a note",))
    assert RemoteException.from_wire(error.to_wire()) == error
    assert RemoteException.from_wire({"type": "E", "text": "t", "frames": []}) == RemoteException("E", "t")


def test_what_only_the_author_sees_stands_below_the_message() -> None:
    error = ModelError("Stub process 'm_0_0' is not healthy.", reason="It ended with signal SIGKILL.")
    assert traceback.format_exception_only(error) == [
        "tritonlab.core.status.ModelError: Stub process 'm_0_0' is not healthy.\n",
        "It ended with signal SIGKILL.\n",
    ]
    assert ModelLoadError("load failed: no such file", reason="no such file").__notes__ == []


def test_failed_loads_of_one_name_are_listed_together() -> None:
    one, other = (ModelLoadError(f"load failed for model '{name}': …;\n", reason=name, log=(name,)) for name in "ab")
    unreadable = ModelLoadError("failed to load 'm'", code=Code.INTERNAL, reason="why")
    both = ModelLoadError.joined([unreadable, one, other])
    assert both.message == "load failed for model 'a': …;\nload failed for model 'b': …;\n"
    assert (both.code, both.reason, both.log) == (Code.INVALID_ARG, "a", ("a",))
    alone = ModelLoadError.joined([unreadable, unreadable])
    assert (alone.message, alone.code, alone.reason) == ("failed to load 'm'", Code.INTERNAL, "why")
