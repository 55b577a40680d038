from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.backends.in_process import Spy, in_process
from tests.backends.onnx_models import one, onnx_model, refused, three_layers, write
from tests.conformance.rules import rule
from tritonlab import Server
from tritonlab.core.status import Code, InternalError, InvalidArgumentError, ModelLoadError
from tritonlab.testing import build_request

FLOAT = TensorProto.FLOAT
MLP = """backend: "onnxruntime" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 64 } output { name: "y" data_type: TYPE_FP32 dims: 16 }
"""
IDENTITY = [helper.make_node("Identity", ["x"], ["y"])]


def directly(model: Any, **inputs: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, inputs)
    return found


@rule("2.14.2")
def test_the_signature_completes_the_config(server: Server, repository: Path) -> None:
    write(repository, "mlp", {"model.onnx": three_layers()})
    config = server.load("mlp").config()
    assert (config["backend"], config["platform"], config["max_batch_size"]) == ("onnxruntime", "onnxruntime_onnx", 4)
    assert config["dynamic_batching"]["preferred_batch_size"] == [4]
    assert [(each["name"], each["data_type"], each["dims"]) for each in config["input"]] == [("x", "TYPE_FP32", [64])]
    assert [(each["name"], each["data_type"], each["dims"]) for each in config["output"]] == [("y", "TYPE_FP32", [16])]
    assert not config["runtime"] and not config.get("parameters")


def test_values_are_those_of_onnxruntime(server: Server, repository: Path) -> None:
    model = three_layers()
    write(repository, "values", {"model.onnx": model})
    server.load("values")
    x = np.random.default_rng(1).standard_normal((3, 64), np.float32)
    np.testing.assert_array_equal(one(server, "values", x=x)["y"], directly(model, x=x)[0])


@rule("2.14.5")
def test_requests_of_a_batch_run_as_one(server: Server, repository: Path) -> None:
    count = helper.make_node("Shape", ["x"], ["shape"])
    ones = helper.make_node("Expand", ["one", "shape"], ["y0"])
    total = helper.make_node("ReduceSum", ["y0"], ["sum"], keepdims=0)
    nodes = [count, ones, total, helper.make_node("Expand", ["sum", "shape"], ["y"])]
    model = onnx_model(nodes, {"x": (FLOAT, ["N", 1])}, {"y": (FLOAT, ["N", 1])}, {"one": np.ones((1, 1), np.float32)})
    config = "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 5000000 }"
    write(repository, "counts", {"model.onnx": model}, config)
    handle = server.load("counts")
    answers = [handle.infer(inputs={"x": np.zeros((2, 1), np.float32)}) for _ in range(2)]
    assert [next(iter(answer)).outputs["y"].numpy().tolist() for answer in answers] == [[[4.0], [4.0]]] * 2


TYPES = {
    TensorProto.BOOL: np.bool_,
    TensorProto.UINT8: np.uint8,
    TensorProto.UINT16: np.uint16,
    TensorProto.UINT32: np.uint32,
    TensorProto.UINT64: np.uint64,
    TensorProto.INT8: np.int8,
    TensorProto.INT16: np.int16,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.STRING: np.object_,
}


@st.composite
def tensors(draw: st.DrawFn, batches: bool) -> tuple[int, list[Any], list[int], list[int]]:
    """Draw an element type, the shape in the model, the shape of a request, and how the model transposes it."""
    shape = draw(st.lists(st.integers(1, 3), min_size=0 if not batches else 1, max_size=4))
    variable = [draw(st.booleans()) for _ in shape]
    if batches:
        shape[0], variable[0] = 2, True
    elif shape:
        variable[0] = False  # otherwise it would be a batch
    described = [
        f"d{number}" if free else size for number, (free, size) in enumerate(zip(variable, shape, strict=True))
    ]
    rest = draw(st.permutations(range(1, len(shape)))) if batches else draw(st.permutations(range(len(shape))))
    return draw(st.sampled_from(list(TYPES))), described, shape, [0, *rest] if batches else list(rest)


