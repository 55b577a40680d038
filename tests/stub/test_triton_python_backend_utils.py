from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.stub import triton_python_backend_utils as pure

DIRECTORY = Path(pure.__file__).parent

PURE = {
    "ModelConfig", "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END", "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL", "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY", "deserialize_bytes_tensor", "get_input_config_by_name", "get_input_tensor_by_name",
    "get_output_config_by_name", "get_output_tensor_by_name", "json", "np", "numpy_to_triton_type",
    "serialize_byte_tensor", "struct", "triton_string_to_numpy", "triton_to_numpy_type",
    "using_decoupled_model_transaction_policy",
}  # fmt: skip
ATTACHED = {
    "InferenceRequest", "InferenceResponse", "Logger", "MetricFamily", "PreferredMemory", "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU", "Tensor", "TritonError", "TritonModelException", "get_model_dir", "is_model_ready",
    "load_model", "unload_model",
}  # fmt: skip


def public(module: ModuleType) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_")}


@pytest.mark.rule("1.1.1", "1.1.2")
def test_only_the_pure_part_is_there_before_the_model_was_imported() -> None:
    assert public(pure) == PURE


@pytest.mark.rule("1.1.3")
def test_every_name_is_there_afterwards(pb_utils: ModuleType) -> None:
    assert public(pb_utils) == PURE | ATTACHED


@pytest.mark.rule("1.1.1")
def test_a_notebook_may_import_it_from_the_end_of_its_path() -> None:
    """As a top-level module, without tritonlab, and with nothing but the pure part."""
    script = (
        "import sys; sys.path.append(sys.argv[1]); import triton_python_backend_utils as m; "
        "print(hasattr(m, 'Tensor'), m.triton_to_numpy_type(11).__name__, 'tritonlab' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(DIRECTORY)], capture_output=True, text=True, timeout=60, cwd="/"
    )
    assert (done.stdout, done.stderr) == ("False float32 False\n", "")


@pytest.mark.rule("1.2")
def test_constants() -> None:
    assert (pure.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pure.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) == (1, 2)
    assert pure.TRITONSERVER_RESPONSE_COMPLETE_FINAL == 1
    assert (pure.TRITONSERVER_REQUEST_RELEASE_ALL, pure.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) == (1, 2)


@pytest.mark.rule("1.2.2", "1.16")
def test_config_types() -> None:
    assert len(pure.TRITON_STRING_TO_NUMPY) == 13
    assert pure.triton_string_to_numpy("TYPE_BOOL") is bool
    assert pure.triton_string_to_numpy("TYPE_STRING") is np.object_
    for unknown in ("FP32", "TYPE_BF16"):
        with pytest.raises(KeyError):
            pure.triton_string_to_numpy(unknown)


@pytest.mark.rule("1.16")
def test_datatype_numbers() -> None:
    types = [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64, np.float16]
    types += [np.float32, np.float64, np.object_]
    assert [pure.triton_to_numpy_type(number) for number in range(1, 14)] == types
    assert [pure.numpy_to_triton_type(kind) for kind in types] == list(range(1, 14))
    assert [pure.triton_to_numpy_type(number) for number in (0, 14, -1)] == [None] * 3
    assert [pure.numpy_to_triton_type(kind) for kind in (np.bytes_, np.dtype("f4"))] == [13, 11]
    for kind in (bool, float, int, str, "float32", np.str_, object, np.dtype(">f4")):
        assert pure.numpy_to_triton_type(kind) is None


@pytest.mark.rule("1.6.4", "1.16")
def test_serialize() -> None:
    assert pure.serialize_byte_tensor(np.array([], dtype=object)) == ()
    assert pure.serialize_byte_tensor(np.array([1])) is None
    assert pure.serialize_byte_tensor(np.array(["a"])) is None
    mixed = np.array([[b"a", None], ["é", 5]], dtype=object)
    assert pure.serialize_byte_tensor(mixed) == (
        b"\x01\x00\x00\x00a\x04\x00\x00\x00None\x02\x00\x00\x00\xc3\xa9\x01\x00\x00\x005"
    )


