"""The judgement of two answers to one request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.case import judge_answers
from tritonlab.tools.check.noise import AnswerNoise
from tritonlab.tools.check.sample import ModelAnswer


@pytest.mark.parametrize("sends", [False, True])
def test_a_stream_that_still_comes_is_slow_and_one_that_stopped_is_a_difference(sends: bool) -> None:
    responses = tuple({"OUT": Tensor.from_numpy(np.array([number]))} for number in range(4))
    expected = ModelAnswer(responses, seconds=1.0)
    got = ModelAnswer(responses[:3], ended=False, busy=True, sends=sends)
    bench: Any = SimpleNamespace(noise=AnswerNoise())
    found = judge_answers(bench, expected, got, "after another request", "to a new instance")
    assert (found is None) is sends
    assert found is None or "3 responses, and no end" in found.sentence
