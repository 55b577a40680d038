from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.models import streams
from tests.serving import Lab, config
from tritonlab.core.inference.infer_request import SEQUENCE_END, SEQUENCE_START
from tritonlab.core.observe.failure_capsule import MOST_CAPSULE
from tritonlab.core.status import TritonError
from tritonlab.exchanges.last_cases import ANSWERED_AGAIN, KEPT, answered_cases, last_cases
from tritonlab.record.recorder import RESPONSE_BYTES, Recorder

IO = config("X FP32 -1", "OUT FP32 -1")
SOURCE = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        if value[0] < 0:
            raise ValueError("negative")
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value.repeat(REPEATS) * 2)])
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    found = Lab(tmp_path)
    Recorder.for_instruments(found.server.instruments)
    yield found
    found.server.stop()


def test_answers_and_errors_are_kept_with_their_requests(lab: Lab) -> None:
    model = lab.load("m", SOURCE.replace("REPEATS", "1"), IO)
    model(X=np.float32([1, 2]))
    Recorder.for_instruments(lab.server.instruments).last_requests.due.clear()  # the next is kept, too
    with pytest.raises(TritonError, match="negative"):
        model(X=np.float32([-1]))
    good, bad = last_cases([model])
    assert [*good.outputs["OUT"].numpy()] == [2, 4] and good.source == KEPT and not good.error
    assert "negative" in bad.error_text and not bad.answers() and not bad.unanswered
    assert [case.error_text for case in last_cases([model], 1)] == [bad.error_text] and not [
        *answered_cases([model], 0)
    ]


def test_the_answers_of_a_stream_are_kept_from_the_first_on(lab: Lab) -> None:
    more = "model_transaction_policy { decoupled: true }"
    model = lab.load("m", streams("x + n", over="range(3)"), config("IN FP32 -1", "OUT FP32 -1", more))
    list(model.infer(inputs={"IN": np.float32([1])}))
    (case,) = last_cases([model])
    assert [float(each["OUT"][0]) for each in case.answers()] == [1, 2, 3]


def test_a_stream_of_very_many_responses_is_not_kept_in_parts(lab: Lab) -> None:
    more = "model_transaction_policy { decoupled: true }"
    count = MOST_CAPSULE // RESPONSE_BYTES + 10
    model = lab.load("m", streams("x + n", over=f"range({count})"), config("IN FP32 -1", "OUT FP32 -1", more))
    assert len(list(model.infer(inputs={"IN": np.float32([1])}))) >= count
    (case,) = last_cases([model])
    assert case.unanswered and not case.answers()


@pytest.mark.parametrize("reason", ["large", "loaded again"])
def test_what_is_not_kept_is_answered_again(lab: Lab, reason: str) -> None:
    repeats = "1_000_000" if reason == "large" else "2"
    model = lab.load("m", SOURCE.replace("REPEATS", repeats), IO)
    model(X=np.float32([1]))
    if reason == "loaded again":
        model = lab.load("m", SOURCE.replace("REPEATS", "3"), IO)
    (case,) = last_cases([model])
    assert case.unanswered and not case.answers()
    (case,) = answered_cases([model])
    assert case.source == ANSWERED_AGAIN and not case.unanswered
    assert case.outputs["OUT"].shape == ((1_000_000,) if reason == "large" else (3,))


SUMS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.sum = 0

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        self.sum = self.sum + pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", self.sum)])
"""


@pytest.mark.parametrize(("spaced", "count"), [([1, 2], 2), ([1, 2, 3, 4, 5, 6], 0), ([1], 1), ([1, 2, 3, 4], 4)])
def test_a_sequence_that_is_longer_than_what_is_kept_is_named(lab: Lab, spaced: list[int], count: int) -> None:
    length = 4 if count == 4 else 6
    model = lab.load("m", SUMS, config("X FP32 1", "OUT FP32 1", "sequence_batching {}"))
    for number in range(1, length + 1):
        if number in spaced:
            Recorder.for_instruments(lab.server.instruments).last_requests.due.clear()
        flags = (number == 1) * SEQUENCE_START | (number == length) * SEQUENCE_END
        list(model.infer(inputs={"X": np.float32([number])}, correlation_id=7, flags=flags))
    cut = [case for case in answered_cases([model]) if case.unsent]
    assert len([*last_cases([model])]) == count
    assert [case.unsent.partition(":")[0] for case in cut] == (
        [f"of sequence 7 only the first {count} requests were sent"] if 0 < count < 4 else
        ["sequence 7 was not sent, as its beginning is not kept"] * (count == 0)
    )  # fmt: skip