@pytest.mark.rule("1.6.4", "1.16")
def test_deserialize() -> None:
    elements = np.array([b"a", b"", b"bc\x00"], dtype=object)
    assert pure.deserialize_bytes_tensor(pure.serialize_byte_tensor(elements)).tolist() == elements.tolist()
    empty = pure.deserialize_bytes_tensor(b"")
    assert (empty.dtype, empty.shape) == (np.dtype(object), (0,))
    with pytest.raises(struct.error) as error:
        pure.deserialize_bytes_tensor(b"\x05\x00\x00\x00a")
    assert str(error.value) == (
        "unpack_from requires a buffer of at least 9 bytes for unpacking 5 bytes at offset 4 (actual buffer size is 5)"
    )
    with pytest.raises(struct.error, match="at least 4 bytes for unpacking 4 bytes at offset 0"):
        pure.deserialize_bytes_tensor(b"\x05")


@pytest.mark.rule("1.16")
def test_tensors_by_name() -> None:
    a, b = SimpleNamespace(name=lambda: "a"), SimpleNamespace(name=lambda: "b")
    holder = SimpleNamespace(inputs=lambda: [a, b, a], output_tensors=lambda: [b])
    assert pure.get_input_tensor_by_name(holder, "b") is b
    assert pure.get_input_tensor_by_name(holder, "c") is None
    assert pure.get_output_tensor_by_name(holder, "b") is b
    assert pure.get_output_tensor_by_name(holder, "a") is None


@pytest.mark.rule("1.16")
def test_entries_of_the_config_by_name() -> None:
    config = {"input": [{"name": "a"}], "output": [{"name": "o"}]}
    assert pure.get_input_config_by_name(config, "a") is config["input"][0]
    assert pure.get_output_config_by_name(config, "o") is config["output"][0]
    assert pure.get_input_config_by_name(config, "o") is None
    assert pure.get_output_config_by_name({}, "o") is None


@pytest.mark.rule("1.16")
def test_the_decoupled_policy() -> None:
    is_decoupled = pure.using_decoupled_model_transaction_policy
    assert is_decoupled({}) is False
    assert is_decoupled({"model_transaction_policy": {"decoupled": True}}) is True
    with pytest.raises(KeyError, match="decoupled"):
        is_decoupled({"model_transaction_policy": {}})


# -- ModelConfig


def config(**fields: Any) -> pure.ModelConfig:
    complete = {
        "name": "m",
        "max_batch_size": 4,
        "input": [
            {"name": "I", "data_type": "TYPE_FP32", "dims": [3], "optional": False},
            {"name": "J", "data_type": "TYPE_INVALID", "dims": []},
        ],
        "output": [{"name": "O", "data_type": "TYPE_FP32", "dims": [-1]}],
    }
    return pure.ModelConfig(json.dumps({**complete, **fields}))


@pytest.mark.rule("1.17.1")
def test_the_dict_is_the_live_one() -> None:
    found = config()
    found.as_dict()["x"] = 1
    assert found.as_dict()["x"] == 1


@pytest.mark.rule("1.17.2")
def test_the_batch_size_only_grows() -> None:
    for size in (4, 9):
        found = config()
        found.set_max_batch_size(size)
        assert found.as_dict()["max_batch_size"] == size
    with pytest.raises(ValueError) as error:
        config().set_max_batch_size(3)
    assert str(error.value) == (
        "configuration specified max_batch_size 4, but in auto-complete-config function for model 'm' specified "
        "max_batch_size 3"
    )


@pytest.mark.rule("1.17.2")
def test_dynamic_batching_excludes_other_schedulers() -> None:
    found = config()
    found.set_dynamic_batching()
    assert found.as_dict()["dynamic_batching"] == {}
    batching = config(dynamic_batching={"max_queue_delay_microseconds": 5})
    batching.set_dynamic_batching()
    assert batching.as_dict()["dynamic_batching"] == {"max_queue_delay_microseconds": 5}
    for other in ("sequence_batching", "ensemble_scheduling"):
        with pytest.raises(ValueError) as error:
            config(**{other: {}}).set_dynamic_batching()
        assert str(error.value) == (
            f"Configuration specified scheduling_choice as '{other}', but auto-complete-config function for model 'm' "
            "tries to set scheduling_choice as 'dynamic_batching'"
        )