def elements(kind: int, shape: list[int], seed: int) -> Any:
    random = np.random.default_rng(seed)
    if kind == TensorProto.STRING:
        found = np.empty(shape, np.object_)
        for index in np.ndindex(*shape):
            found[index] = "".join(map(chr, random.integers(1, 0x2000, random.integers(0, 6)))).encode()
        return found
    return random.integers(0, 2 if kind == TensorProto.BOOL else 100, shape).astype(TYPES[kind])


_names = iter(range(1_000_000))


@settings(max_examples=12, phases=[Phase.generate])
@given(st.data(), st.booleans())
def test_all_types_ranks_and_variable_dimensions(
    server: Server, repository: Path, data: st.DataObject, batches: bool
) -> None:
    found = data.draw(st.lists(tensors(batches), min_size=1, max_size=5))
    nodes, inputs, outputs, arrays, expected = [], {}, {}, {}, {}
    for number, (kind, described, shape, order) in enumerate(found):
        inputs[f"x{number}"] = (kind, described)
        outputs[f"y{number}"] = (kind, [described[axis] for axis in order])
        turn = {"perm": order} if order else {}
        nodes.append(helper.make_node("Transpose" if order else "Identity", [f"x{number}"], [f"y{number}"], **turn))
        array = elements(kind, shape, number)
        # what has no dimension besides the batch has one of size 1 in the config
        outside = (*shape, 1) if len(shape) == int(batches) else shape
        arrays[f"x{number}"] = array.reshape(outside)
        expected[f"y{number}"] = array.reshape(outside) if outside != shape else np.transpose(array, order)
    name = f"generated{next(_names)}"
    write(repository, name, {"model.onnx": onnx_model(nodes, inputs, outputs)})
    server.load(name)
    try:
        answer = one(server, name, **arrays)
        assert {key: (value.dtype, value.shape) for key, value in answer.items()} == {
            key: (value.dtype, value.shape) for key, value in expected.items()
        }
        for key, value in expected.items():
            np.testing.assert_array_equal(answer[key], value)
    finally:
        server.unload(name)


@rule("2.14.1")
def test_files_that_are_missing_or_corrupt_are_load_errors(server: Server, repository: Path) -> None:
    assert refused(server, repository, "missing", {"other.onnx": b""}, 'backend: "onnxruntime"') == (
        "Unavailable: unable to find '<repository>/missing/1/model.onnx' for model instance 'missing'"
    )
    assert refused(server, repository, "corrupt", {"model.onnx": b"not a model"}) == (
        "Internal: onnx runtime error 7: Load model from <repository>/corrupt/1/model.onnx failed:Protobuf parsing"
        " failed."
    )
    unknown = onnx_model([helper.make_node("NoSuchOperator", ["x"], ["y"])], {"x": (FLOAT, [1])}, {"y": (FLOAT, [1])})
    text = refused(server, repository, "unknown", {"model.onnx": unknown})
    assert text.startswith("Internal: onnx runtime error ") and "NoSuchOperator" in text
    write(repository, "after", {"model.onnx": three_layers()})
    assert server.load("after").ready()  # the rest keeps serving


@rule("2.14.1")
def test_default_model_filename_and_a_directory(server: Server, repository: Path) -> None:
    model = onnx_model(IDENTITY, {"x": (FLOAT, ["N"])}, {"y": (FLOAT, ["N"])})
    write(repository, "named", {"v2.onnx": model}, 'backend: "onnxruntime" default_model_filename: "v2.onnx"')
    write(repository, "folder", {"model.onnx/model.onnx": model})
    for name in ("named", "folder"):
        server.load(name)
        x = np.array([[1.5], [2.5]], np.float32)
        assert one(server, name, x=x)["y"].tolist() == x.tolist()


