"""`identity`, `repeat` and `square`, with the configs that NVIDIA's examples use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.onnx_models import write
from tests.conformance.rules import rule
from tests.serving import DECOUPLED, config
from tritonlab import Server
from tritonlab.core.status import ModelLoadError, UnknownError


def of(backend: str, inputs: str, outputs: str, *rest: str) -> str:
    return config(inputs, outputs, *rest).replace('"python"', f'"{backend}"')


def parameter(name: str, value: str) -> str:
    return f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'


def answers(server: Server, name: str, **inputs: Any) -> list[dict[str, Any]]:
    responses = server.model(name).infer(inputs=inputs)
    return [{key: each.numpy().tolist() for key, each in response.outputs.items()} for response in responses]


def refused(server: Server, repository: Path, name: str, text: str) -> str:
    write(repository, name, {}, text)
    with pytest.raises(ModelLoadError) as caught:
        server.load(name)
    return caught.value.message.partition("UNAVAILABLE state: ")[2].removesuffix(";\n")


@rule("2.16.1")
def test_identity(server: Server, repository: Path) -> None:
    text = of("identity", "INPUT0 FP32 -1; INPUT1 STRING -1", "OUTPUT0 FP32 -1; OUTPUT1 STRING -1", "max_batch_size: 8")
    write(repository, "same", {}, text + parameter("execute_delay_ms", "1"))
    server.load("same")
    inputs = {"INPUT0": np.ones((1, 2), np.float32), "INPUT1": np.array([[b"a", b"bc"]], np.object_)}
    assert answers(server, "same", **inputs) == [{"OUTPUT0": [[1.0, 1.0]], "OUTPUT1": [[b"a", b"bc"]]}]
    assert 'input_byte_size_counter{model="same",version="1"} 19' in server.metrics()
    assert refused(server, repository, "odd", of("identity", "INPUT0 FP32 -1", "OUTPUT1 FP32 -1")) == (
        "Invalid argument: expected input and output indices to match"
    )
    assert refused(server, repository, "shapes", of("identity", "INPUT0 FP32 2", "OUTPUT0 FP32 -1")) == (
        "Invalid argument: expected input and output shape to match, got [2] and [-1]"
    )


@rule("2.16.2")
def test_repeat(server: Server, repository: Path) -> None:
    tensors = ("IN INT32 -1; DELAY UINT32 -1; WAIT UINT32 1", "OUT INT32 1; IDX UINT32 1")
    write(repository, "repeat_int32", {}, of("repeat", *tensors, DECOUPLED))
    server.load("repeat_int32")
    inputs = {
        "IN": np.array([4, 2, 0, 1], np.int32),
        "DELAY": np.array([1, 2, 3, 4], np.uint32),
        "WAIT": np.array([1], np.uint32),
    }
    found = [each for each in answers(server, "repeat_int32", **inputs) if each]
    assert found == [{"OUT": [value], "IDX": [index]} for index, value in enumerate([4, 2, 0, 1])]
    assert refused(server, repository, "batching", of("repeat", *tensors, DECOUPLED, "max_batch_size: 1")) == (
        "Invalid argument: repeat backend only supports models with max_batch_size == 0"
    )
    named = of("repeat", tensors[0].replace("WAIT", "PAUSE"), tensors[1], DECOUPLED)
    assert refused(server, repository, "renamed", named) == (
        "Invalid argument: expected third input tensor name to be WAIT, got PAUSE"
    )


@rule("2.16.3")
def test_square(server: Server, repository: Path) -> None:
    text = of("square", "IN INT32 1", "OUT INT32 1", DECOUPLED)
    write(repository, "square_int32", {}, text)
    write(repository, "failing", {}, text + parameter("CUSTOM_FAIL_COUNT", "1") + parameter("CUSTOM_EMPTY_COUNT", "1"))
    for name in ("square_int32", "failing"):
        server.load(name)
    found = [each for each in answers(server, "square_int32", IN=np.array([3], np.int32)) if each]
    assert found == [{"OUT": [3]}] * 3
    responses = server.model("failing").infer(inputs={"IN": np.array([3], np.int32)})
    assert next(responses).outputs["OUT"].numpy().tolist() == [3]
    with pytest.raises(UnknownError, match=r"^simulated failure$"):
        next(responses)
    assert refused(server, repository, "wide", of("square", "IN INT32 2", "OUT INT32 1", DECOUPLED)) == (
        "Invalid argument: expected IN shape to be [1], got [2]"
    )
