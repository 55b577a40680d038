"""The difference of two answers to one request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.noise import AnswerNoise
from tritonlab.tools.check.sample import ModelAnswer


def answered(*responses: Any, **fields: Any) -> ModelAnswer:
    return ModelAnswer(tuple({"Y": Tensor.from_numpy(np.asarray(value))} for value in responses), **fields)


def test_floats_differ_beyond_what_another_order_of_a_sum_does() -> None:
    noise, one = AnswerNoise(), np.float32([1.0, 1000.0])
    assert noise.differ(answered(one), answered(one + np.float32([0.004, 0.0]))) is None
    found = noise.differ(answered(one), answered(one + np.float32([0.5, 0.0])))
    assert found is not None
    assert (found.kind, found.place, found.expected, found.got) == ("value", "Y[0]", "1.0", "1.5")


def test_nan_and_nan_are_the_same() -> None:
    assert AnswerNoise().differ(answered(np.float32([np.nan])), answered(np.float32([np.nan]))) is None


@pytest.mark.parametrize(("one", "other"), [(np.inf, 1), (1, np.inf), (np.inf, -np.inf)])
def test_infinity_differs_from_all_else(one: float, other: float) -> None:
    both = [answered(np.float32([value, 2])) for value in (one, other)]
    found = AnswerNoise().differ(*both)
    assert found is not None and found.place == "Y[0]"
    assert AnswerNoise().differ(both[0], both[0]) is None


def test_infinities_that_are_equal_do_not_hide_the_rest() -> None:
    noise = AnswerNoise()
    noise.learn([answered(np.float32([-np.inf, 100.0])), answered(np.float32([-np.inf, 100.5]))])
    assert not noise.free and noise.values == {"Y": 0.5}
    assert noise.differ(answered(np.float32([-np.inf, 100])), answered(np.float32([-np.inf, 110]))) is not None


def test_texts_and_whole_numbers_are_equal_or_not() -> None:
    noise = AnswerNoise()
    found = noise.differ(answered(np.array([b"a"], object)), answered(np.array([b"b"], object)))
    assert found is not None and (found.expected, found.got) == ("'a'", "'b'")
    assert noise.differ(answered(np.int32([1])), answered(np.int32([2]))) is not None


def test_errors_counts_and_shapes_differ() -> None:
    noise, good = AnswerNoise(), answered(np.int32([1]))
    kinds = [
        noise.differ(good, ModelAnswer(error="it failed")),
        noise.differ(good, answered(np.int32([1]), np.int32([1]))),
        noise.differ(good, answered(np.int32([[1]]))),
        noise.differ(good, answered(np.int64([1]))),
        noise.differ(good, ModelAnswer(({},))),
    ]
    assert [found.kind if found else "" for found in kinds] == ["error", "count", "shape", "datatype", "outputs"]


def test_two_errors_do_not_differ() -> None:
    assert AnswerNoise().differ(ModelAnswer(error="one"), ModelAnswer(error="two")) is None


def test_what_was_measured_is_allowed_and_named() -> None:
    noise = AnswerNoise()
    noise.learn([answered(np.float32([100.0])), answered(np.float32([100.5])), answered(np.float32([99.8]))])
    assert noise.differ(answered(np.float32([100.0])), answered(np.float32([101.0]))) is None
    assert noise.differ(answered(np.float32([100.0])), answered(np.float32([110.0]))) is not None
    assert noise.sentence().startswith("The model is not deterministic: asked the same again, 'Y' differs by up to 0.5")


def test_an_output_of_other_texts_each_time_is_not_compared() -> None:
    noise = AnswerNoise()
    noise.learn([answered(np.array([b"x"], object)), answered(np.array([b"y"], object))])
    assert noise.differ(answered(np.array([b"x"], object)), answered(np.array([b"z"], object))) is None
    assert "'Y' is not compared" in noise.sentence()
    assert AnswerNoise().sentence() == ""