SMALL = onnx_model(IDENTITY, {"x": (FLOAT, ["N", 3])}, {"y": (FLOAT, ["N", 3])})
MISMATCHES = {
    "inputs": (
        'input { name: "x" data_type: TYPE_FP32 dims: 3 } input { name: "z" data_type: TYPE_FP32 dims: 3 }'
        ' output { name: "y" data_type: TYPE_FP32 dims: 3 }',
        "unable to load model 'inputs', configuration expects 2 inputs, model provides 1",
    ),
    "names": (
        'input { name: "z" data_type: TYPE_FP32 dims: 3 } output { name: "y" data_type: TYPE_FP32 dims: 3 }',
        "unexpected inference input 'z', allowed inputs are: x",
    ),
    "outputs": (
        'input { name: "x" data_type: TYPE_FP32 dims: 3 } output { name: "z" data_type: TYPE_FP32 dims: 3 }',
        "unexpected inference output 'z', allowed outputs are: y",
    ),
    "types": (
        'input { name: "x" data_type: TYPE_INT8 dims: 3 } output { name: "y" data_type: TYPE_FP32 dims: 3 }',
        "unable to load model 'types', configuration expects datatype TYPE_INT8 for input 'x', model provides"
        " TYPE_FP32",
    ),
    "dims": (
        'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 3 }',
        "model 'dims', tensor 'x': the model expects 2 dimensions (shape [-1,3]) but the model configuration specifies"
        " 2 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape,"
        " making complete shape [-1,4])",
    ),
}


@rule("2.14.3")
@pytest.mark.parametrize("name", MISMATCHES)
def test_a_model_that_does_not_fit_its_config(server: Server, repository: Path, name: str) -> None:
    config, text = MISMATCHES[name]
    found = refused(
        server, repository, name, {"model.onnx": SMALL}, f'backend: "onnxruntime" max_batch_size: 8 {config}'
    )
    assert found == f"Invalid argument: {text}"


@rule("2.14.2")
def test_a_model_that_cannot_batch_refuses_a_batch_size(server: Server, repository: Path) -> None:
    fixed = onnx_model(IDENTITY, {"x": (FLOAT, [2, 3])}, {"y": (FLOAT, [2, 3])})
    assert refused(server, repository, "fixed", {"model.onnx": fixed}, "max_batch_size: 8") == (
        "Invalid argument: autofill failed for model 'fixed': model does not support batching while non-zero"
        " max_batch_size is specified"
    )


ACCEPTED = """
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
parameters { key: "inter_op_thread_count" value { string_value: "2" } }
parameters { key: "execution_mode" value { string_value: "1" } }
parameters { key: "enable_mem_arena" value { string_value: "1" } }
parameters { key: "enable_mem_pattern" value { string_value: "off" } }
parameters { key: "memory.enable_memory_arena_shrinkage" value { string_value: "cpu:0" } }
parameters { key: "session.use_device_allocator_for_initializers" value { string_value: "1" } }
optimization { graph { level: 1 } execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } }
instance_group { kind: KIND_CPU count: 2 }
"""
REFUSED = {
    "mode": (
        'parameters { key: "execution_mode" value { string_value: "2" } }',
        "Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got 2 .",
    ),
    "number": (
        'parameters { key: "intra_op_thread_count" value { string_value: "many" } }',
        "failed to convert 'many' to integral number",
    ),
    "switch": (
        'parameters { key: "enable_mem_arena" value { string_value: "maybe" } }',
        "failed to convert 'maybe' to boolean",
    ),
    "accelerator": (
        'optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }',
        "unknown Execution Accelerator 'openvino' is requested",
    ),
}


@rule("2.14.4")
def test_parameters(server: Server, repository: Path) -> None:
    write(repository, "tuned", {"model.onnx": three_layers()}, ACCEPTED)
    assert len(server.load("tuned").instances()) == 2
    x = np.ones((1, 64), np.float32)
    np.testing.assert_allclose(one(server, "tuned", x=x)["y"], directly(three_layers(), x=x)[0], rtol=1e-5)
    for name, (config, text) in REFUSED.items():
        assert refused(server, repository, name, {"model.onnx": three_layers()}, config) == f"Invalid argument: {text}"


