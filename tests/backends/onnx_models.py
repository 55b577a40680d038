"""ONNX models, repositories of models and what their server answers, for the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tritonlab import Server
from tritonlab.core.status import ModelLoadError

OPSET, IR = 17, 8
#: The elements of each data type.
ELEMENTS = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}


def onnx_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    weights: Mapping[str, Any] | None = None,
) -> Any:
    """Return a model. An input or output is `(type, shape)`, a type of TensorProto."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, *described) for name, described in inputs.items()],
        [helper.make_tensor_value_info(name, *described) for name, described in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR
    return model


def three_layers(width: int = 64, hidden: int = 256, out: int = 16) -> Any:
    """Return a model of three dense layers, `x` [N, width] -> `y` [N, out]."""
    random, sizes, weights, nodes, last = np.random.default_rng(7), [width, hidden, hidden, out], {}, [], "x"
    for layer in range(3):
        shape = (sizes[layer], sizes[layer + 1])
        weights[f"w{layer}"] = (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        weights[f"b{layer}"] = random.standard_normal(shape[1]).astype(np.float32)
        done = "y" if layer == 2 else f"sum{layer}"
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [done]))
        if layer < 2:
            nodes.append(helper.make_node("Relu", [done], [last := f"relu{layer}"]))
    return onnx_model(nodes, {"x": (TensorProto.FLOAT, ["N", width])}, {"y": (TensorProto.FLOAT, ["N", out])}, weights)


def write(repository: Path, name: str, files: Mapping[str, Any], config: str = "") -> Path:
    """Write a model directory. A file is bytes, text or an ONNX model, by its path below version 1."""
    for path, content in files.items():
        target = repository / name / "1" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, onnx.ModelProto):
            onnx.save(content, target)
        elif isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content)
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    if config:
        (repository / name / "config.pbtxt").write_text(config)
    return repository / name


def one(server: Server, name: str, **inputs: Any) -> dict[str, Any]:
    """Return the outputs of the one response to a request."""
    (response,) = server.model(name).infer(inputs=inputs)
    return {key: tensor.numpy() for key, tensor in response.outputs.items()}


def refused(server: Server, repository: Path, name: str, files: Mapping[str, Any], config: str = "") -> str:
    """Return the code and the text of a load that fails."""
    write(repository, name, files, config)
    with pytest.raises(ModelLoadError) as caught:
        server.load(name)
    head = f"load failed for model '{name}': version 1 is at UNAVAILABLE state: "
    assert caught.value.message.startswith(head), caught.value.message
    return caught.value.message.removeprefix(head).removesuffix(";\n").replace(str(repository), "<repository>")
