"""Reports of the variables where an exception left the author's code."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tritonlab.stub._pb_stub.process.frame_states import frame_states, text_of
from tritonlab.stub._pb_stub.wire.message_bodies import FrameState

NEVER = float("inf")


def failed(function: Callable[[], Any]) -> list[FrameState]:
    try:
        function()
    except BaseException as error:
        return frame_states(error)[1:]  # without this function
    raise AssertionError("it did not fail")


class Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class Plain:
    def __init__(self) -> None:
        self.name, self.inner = "x", [1, 2]


@dataclass
class Point:
    x: int = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("é", "'é'"),
        ("x" * 1000, f"'{'x' * 160}'… [1000 characters]"),
        (b"x" * 1000, f"b'{'x' * 160}'… [1000 bytes]"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, ...]"),
        ({}, "{}"),
        ({"b": 1, "a": [2]}, "{'b': 1, 'a': [2]}"),
        ({i: i for i in range(9)}, "{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, …}"),
        ({"deep": {"er": {"est": {"x": 1}}}}, "{'deep': {'er': {'est': {…}}}}"),
        (set(), "set()"),
        ({1}, "{1}"),
        (np.float32([[1.5, 2], [3, 1e30]]), "float32[2, 2] [1.5, 2, 3, 1e+30]"),
        (np.arange(1000), "int64[1000] [0, 1, 2, 3, 4, 5, …]"),
        (np.array([b"a", "b"], dtype=object), "object[2] [b'a', 'b']"),
        (np.float64(0.25), repr(np.float64(0.25))),
        (np.zeros((0, 3)), "float64[0, 3] []"),
        (Plain(), "<Plain name='x', inner=[1, 2]>"),
        ([Plain()], "[<Plain name='x', inner=[...]>]"),
        (Point(), "Point(x=1)"),
        (object(), "<object>"),
        ([Raises(ValueError())], "[<Raises, whose repr raised ValueError>]"),
        (Raises(ValueError()), "<Raises, whose repr raised ValueError>"),
        (Raises(SystemExit()), "<Raises, whose repr raised SystemExit>"),
        (Raises(RecursionError()), "<Raises, whose repr raised RecursionError>"),
        ("\ud800", "'\\ud800'"),
    ],
)
def test_short_texts(value: Any, text: str) -> None:
    assert text_of(value, NEVER) == text


def test_a_long_text_is_cut() -> None:
    assert len(text_of([["x" * 90] * 6] * 6, NEVER)) == 300


def test_a_circle_ends() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert text_of(circle, NEVER).count("[") < 10


def test_no_text_is_made_when_time_is_up() -> None:
    assert text_of(Raises(ValueError()), time.monotonic() - 1) == "<Raises>"


def test_an_object_of_ours(pb_utils: ModuleType) -> None:
    assert text_of(pb_utils.Tensor("X", np.zeros(1)), NEVER) == "Tensor X"
    request = pb_utils.InferenceRequest(
        model_name="m", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("X", np.zeros(1))], request_id="r"
    )
    assert text_of([request], NEVER) == "[InferenceRequest id='r' inputs=[X]]"


def test_frames_from_the_outermost_with_their_lines() -> None:
    def outer() -> None:
        number = 1
        inner(number + 1)

    def inner(value: int) -> None:
        raise ValueError(value)

    found = failed(outer)
    assert [frame.function for frame in found] == ["outer", "inner"]
    assert ["number", "1"] in found[0].variables
    assert found[1].variables == [["value", "2"]]
    line = found[1].line - found[1].start
    assert found[1].source[line].strip() == "raise ValueError(value)"
    assert len(found[1].source) <= 5


def test_the_innermost_of_many() -> None:
    def deep(level: int) -> None:
        if not level:
            raise ValueError
        deep(level - 1)

    found = failed(lambda: deep(100))
    assert len(found) <= 20
    assert found[-1].variables[0] == ["level", "0"]


def test_of_a_library_no_variables() -> None:
    import json

    found = failed(lambda: json.loads("{"))
    assert any(frame.file == json.decoder.__file__ for frame in found)
    assert all(frame.variables == [] for frame in found if frame.file.startswith(json.__path__[0]))


def test_what_is_no_variable_is_left_out() -> None:
    def run() -> None:
        import math

        many = {f"v{i}": i for i in range(60)}
        exec("raise ValueError", {"math": math, **many, "function": run, "kind": int})

    (_, frame) = failed(run)
    assert len(frame.variables) == 41
    assert frame.variables[-1] == ["…", "20 more"]


def test_an_error_that_cannot_be_looked_at() -> None:
    class Odd(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise ValueError(name)

    assert frame_states(Odd()) == []