@rule("2.14.4")
def test_an_optional_input_is_an_initializer(server: Server, repository: Path) -> None:
    model = onnx_model(
        [helper.make_node("Add", ["x", "bias"], ["y"])],
        {"x": (FLOAT, [2]), "bias": (FLOAT, [2])},
        {"y": (FLOAT, [2])},
        {"bias": np.full(2, 10, np.float32)},
    )
    config = (
        'backend: "onnxruntime" input [ { name: "x" data_type: TYPE_FP32 dims: 2 },'
        ' { name: "bias" data_type: TYPE_FP32 dims: 2 optional: true } ]'
        ' output { name: "y" data_type: TYPE_FP32 dims: 2 }'
    )
    write(repository, "optional", {"model.onnx": model}, config)
    server.load("optional")
    x = np.array([1, 2], np.float32)
    assert one(server, "optional", x=x)["y"].tolist() == [11, 12]
    assert one(server, "optional", x=x, bias=x)["y"].tolist() == [2, 4]
    batching = config.replace("dims: 2", "dims: 1").replace("input [", "max_batch_size: 1 input [")
    model = onnx_model(
        [helper.make_node("Add", ["x", "bias"], ["y"])],
        {"x": (FLOAT, ["N", 1]), "bias": (FLOAT, ["N", 1])},
        {"y": (FLOAT, ["N", 1])},
        {"bias": np.full((1, 1), 10, np.float32)},
    )
    assert "optional input 'bias' is not supported for models that support batching" in refused(
        server, repository, "optional_batching", {"model.onnx": model}, batching
    )


@rule("2.14.5")
def test_what_a_run_refuses_is_the_requests_error(server: Server, repository: Path) -> None:
    reshape = onnx_model(
        [helper.make_node("Reshape", ["x", "two"], ["y"])],
        {"x": (FLOAT, ["N"])},
        {"y": (FLOAT, [2, "M"])},
        {"two": np.array([2, -1])},
    )
    write(repository, "reshape", {"model.onnx": reshape}, 'backend: "onnxruntime"')
    server.load("reshape")
    assert one(server, "reshape", x=np.arange(4, dtype=np.float32))["y"].tolist() == [[0, 1], [2, 3]]
    with pytest.raises(InternalError, match=r"^onnx runtime error \d+: .*Reshape"):
        one(server, "reshape", x=np.arange(3, dtype=np.float32))
    text = onnx_model(IDENTITY, {"x": (TensorProto.STRING, ["N"])}, {"y": (TensorProto.STRING, ["N"])})
    write(repository, "text", {"model.onnx": text}, "max_batch_size: 0")
    server.load("text")
    words = np.array([[b"a\0b"], ["ü".encode()]], np.object_)
    assert one(server, "text", x=words)["y"].tolist() == [[b"a"], ["ü".encode()]]
    with pytest.raises(InvalidArgumentError, match=r"element .* of input 'x' is not UTF-8"):
        one(server, "text", x=np.array([[b"\xff"]], np.object_))


def test_what_the_compiled_backend_has_and_this_one_does_not(server: Server, repository: Path) -> None:
    config = (
        'backend: "onnxruntime" max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 3 }'
        ' output { name: "y" data_type: TYPE_FP32 dims: 3 }'
        ' batch_input { kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 source_input: "x" }'
    )
    text = (
        "Unsupported: model 'ragged' has {}, which tritonlab's onnxruntime backend is without. "
        'tritonlab.reset(backends={{"ragged": "borrow:HOST:8001"}}) lets a running server answer for it, "stand-in" '
        "invents answers of the right shapes"
    )
    assert refused(server, repository, "ragged", {"model.onnx": SMALL}, config) == text.format("batch_input")
    ragged = config.partition(" batch_input")[0].replace("dims: 3 }", "dims: -1 allow_ragged_batch: true }", 1)
    assert refused(server, repository, "ragged", {"model.onnx": SMALL}, ragged) == text.format("allow_ragged_batch")
    state = (
        "sequence_batching { state { input_name: 's' output_name: 't' data_type: TYPE_FP32 dims: 1 } control_input {"
        " name: 'go' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } } }"
    )
    found = refused(server, repository, "ragged", {"model.onnx": SMALL}, ragged.replace("-1 allow", "3 allow") + state)
    assert found == text.format("sequence_batching.state and allow_ragged_batch")


