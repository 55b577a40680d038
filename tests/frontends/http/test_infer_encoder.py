"""Kept JSON, seen through the encoder: it is the same as JSON that is written again."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.frontends.http import infer_encoder
from tritonlab.frontends.http.infer_encoder import BINARY, JSON, InferEncoder, RequestedOutputs
from tritonlab.frontends.shared.infer_exchange import InferExchange, OutputPlan
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.server.inference_server import InferenceServer
from tritonlab.server.models.model_lifecycle import ModelVersion

VERSION = cast(ModelVersion, SimpleNamespace(config=ModelConfig(), labels={}, rules=SimpleNamespace(max_batch_size=0)))
ENCODER = InferEncoder(InferExchange(cast(InferenceServer, None), SharedMemoryManager()))


def tensor(*values: float, kind: DataType = DataType.FP32) -> Tensor:
    return Tensor(kind, (len(values),), np.array(values, kind.numpy))


def text(*strings: str) -> Tensor:
    return Tensor.from_numpy(np.array(strings, object))


def response(outputs: dict[str, Tensor], **more: Any) -> InferenceResponse:
    return InferenceResponse(outputs=outputs, **{"model_name": "m", "model_version": 1, **more})


def encode(response: InferenceResponse, outputs: RequestedOutputs) -> tuple[bytes, list[bytes]]:
    written, blobs = ENCODER.encode(response, outputs, VERSION, InferenceRequest("m", {}))
    return written, [bytes(blob) for blob in blobs]


ALL_BINARY = RequestedOutputs(BINARY)
CASES = {
    "one": ([{"A": tensor(1, 2)}, {"A": tensor(3, 4)}], ALL_BINARY),
    "another shape": ([{"A": tensor(1, 2)}, {"A": tensor(3)}], ALL_BINARY),
    "another datatype": ([{"A": tensor(1)}, {"A": tensor(1, kind=DataType.INT32)}], ALL_BINARY),
    "strings": ([{"A": text("a")}, {"A": text("longer")}], ALL_BINARY),
    "none": ([{}], ALL_BINARY),
    "nothing in one": ([{"A": tensor(), "B": tensor(1)}], ALL_BINARY),
    "nothing at all": ([{"A": tensor()}], ALL_BINARY),
    "large": ([{"A": tensor(*range(1 << 13))}], ALL_BINARY),
    "by name": ([{"A": tensor(1), "B": tensor(2)}], RequestedOutputs(JSON, {"A": BINARY, "B": BINARY})),
    "the second as JSON": ([{"A": tensor(1), "B": tensor(2)}], RequestedOutputs(BINARY, {"B": JSON})),
    "classes": ([{"A": tensor(1, 3)}], RequestedOutputs(OutputPlan(classes=1, binary=True))),
}


@rule("6.3.2", "6.5.1")
@pytest.mark.parametrize("more", [{}, {"request_id": "r"}, {"parameters": {"p": 1}}, {"model_version": 2}], ids=str)
@pytest.mark.parametrize(("answers", "outputs"), CASES.values(), ids=CASES.keys())
def test_kept_json_is_the_same_as_new(
    answers: list[dict[str, Tensor]],
    outputs: RequestedOutputs,
    more: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [encode(response(each, **more), outputs) for each in [*answers, *answers]]
    monkeypatch.setattr(infer_encoder, "_plain", lambda *about: None)
    assert found == [encode(response(each, **more), outputs) for each in [*answers, *answers]]
    for (written, blobs), each in zip(found, [*answers, *answers], strict=True):
        document = json.loads(written)
        assert [entry["name"] for entry in document["outputs"]] == list(each)
        sizes = [entry.get("parameters", {}).get("binary_data_size", 0) for entry in document["outputs"]]
        assert [size for size in sizes if size] == [len(blob) for blob in blobs]
        assert (document["model_version"], document.get("id", "")) == (
            str(more.get("model_version", 1)),
            more.get("request_id", ""),
        )


def test_json_of_binary_outputs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = encode(response({"KEPT": tensor(1, 2)}), ALL_BINARY)
    monkeypatch.setattr(infer_encoder, "_describe", lambda *about: pytest.fail("it is written anew"))
    second = encode(response({"KEPT": tensor(3, 4)}), ALL_BINARY)
    assert second == (first[0], [np.array([3, 4], np.float32).tobytes()])