IN_FUNCTION = "in auto-complete-config function for model 'm'"


@pytest.mark.rule("1.17.2")
@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({}, f"input {IN_FUNCTION} is missing 'name' property."),
        ({"name": "q"}, f"input 'q' {IN_FUNCTION} is missing 'data_type' property."),
        ({"name": "q", "data_type": "x"}, f"input 'q' {IN_FUNCTION} is missing 'dims' property."),
        (
            {"name": "q", "x": 1},
            f"input 'q' {IN_FUNCTION} contains property other than 'name', 'data_type', 'dims' and 'optional'.",
        ),
        (
            {"name": "I", "data_type": "TYPE_FP16", "dims": [3]},
            "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'I', model provides "
            "TYPE_FP16",
        ),
        (
            {"name": "I", "data_type": "TYPE_FP32", "dims": [4]},
            "model 'm', tensor 'I': the model expects dims [4] but the model configuration specifies dims [3]",
        ),
        (
            {"name": "I", "data_type": "TYPE_FP32", "dims": [3], "optional": True},
            "model 'm', tensor 'I': the model expects optional True but the model configuration specifies optional "
            "False",
        ),
    ],
)
def test_inputs_that_conflict(entry: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as error:
        config().add_input(entry)
    assert str(error.value) == text


@pytest.mark.rule("1.17.2")
@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({}, f"output {IN_FUNCTION} is missing 'name' property."),
        (
            {"name": "O", "data_type": "TYPE_FP32", "dims": [-1], "optional": True},
            f"output 'O' {IN_FUNCTION} contains property other than 'name', 'data_type' and 'dims'.",
        ),
        (
            {"name": "O", "data_type": "TYPE_FP16", "dims": [-1]},
            "unable to load model 'm', configuration expects datatype TYPE_FP32 for output 'O', model provides "
            "TYPE_FP16",
        ),
        (
            {"name": "O", "data_type": "TYPE_FP32", "dims": [2]},
            "model 'm', tensor 'O': the model expects dims [2] but the model configuration specifies dims [-1]",
        ),
    ],
)
def test_outputs_that_conflict(entry: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as error:
        config().add_output(entry)
    assert str(error.value) == text


@pytest.mark.rule("1.17.3")
def test_an_unknown_key_without_a_name() -> None:
    with pytest.raises(KeyError, match="name"):
        config().add_input({"x": 1})


@pytest.mark.rule("1.17.2", "1.17.5")
def test_what_is_missing_is_filled_in_place() -> None:
    found = config()
    entry = found.as_dict()["input"][1]
    found.add_input({"name": "J", "data_type": "TYPE_FP32", "dims": [2], "optional": True})
    assert entry == {"name": "J", "data_type": "TYPE_FP32", "dims": [2], "optional": True}
    new = {"name": "K", "data_type": "anything", "dims": []}
    found.add_output(new)
    assert found.as_dict()["output"][-1] is new


@pytest.mark.rule("1.17.2")
def test_the_transaction_policy() -> None:
    found = config()
    found.set_model_transaction_policy({})
    assert found.as_dict()["model_transaction_policy"] == {}
    found.set_model_transaction_policy({"decoupled": True})
    assert found.as_dict()["model_transaction_policy"] == {"decoupled": True}
    with pytest.raises(ValueError) as error:
        found.set_model_transaction_policy({"decoupled": False})
    assert str(error.value) == (
        "trying to change decoupled property in auto-complete-config for model 'm', which is already set to 'True'."
    )
    with pytest.raises(ValueError) as error:
        found.set_model_transaction_policy({"x": 1})
    assert str(error.value) == (f"model transaction property {IN_FUNCTION} contains property other than 'decoupled'.")
