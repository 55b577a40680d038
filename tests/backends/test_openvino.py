"""OpenVINO models, where its package is installed: `pip install 'tritonlab[openvino]'`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.backends.onnx_models import ELEMENTS, one, refused, three_layers, write
from tests.conformance.rules import rule
from tests.serving import config
from tritonlab import Server
from tritonlab.core.status import InternalError

openvino = pytest.importorskip("openvino")


def turned(place: Path, tensors: list[tuple[str, list[int], list[int]]], layout: str = "") -> dict[str, bytes]:
    """Return the files of a model that turns the axes of its inputs: a data type, a shape and an order for each."""
    from openvino import opset13 as ops

    parameters, results = [], []
    for number, (datatype, shape, order) in enumerate(tensors):
        parameter = ops.parameter(shape, ELEMENTS[datatype], name=f"x{number}")
        parameter.output(0).set_names({f"x{number}"})
        if layout:
            parameter.set_layout(openvino.Layout(layout))
        result = ops.result(ops.transpose(parameter, ops.constant(np.array(order, np.int64))))
        result.output(0).set_names({f"y{number}"})
        parameters.append(parameter)
        results.append(result)
    openvino.save_model(openvino.Model(results, parameters, "turned"), place / "model.xml", compress_to_fp16=False)
    return {name: (place / name).read_bytes() for name in ("model.xml", "model.bin")}


def of_openvino(inputs: str, outputs: str, *rest: str) -> str:
    return config(inputs, outputs, *rest).replace('"python"', '"openvino"')


def parameter(name: str, value: str) -> str:
    return f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'


@rule("2.18.1")
def test_the_signature_completes_the_config(server: Server, repository: Path, tmp_path: Path) -> None:
    """A batch only where the layout has one, as Triton's backend does."""
    tensors = [("FP32", [-1, 3], [0, 1])]
    write(repository, "plain", turned(tmp_path, tensors))
    write(repository, "laid_out", turned(tmp_path, tensors, "NC"))
    found = server.load("plain").config()
    assert (found["backend"], found["max_batch_size"], found["input"][0]["dims"]) == ("openvino", 0, [-1, 3])
    found = server.load("laid_out").config()
    assert (found["max_batch_size"], found["input"][0]["dims"], found["output"][0]["name"]) == (4, [3], "y0")
    assert "dynamic_batching" in found
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert one(server, "laid_out", x0=x)["y0"].tolist() == x.tolist()


def test_values_are_those_of_openvino(server: Server, repository: Path) -> None:
    """An ONNX file, which OpenVINO reads, too."""
    text = of_openvino("x FP32 64", "y FP32 16", "max_batch_size: 4", 'default_model_filename: "model.onnx"')
    write(repository, "mlp", {"model.onnx": three_layers()}, text)
    server.load("mlp")
    x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    compiled = openvino.Core().compile_model(str(repository / "mlp" / "1" / "model.onnx"), "CPU")
    np.testing.assert_allclose(one(server, "mlp", x=x)["y"], compiled(x)[0], rtol=1e-5)


_names = iter(range(1_000_000))