@rule("2.14.6")
def test_settings_of_the_server(tmp_path: Path) -> None:
    """The batch size of a model that has none of its own; one for all backends counts where this one has none."""
    for name in ("a", "b"):
        write(tmp_path, name, {"model.onnx": three_layers()})
    for backend_config, size in (
        ({"default-max-batch-size": "8"}, 8),
        ({"default-max-batch-size": "8", "onnxruntime": {"default-max-batch-size": "2"}, "pytorch": {"x": "1"}}, 2),
        ({"onnxruntime": {"default-max-batch-size": "0"}}, 0),
    ):
        with Server(tmp_path, model_control_mode="explicit", backend_config=backend_config) as server:
            config = server.load("a").config()
            assert config["max_batch_size"] == size
            assert config["input"][0]["dims"] == ([64] if size else [-1, 64])
            assert not config.get("parameters")
    wrong = {"onnxruntime": {"default-max-batch-size": "many"}}
    with (
        Server(tmp_path, model_control_mode="explicit", backend_config=wrong) as server,
        pytest.raises(ModelLoadError, match="failed to convert 'many' to integral number"),
    ):
        server.load("b")


@rule("2.14.6")
@pytest.mark.parametrize(
    ("settings", "threads"),
    [
        ({"intra_op_thread_count": "3"}, (5, 0)),  # without the shared pool only the model's own counts
        ({"enable-global-threadpool": "1", "intra_op_thread_count": "3", "inter_op_thread_count": "2"}, (3, 2)),
        ({"enable-global-threadpool": "true"}, (0, 0)),
    ],
)
def test_the_threads_of_the_shared_pool_are_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], threads: tuple[int, int]
) -> None:
    monkeypatch.setenv("TRITONLAB_BACKEND_CONFIG", json.dumps(settings))
    five = 'parameters { key: "intra_op_thread_count" value { string_value: "5" } }'
    model = write(tmp_path, "mlp", {"model.onnx": three_layers()}, MLP + five)
    options = in_process("onnxruntime", model, monkeypatch)._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == threads


def test_tensors_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime reads the request's array where it lies, and what it has made is what is sent."""
    model = write(tmp_path, "mlp", {"model.onnx": three_layers()}, MLP)
    instance = in_process("onnxruntime", model, monkeypatch)
    session = instance._session
    spy = Spy(session.run)
    monkeypatch.setattr(instance, "_session", SimpleNamespace(run=spy))
    request = build_request({"x": np.ones((2, 64), np.float32)}, requested_outputs=["y"])
    (response,) = instance.execute([request])
    _, fed, _ = spy.arguments
    assert np.shares_memory(fed["x"], request.inputs()[0].as_numpy())
    assert np.shares_memory(response.output_tensors()[0].as_numpy(), spy.returned[0])
    assert not spy.returned[0].flags.owndata  # it is ONNX Runtime's own memory


