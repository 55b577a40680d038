"""Warnings of outputs that Triton passes on without a word (rule 3.4): once per version, of the first responses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import InternalError, NotFoundError
from tritonlab.ipc.processes.stub_log import LogBook
from tritonlab.server.observe.output_check import ENOUGH, OutputCheck

CONFIG = """
max_batch_size: 4
output [ { name: "A" data_type: TYPE_FP32 dims: [2] }, { name: "B" data_type: TYPE_STRING dims: [-1] } ]
"""
A, B = np.zeros((1, 2), np.float32), np.array([[b"x"]], object)


class Side:
    """A server of models with these configs, without anything else."""

    def __init__(self, **configs: str) -> None:
        self.configs = configs
        self.instruments = Instruments()
        self.log = LogBook()
        self.instruments.add(OutputCheck(self.instruments, self.find, self.log))  # type: ignore[arg-type]

    def find(self, name: str, version: int) -> Any:
        if name not in self.configs:
            raise NotFoundError(name)
        return type("Version", (), {"config": parse_pbtxt(self.configs[name], name)})

    def ready(self, name: str = "m", version: int = 1) -> None:
        assert self.instruments.model_state is not None
        self.instruments.model_state(name, version, "READY", "", 0)

    def answers(self, *, rows: int = 1, requested: tuple[str, ...] = (), **outputs: Any) -> list[str]:
        """Return the warnings in the log about a response with these outputs."""
        tensors = {name: Tensor.from_numpy(array) for name, array in outputs.items()}
        return self.respond(InferenceResponse("m", 1, outputs=tensors), rows, requested)

    def respond(self, response: InferenceResponse, rows: int = 1, requested: tuple[str, ...] = ()) -> list[str]:
        request = InferenceRequest("m", {}, requested_outputs=requested)
        request.batch_size = rows
        request.serial = 7
        before = len(self.log.records())
        if self.instruments.response_sent is not None:
            self.instruments.response_sent(request, response, 0)
        texts = [record.text.removeprefix("Triton checks no outputs: ") for record in self.log.records()[before:]]
        assert list(self.instruments)  # it did not fail and was not thrown out
        return texts


@pytest.fixture
def side() -> Side:
    side = Side(m=CONFIG)
    side.ready()
    return side


def test_what_is_as_promised_is_not_mentioned(side: Side) -> None:
    assert side.answers(A=A, B=B) == []
    assert side.answers(rows=3, A=np.zeros((3, 2), np.float32), B=np.array([[b"x", b"y"]] * 3, object)) == []
    assert side.answers(requested=("B",), B=B) == []
    assert side.respond(InferenceResponse("m", 1, error=InternalError("bad"))) == []
    assert side.respond(InferenceResponse("m", 1, empty=True)) == []


@pytest.mark.rule("3.4.1", "3.4.2", "3.4.3")
@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"A": A.astype(np.float64), "B": B}, "'A' is FP64 where the config says FP32."),
        ({"A": np.zeros((1, 3), np.float32), "B": B}, "'A' has shape [1, 3] where the config says [batch, 2]."),
        ({"A": np.zeros(2, np.float32), "B": B}, "'A' has shape [2] where the config says [batch, 2]."),
        ({"A": np.zeros((2, 2), np.float32), "B": B}, "'A' has 2 rows for a request of 1."),
        ({"A": A}, "a response does not have 'B', which the config promises."),
        ({}, "a response has none; the config promises 'A', 'B'."),
    ],
)
def test_each_difference_is_reported_once_per_version(side: Side, outputs: dict[str, Any], text: str) -> None:
    assert side.answers(**outputs) == [text]
    assert side.answers(**outputs) == []
    side.ready()  # loaded again
    assert side.answers(**outputs) == [text]
    (first, _) = side.log.records("m")
    assert (first.stream, first.level, first.version) == ("server", "WARNING", 1)
    assert first.serials == (7,)


def test_a_reshape_is_no_difference() -> None:
    side = Side(m="output { name: 'A' data_type: TYPE_FP32 dims: [2, 2] reshape { shape: [4] } }")
    side.ready()
    assert side.answers(A=np.zeros(4, np.float32)) == []
    assert side.answers(A=np.zeros((2, 2), np.float32)) == []


def test_a_decoupled_model_may_send_its_outputs_one_by_one() -> None:
    side = Side(m=CONFIG + "model_transaction_policy { decoupled: true }")
    side.ready()
    texts = [text for _ in range(ENOUGH) for text in side.answers(A=np.zeros((5, 2), np.float32))]
    assert texts == [f"none of {ENOUGH} responses has 'B', which the config promises."]


def test_it_takes_itself_off_when_it_has_seen_enough(side: Side) -> None:
    side.ready("gone")
    for _ in range(ENOUGH):
        assert side.instruments.response_sent is not None
        side.answers(A=A, B=B)
    side.respond(InferenceResponse("gone", 1))
    assert side.instruments.response_sent is None
    assert side.answers() == []
    side.ready()
    assert len(side.answers()) == 1


def test_ensembles_were_checked_when_they_were_loaded() -> None:
    side = Side(m="platform: 'ensemble' output { name: 'A' data_type: TYPE_FP32 dims: [2] }")
    side.ready()
    assert side.answers() == []
    assert side.instruments.response_sent is None