@st.composite
def drawn(draw: st.DrawFn) -> tuple[str, list[int], list[int], list[int]]:
    """Draw a data type, the shape of a request, the one of the model, and how it turns the axes."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    described = [-1 if draw(st.booleans()) else size for size in shape]
    return draw(st.sampled_from(list(ELEMENTS))), shape, described, list(draw(st.permutations(range(len(shape)))))


@settings(max_examples=6, phases=[Phase.generate])
@given(st.lists(drawn(), min_size=1, max_size=5))
def test_all_types_ranks_and_variable_dimensions(
    server: Server, repository: Path, tmp_path_factory: pytest.TempPathFactory, found: list[Any]
) -> None:
    place = tmp_path_factory.mktemp("generated")
    files = turned(place, [(datatype, described, order) for datatype, _, described, order in found])
    name = f"generated{next(_names)}"
    write(repository, name, files)
    server.load(name)
    arrays, expected = {}, {}
    for number, (datatype, shape, _, order) in enumerate(found):
        arrays[f"x{number}"] = np.random.default_rng(number).integers(0, 2, shape).astype(ELEMENTS[datatype])
        expected[f"y{number}"] = np.transpose(arrays[f"x{number}"], order)
    try:
        answered = one(server, name, **arrays)
        assert answered.keys() == expected.keys()
        for key, value in expected.items():
            assert answered[key].dtype == value.dtype
            np.testing.assert_array_equal(answered[key], value)
    finally:
        server.unload(name)


@rule("2.18.2")
def test_a_batch_of_one_size(server: Server, repository: Path, tmp_path: Path) -> None:
    files = turned(tmp_path, [("FP32", [4, 3], [0, 1])])
    batching = ("max_batch_size: 4", parameter("SKIP_OV_DYNAMIC_BATCHSIZE", "YES"))
    tensors = ("x0 FP32 3", "y0 FP32 3")
    write(repository, "fixed", files, of_openvino(*tensors, *batching))
    write(repository, "padded", files, of_openvino(*tensors, *batching, parameter("ENABLE_BATCH_PADDING", "YES")))
    write(repository, "dynamic", files, of_openvino(*tensors, "max_batch_size: 4"))
    for name in ("fixed", "padded", "dynamic"):
        server.load(name)
    four, two = np.ones((4, 3), np.float32), np.ones((2, 3), np.float32)
    assert one(server, "fixed", x0=four)["y0"].shape == (4, 3)
    text = (
        r"^expected requests with batch size '4', got '2'\.\.\. this error can be avoided by setting "
        r"'ENABLE_BATCH_PADDING' parameter"
    )
    with pytest.raises(InternalError, match=text):
        one(server, "fixed", x0=two)
    for name in ("padded", "dynamic"):
        assert one(server, name, x0=two)["y0"].tolist() == two.tolist()
        assert one(server, name, x0=four)["y0"].tolist() == four.tolist()


@rule("2.18.1", "2.18.2")
def test_what_is_refused(server: Server, repository: Path, tmp_path: Path) -> None:
    files = turned(tmp_path, [("FP32", [-1, 3], [0, 1])])
    same = ("x0 FP32 -1,3", "y0 FP32 -1,3")
    write(repository, "tuned", files, of_openvino(*same, parameter("INFERENCE_NUM_THREADS", "1")))
    server.load("tuned")
    cases = {
        "missing": ({}, of_openvino(*same), "Unavailable: unable to find '<repository>/missing/1/model.xml' for model"),
        "corrupt": ({"model.xml": b"not a model"}, of_openvino(*same), "Internal: openVINO error in reading network: "),
        "names": (files, of_openvino("z FP32 -1,3", same[1]), "Invalid argument: unexpected inference input 'z', "),
        "types": (files, of_openvino("x0 INT8 -1,3", same[1]), "Invalid argument: unable to load model 'types', "),
        "dims": (files, of_openvino("x0 FP32 -1,4", same[1]), "Invalid argument: model 'dims', tensor 'x0': the model"),
        "number": (
            files,
            of_openvino(*same, parameter("NUM_STREAMS", "many")),
            "Invalid argument: expected the parameter 'NUM_STREAMS' to be a non-negative number or AUTO/NUMA, got many",
        ),
        "kind": (
            files,
            of_openvino(*same).replace("KIND_CPU", "KIND_MODEL"),
            "Invalid argument: unable to load model 'kind', openVINO backend supports only CPU device",
        ),
    }
    for name, (content, text, expected) in cases.items():
        assert refused(server, repository, name, content, text).startswith(expected)


@rule("2.18.2")
def test_what_a_run_refuses_is_the_requests_error(server: Server, repository: Path, tmp_path: Path) -> None:
    from openvino import opset13 as ops

    number = ops.parameter([-1], np.float32, name="x0")
    pairs = ops.result(ops.reshape(number, ops.constant(np.array([2, -1], np.int64)), special_zero=False))
    number.output(0).set_names({"x0"})
    pairs.output(0).set_names({"y0"})
    openvino.save_model(openvino.Model([pairs], [number], "pairs"), tmp_path / "model.xml")
    write(repository, "pairs", {name: (tmp_path / name).read_bytes() for name in ("model.xml", "model.bin")})
    server.load("pairs")
    assert one(server, "pairs", x0=np.arange(4, dtype=np.float32))["y0"].tolist() == [[0, 1], [2, 3]]
    with pytest.raises(InternalError, match=r"^openVINO error in running inference: (?s:.*)"):
        one(server, "pairs", x0=np.arange(3, dtype=np.float32))