def typed_model(node: Any, inputs: dict[str, Any], outputs: dict[str, Any], domain: str = "") -> Any:
    """Return a model of one node whose inputs and outputs have any types, by type protos."""
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_value_info(name, kind) for name, kind in inputs.items()],
        [helper.make_value_info(name, kind) for name, kind in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 18), *([helper.make_opsetid(domain, 3)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    return model


ML = "ai.onnx.ml"
ONE = helper.make_tensor_type_proto(FLOAT, [2])
NOT_TENSORS = {
    "x SEQUENCE": typed_model(
        helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0),
        {"x": helper.make_sequence_type_proto(ONE)},
        {"y": helper.make_tensor_type_proto(FLOAT, ["N"])},
    ),
    "z SEQUENCE": typed_model(  # what sklearn's converters make of probabilities unless they are not to
        helper.make_node("ZipMap", ["p"], ["z"], domain=ML, classlabels_strings=["a", "b"]),
        {"p": helper.make_tensor_type_proto(FLOAT, ["N", 2])},
        {
            "z": helper.make_sequence_type_proto(
                helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(FLOAT, []))
            )
        },
        ML,
    ),
    "x UNKNOWN": typed_model(
        helper.make_node("OptionalGetElement", ["x"], ["y"]), {"x": helper.make_optional_type_proto(ONE)}, {"y": ONE}
    ),
}


@rule("2.14.3")
@pytest.mark.parametrize("what", NOT_TENSORS)
def test_what_is_not_a_tensor_is_refused(server: Server, repository: Path, what: str) -> None:
    name, kind = what.split()
    found = refused(server, repository, f"not_a_tensor_{name}_{kind}", {"model.onnx": NOT_TENSORS[what]})
    assert found == (
        f"Unsupported: Unsupported ONNX Type 'ONNX_TYPE_{kind}' for I/O '{name}', expected 'ONNX_TYPE_TENSOR'."
    )


