from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.onnx_models import write
from tests.conformance.rules import rule
from tests.serving import DECOUPLED, config
from tritonlab import Server
from tritonlab.core.status import ModelLoadError

CHOICES: dict[str, Any] = {
    "tensorrt": "stand-in",
    "echoes": "stand-in:echo",
    "random": {"use": "stand-in", "values": "random", "seed": 4, "size": 3},
    "slow": {"use": "stand-in", "delay_ms": 40, "delay_ms_per_element": 5},
    "stream": {"use": "stand-in", "responses": 3},
    "vllm": "stand-in:echo",
}


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    repository.mkdir()
    with Server(repository, model_control_mode="explicit", backends=CHOICES) as server:
        yield server


def engine(inputs: str, outputs: str, *rest: str) -> str:
    """Return a config.pbtxt of a TensorRT model."""
    return (
        config(inputs, outputs, *rest, kind="KIND_GPU").replace('"python"', '"tensorrt"') + 'platform: "tensorrt_plan"'
    )


def answers(server: Server, name: str, **inputs: Any) -> list[dict[str, Any]]:
    responses = server.model(name).infer(inputs=inputs)
    return [{key: each.numpy() for key, each in response.outputs.items()} for response in responses]


ALL_TYPES = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64")


@rule("2.13.4", "2.17.1")
def test_zeros_of_the_right_shapes_and_types(server: Server, repository: Path) -> None:
    outputs = "; ".join(f"Y{kind} {kind} 2,-1" for kind in (*ALL_TYPES, "STRING"))
    write(repository, "zeros", {}, engine("X FP32 -1,-1", outputs, "max_batch_size: 8", "dynamic_batching { }"))
    server.load("zeros")
    (found,) = answers(server, "zeros", X=np.ones((3, 5, 7), np.float32))
    assert {array.shape for array in found.values()} == {(3, 2, 7)}
    for kind in ALL_TYPES:
        array = found[f"Y{kind}"]
        assert not array.any()
        assert array.dtype.name == {"FP16": "float16", "FP32": "float32", "FP64": "float64"}.get(kind, kind.lower())
    assert set(found["YSTRING"].reshape(-1)) == {b""}
    (instance,) = server.model("zeros").instances()
    assert instance["kind"] == "CPU"


@rule("2.17.1")
def test_echo(server: Server, repository: Path) -> None:
    write(repository, "echoes", {}, engine("A FP32 2; B FP32 -1; C STRING -1", "Y FP32 -1; Z STRING 3; N INT8 2"))
    server.load("echoes")
    inputs = {"A": np.ones(2, np.float32), "B": np.arange(3, dtype=np.float32), "C": np.array([b"a", b"b"], np.object_)}
    (found,) = answers(server, "echoes", **inputs)
    assert found["Y"].tolist() == [0.0, 1.0, 2.0]
    assert (found["Z"].tolist(), found["N"].tolist()) == ([b"a", b"b", b"a"], [0, 0])


@rule("2.17.1")
def test_random_answers_are_the_same_for_the_same_inputs(server: Server, repository: Path) -> None:
    write(repository, "random", {}, engine("X INT32 1", "Y FP32 -1; W STRING 2; I INT8 2"))
    server.load("random")
    first, again = (answers(server, "random", X=np.array([5], np.int32))[0] for _ in range(2))
    (other,) = answers(server, "random", X=np.array([6], np.int32))
    assert first["Y"].shape == (3,)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert first["Y"].tolist() != other["Y"].tolist()
    assert ((first["Y"] >= 0) & (first["Y"] < 1)).all()


@rule("2.17.1")
def test_delays_and_streams(server: Server, repository: Path) -> None:
    write(repository, "slow", {}, engine("X INT32 1", "Y FP32 4"))
    write(repository, "stream", {}, engine("X INT32 1", "Y FP32 2", DECOUPLED))
    server.load("slow")
    server.load("stream")
    started = time.perf_counter()
    answers(server, "slow", X=np.array([5], np.int32))
    assert time.perf_counter() - started >= 0.06
    assert [each["Y"].tolist() for each in answers(server, "stream", X=np.array([5], np.int32)) if each] == [[0, 0]] * 3


def test_a_config_without_outputs_is_not_enough(server: Server, repository: Path) -> None:
    write(repository, "bare", {}, 'platform: "tensorrt_plan"')
    with pytest.raises(ModelLoadError, match=r"a stand-in for 'bare' needs the inputs and outputs in config.pbtxt"):
        server.load("bare")


@rule("2.17.4")
def test_a_model_of_vllm_has_its_inputs_and_outputs(server: Server, repository: Path) -> None:
    mine = 'input { name: "mine" data_type: TYPE_FP32 dims: 1 optional: true }'
    write(repository, "llm", {"model.json": "{}"}, f'backend: "vllm" instance_group {{ kind: KIND_MODEL }} {mine}')
    server.load("llm")
    config = server.model("llm").config()
    assert config["model_transaction_policy"]["decoupled"] and config["max_batch_size"] == 0
    assert [each["name"] for each in config["input"]][:3] == ["mine", "text_input", "image"]
    assert [each["name"] for each in config["input"] if not each.get("optional")] == ["text_input"]
    inputs = {"text_input": np.array([b"the quick fox"], np.object_), "stream": np.array([False])}
    found = answers(server, "llm", **inputs)[0]
    assert found["text_output"].tolist() == [b"the quick fox"]
    assert {name: array.dtype.name for name, array in found.items()} == {
        "text_output": "object",
        "finish_reason": "object",
        "logprobs": "object",
        "cumulative_logprob": "float32",
        "num_input_tokens": "uint32",
        "num_output_tokens": "uint32",
    }