def test_a_model_that_torch_has_exported(server: Server, repository: Path) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).eval()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = {"features": {0: "batch"}, "scores": {0: "batch"}}
        names = {"input_names": ["features"], "output_names": ["scores"], "dynamic_axes": axes}
        torch.onnx.export(network, (torch.zeros(1, 3),), file, dynamo=False, **names)
    write(repository, "exported", {"model.onnx": file.getvalue()})
    config = server.load("exported").config()
    assert (config["max_batch_size"], config["input"][0]["dims"], config["output"][0]["dims"]) == (4, [3], [2])
    x = np.random.default_rng(2).standard_normal((3, 3), np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(one(server, "exported", features=x)["scores"], expected, rtol=1e-5)


def test_texts_as_classifiers_have_them(server: Server, repository: Path) -> None:
    """Text in, numbers out, and the other way round; the elements that are sent are bytes."""
    encode = helper.make_node(
        "LabelEncoder", ["word"], ["label"], domain=ML, keys_strings=["ä", "b"], values_int64s=[1, 2], default_int64=-1
    )
    decode = helper.make_node(
        "LabelEncoder", ["label"], ["again"], domain=ML, keys_int64s=[1, 2], values_strings=["ä", ""]
    )
    text, number = TensorProto.STRING, TensorProto.INT64
    outputs = {"label": (number, ["N", 2]), "again": (text, ["N", 2])}
    model = onnx_model([encode, decode], {"word": (text, ["N", 2])}, outputs)
    model.opset_import.append(helper.make_opsetid(ML, 3))
    write(repository, "classifier", {"model.onnx": model})
    server.load("classifier")
    found = one(server, "classifier", word=np.array([["ä".encode(), b"b"], [b"", b"b"]], np.object_))
    assert found["label"].tolist() == [[1, 2], [-1, 2]]
    assert found["again"].tolist() == [["ä".encode(), b""], [b"_Unused", b""]]
    (response,) = server.model("classifier").infer(
        inputs={"word": np.array([[b"b", b"b"]], np.object_)}, requested_outputs=["again"]
    )
    assert {name: tensor.numpy().tolist() for name, tensor in response.outputs.items()} == {"again": [[b"", b""]]}


def test_weights_in_a_file_of_their_own(server: Server, repository: Path) -> None:
    model = three_layers()
    expected = directly(model, x=np.ones((1, 64), np.float32))[0]
    for name in ("external", "lost"):
        place = repository / name / "1"
        place.mkdir(parents=True)
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save(copy, place / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (repository / "lost" / "1" / "weights.bin").unlink()
    server.load("external")
    np.testing.assert_array_equal(one(server, "external", x=np.ones((1, 64), np.float32))["y"], expected)
    text = refused(server, repository, "lost", {})
    assert text.startswith("Internal: onnx runtime error ") and "<repository>/lost/1/weights.bin" in text


@rule("2.14.1")
def test_files_of_another_age_and_broken_ones(server: Server, repository: Path) -> None:
    new_opset, new_format = (onnx_model(IDENTITY, {"x": (FLOAT, ["N"])}, {"y": (FLOAT, ["N"])}) for _ in range(2))
    new_opset.opset_import[0].version = 99
    new_format.ir_version = 99
    files = {
        "new_opset": (new_opset, "ONNX Runtime only *guarantees* support for models stamped with"),
        "new_format": (new_format, "Unsupported model IR version: 99"),
        "cut": (three_layers().SerializeToString()[:5000], "Protobuf parsing failed."),
        "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 3\n", "Protobuf parsing failed."),
    }
    for name, (content, words) in files.items():
        text = refused(server, repository, name, {"model.onnx": content})
        assert text.startswith("Internal: onnx runtime error ") and words in text, text


def test_no_elements_and_odd_names(server: Server, repository: Path) -> None:
    nodes = [helper.make_node("Identity", ["in:0"], ["out/é"]), helper.make_node("Neg", ["in:0"], ["b"])]
    model = onnx_model(nodes, {"in:0": (FLOAT, ["N", "M"])}, {"out/é": (FLOAT, ["N", "M"]), "b": (FLOAT, ["N", "M"])})
    write(repository, "odd", {"model.onnx": model})
    server.load("odd")
    for shape in ((2, 0), (1, 3)):
        array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        found = one(server, "odd", **{"in:0": array})
        np.testing.assert_array_equal(found["out/é"], array)
        np.testing.assert_array_equal(found["b"], -array)


CONTROLLED = """backend: "onnxruntime" max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 } sequence_batching { control_input { name: "go" control {
kind: CONTROL_SEQUENCE_START %s_false_true: [ 0, 10 ] } } }"""


@rule("2.14.3")
def test_controls_of_sequences_are_inputs_of_the_model(server: Server, repository: Path) -> None:
    def model(*shape: Any) -> Any:
        inputs = {"x": (FLOAT, ["N", 1])} | ({"go": (FLOAT, shape)} if shape else {})
        return onnx_model(
            [helper.make_node("Sum", ["x", *(["go"] if shape == ("N", 1) else [])], ["y"])],
            inputs,
            {"y": (FLOAT, ["N", 1])},
        )

    write(repository, "controlled", {"model.onnx": model("N", 1)}, CONTROLLED % "fp32")
    handle, x = server.load("controlled"), np.array([[5]], np.float32)
    found = [next(iter(handle.infer(inputs={"x": x}, correlation_id=7, flags=flags))).outputs["y"] for flags in (1, 2)]
    assert [each.numpy().tolist() for each in found] == [[[15]], [[5]]]
    of_control = "Invalid argument: unable to load model '{}', sequence control 'go'"
    assert refused(server, repository, "typed", {"model.onnx": model("N", 1)}, CONTROLLED % "int32") == (
        f"{of_control.format('typed')}, the model expects data-type FLOAT but the model configuration specifies "
        "data-type TYPE_INT32"
    )
    assert refused(server, repository, "shaped", {"model.onnx": model("N", 2)}, CONTROLLED % "fp32") == (
        f"{of_control.format('shaped')} in model has dims [2] but dims [1] is expected"
    )
    assert refused(server, repository, "without", {"model.onnx": model()}, CONTROLLED % "fp32") == (
        "Internal: configuration specified sequence control 'go', but model does not provide that input"
    )


def test_a_load_error_has_the_code_of_the_text(server: Server, repository: Path) -> None:
    write(repository, "coded", {"model.onnx": b""})
    with pytest.raises(ModelLoadError) as caught:
        server.load("coded")
    assert caught.value.code is Code.INVALID_ARG and caught.value.exception is None
