"""The same repository on both servers: equal answers to good requests, equal texts for bad ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.models import answers

from .clients import Answer, Client, Raw
from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, config, model
from .rules import rule

DATATYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"]
DATATYPES += ["FP16", "FP32", "FP64", "STRING"]

MODELS = {
    "add_sub": model(ADD_SUB, ADD_SUB_CONFIG),
    "echo_batch": model(ECHO, config("IN FP32 4", "IN FP32 4", "max_batch_size: 4", CPU)),
    "echo_pair": model(
        ECHO,
        config("A INT32 1;B INT32 1", "A INT32 1;B INT32 1", "max_batch_size: 4", CPU),
    ),
    "echo_text": model(ECHO, config("IN STRING 2", "IN STRING 2")),
    "echo_any": model(ECHO, config("IN FP64 -1,2", "IN FP64 -1,2")),
    "echo_optional": model(ECHO, config("A FP32 1;B FP32 1 optional", "A FP32 1;B FP32 1")),
    "echo_types": model(
        ECHO,
        config(";".join(f"{t} {t} -1 optional" for t in DATATYPES), ";".join(f"{t} {t} -1" for t in DATATYPES)),
    ),
    "versions": {
        **model(ECHO, config("IN INT32 1", "IN INT32 1", "version_policy { all {} }", CPU)),
        "3/model.py": ECHO,
    },
    "reshaped": model(
        answers("np.array(request.inputs()[0].shape(), dtype=np.int64)", writes="SHAPE"),
        'backend: "python" max_batch_size: 2 instance_group { kind: KIND_CPU }\n'
        'input { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] reshape { shape: [ 2, 2 ] } }\n'
        'output { name: "SHAPE" data_type: TYPE_INT64 dims: [ 3 ] }\n',
    ),
}


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def i32(*values: int) -> np.ndarray[Any, Any]:
    return np.array([values], dtype=np.int32)


def text(*values: bytes) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.object_)


ADD_SUB_INPUTS = {"INPUT0": f32(4), "INPUT1": np.ones(4, dtype=np.float32)}


@rule("3.4.4")
def test_add_sub_answers(client: Client) -> None:
    answer = client.infer("add_sub", ADD_SUB_INPUTS, request_id="r1")
    assert answer.plain() == {
        "outputs": {"OUTPUT0": ("FP32", (4,), [1, 2, 3, 4]), "OUTPUT1": ("FP32", (4,), [-1, 0, 1, 2])},
        "error": ("", ""),
        "parameters": {},
        "id": "r1",
        "model": ("add_sub", "1"),
        "final": True,
    }


@rule("3.4.1", "1.7.6")
def test_only_requested_outputs_come_back(client: Client) -> None:
    answer = client.infer("add_sub", ADD_SUB_INPUTS, outputs=["OUTPUT1"])
    assert list(answer.outputs) == ["OUTPUT1"]


@rule("1.4.4", "1.6.1")
@pytest.mark.parametrize(
    "array",
    [
        np.array([True, False]),
        *(np.array([0, np.iinfo(t).max], dtype=t) for t in ["u1", "u2", "u4", "u8"]),
        *(np.array([0, np.iinfo(t).min, np.iinfo(t).max], dtype=t) for t in ["i1", "i2", "i4", "i8"]),
        *(np.array([0, -1.5, np.inf], dtype=t) for t in ["f2", "f4", "f8"]),
        text(b"", b"caf\xc3\xa9", b"\0\xff"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_every_datatype_goes_there_and_back(client: Client, array: np.ndarray[Any, Any]) -> None:
    name = "STRING" if array.dtype == object else {"b": "BOOL", "u": "UINT", "i": "INT", "f": "FP"}[array.dtype.kind]
    name += str(array.dtype.itemsize * 8) if name[-1] in "TP" else ""
    answer = client.infer("echo_types", {name: array})
    assert answer.error == ""
    assert answer.datatypes == {name: "BYTES" if name == "STRING" else name}
    assert answer.outputs[name].dtype == array.dtype
    assert answer.outputs[name].tolist() == array.tolist()


@rule("3.4.3", "1.4.6")
def test_empty_tensors_pass_where_dims_are_variable(client: Client) -> None:
    answer = client.infer("echo_any", {"IN": np.zeros((0, 2))})
    assert (answer.error, answer.outputs["IN"].shape) == ("", (0, 2))


@rule("5.4.6")
def test_the_model_sees_the_reshaped_input(client: Client) -> None:
    assert client.infer("reshaped", {"IN": f32(2, 4)}).outputs["SHAPE"].tolist() == [2, 2, 2]
    assert "Expected [-1,4], got [2,2,2]" in client.infer("reshaped", {"IN": f32(2, 2, 2)}).error


@rule("5.4.3", "5.5.6")
def test_an_optional_input_may_be_absent_and_only_the_number_is_checked(client: Client) -> None:
    assert list(client.infer("echo_optional", {"A": f32(1)}).outputs) == ["A"]
    assert sorted(client.infer("echo_optional", {"A": f32(1), "B": f32(1)}).outputs) == ["A", "B"]
    assert list(client.infer("echo_optional", {"B": f32(1)}).outputs) == ["B"]


@rule("5.11.6")
def test_a_request_goes_to_the_version_it_names_or_the_highest(client: Client) -> None:
    assert [client.infer("versions", {"IN": i32(1)[0]}, version=v).version for v in (-1, 1, 3)] == ["3", "1", "3"]


UNKNOWN = "[request id: <id_unknown>] "
BATCHING_NOTE = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each"
    " input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting"
    " max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


def bad(
    name: str, inputs: dict[str, Any], text: str, code: str = "INVALID_ARG", **options: Any
) -> tuple[str, dict[str, Any], dict[str, Any], str, str]:
    """Return a request to a model, its further options, and the code and text of its refusal."""
    return name, inputs, options, code, text


BAD_REQUESTS = {
    "one input too many, which Triton counts before it looks at names": bad(
        "add_sub",
        {**ADD_SUB_INPUTS, "X": f32(4)},
        UNKNOWN + "expected 2 inputs but got 3 inputs for model 'add_sub'. Got input(s) ['INPUT0','INPUT1','X'], but"
        " missing required input(s) ]. Please provide all required input(s).",
    ),
    "outputs are looked at first": bad(
        "add_sub", {"INPUT0": f32(4)}, "unexpected inference output 'NO' for model 'add_sub'", outputs=["NO"]
    ),
    "names before the batch": bad(
        "echo_pair",
        {"A": i32(1), "X": np.zeros((9, 1), dtype=np.int32)},
        "unexpected inference input 'X' for model 'echo_pair'",
    ),
    "the batch before the datatype": bad(
        "echo_batch",
        {"IN": np.zeros((5, 4), dtype=np.int32)},
        UNKNOWN + "inference request batch-size must be <= 4 for 'echo_batch'",
    ),
    "unknown input instead of a known one": bad(
        "add_sub", {"INPUT0": f32(4), "X": f32(4)}, "unexpected inference input 'X' for model 'add_sub'"
    ),
    "unknown output": bad(
        "add_sub", ADD_SUB_INPUTS, "unexpected inference output 'NO' for model 'add_sub'", outputs=["NO"]
    ),
    "one input missing": bad(
        "add_sub",
        {"INPUT0": f32(4)},
        UNKNOWN + "expected 2 inputs but got 1 inputs for model 'add_sub'. Got input(s) ['INPUT0'], but missing"
        " required input(s) ['INPUT1']. Please provide all required input(s).",
    ),
    "no input at all": bad(
        "echo_any",
        {},
        UNKNOWN + "expected 1 inputs but got 0 inputs for model 'echo_any'. Got input(s) [], but missing required"
        " input(s) ['IN']. Please provide all required input(s).",
    ),
    "no input where some are optional": bad(
        "echo_optional",
        {},
        UNKNOWN + "expected number of inputs between 1 and 2 but got 0 inputs for model 'echo_optional'. Got input(s)"
        " [], but missing required input(s) ['A']. Please provide all required input(s).",
    ),
    "the id stands in the prefix": bad(
        "add_sub",
        {"INPUT0": f32(4)},
        "[request id: r7] expected 2 inputs but got 1 inputs for model 'add_sub'. Got input(s) ['INPUT0'], but missing"
        " required input(s) ['INPUT1']. Please provide all required input(s).",
        request_id="r7",
    ),
    "shape": bad(
        "add_sub",
        {"INPUT0": f32(5), "INPUT1": f32(4)},
        UNKNOWN + "unexpected shape for input 'INPUT0' for model 'add_sub'. Expected [4], got [5]. ",
    ),
    "rank": bad(
        "echo_any",
        {"IN": np.zeros((1, 2, 2))},
        UNKNOWN + "unexpected shape for input 'IN' for model 'echo_any'. Expected [-1,2], got [1,2,2]. ",
    ),
    "no batch dimension": bad(
        "echo_batch",
        {"IN": f32(4)},
        UNKNOWN + "unexpected shape for input 'IN' for model 'echo_batch'. Expected [-1,4], got [4]." + BATCHING_NOTE,
    ),
    "shape of a batching model": bad(
        "echo_batch",
        {"IN": f32(2, 3)},
        UNKNOWN + "unexpected shape for input 'IN' for model 'echo_batch'. Expected [-1,4], got [2,3]." + BATCHING_NOTE,
    ),
    "no shape on a batching model": bad(
        "echo_batch",
        {"IN": np.float32(1).reshape(())},
        UNKNOWN + "input 'IN' has no shape but model requires batch dimension for 'echo_batch'",
    ),
    "batch too large": bad(
        "echo_batch", {"IN": f32(5, 4)}, UNKNOWN + "inference request batch-size must be <= 4 for 'echo_batch'"
    ),
    "batch dimensions differ": bad(
        "echo_pair",
        {"A": i32(1), "B": np.zeros((2, 1), dtype=np.int32)},
        UNKNOWN + "input 'A|B' batch size does not match other inputs for 'echo_pair'",
    ),
    "batch of none": bad(
        "echo_batch",
        {"IN": f32(0, 4)},
        UNKNOWN + "input byte size mismatch for input 'IN' for model 'echo_batch'. Expected 16, got 0",
    ),
    "dtype": bad(
        "add_sub",
        {"INPUT0": np.zeros(4, dtype=np.int32), "INPUT1": f32(4)},
        UNKNOWN + "inference input 'INPUT0' data-type is 'INT32', but model 'add_sub' expects 'FP32'",
    ),
    "dtype before shape": bad(
        "echo_any",
        {"IN": np.zeros((3, 3), dtype=np.float32)},
        UNKNOWN + "inference input 'IN' data-type is 'FP32', but model 'echo_any' expects 'FP64'",
    ),
    "too few bytes": bad(
        "add_sub",
        {"INPUT0": Raw("FP32", [4], b"\0" * 12), "INPUT1": f32(4)},
        UNKNOWN + "input byte size mismatch for input 'INPUT0' for model 'add_sub'. Expected 16, got 12",
    ),
    "too few strings": bad(
        "echo_text",
        {"IN": Raw("BYTES", [2], b"\x01\0\0\0a")},
        UNKNOWN + "expected 2 string elements for inference input 'IN' for model 'echo_text', got 1",
    ),
    "too many strings": bad(
        "echo_text",
        {"IN": Raw("BYTES", [2], b"\x01\0\0\0a" * 3)},
        UNKNOWN + "unexpected number of string elements 3 for inference input 'IN' for model 'echo_text', expecting 2",
    ),
    "length of a string cut": bad(
        "echo_text",
        {"IN": Raw("BYTES", [2], b"\x01\0\0\0a\x01\0")},
        UNKNOWN + "incomplete string length indicator for inference input 'IN' for model 'echo_text', expecting 4 bytes"
        " but only 2 bytes available. Please make sure the string length indicator is in one buffer.",
    ),
    "string cut": bad(
        "echo_text",
        {"IN": Raw("BYTES", [2], b"\x01\0\0\0a\x09\0\0\0b")},
        "incomplete string data for inference input 'IN', expecting string of length 9 but only 1 bytes available",
    ),
    "string cut before the last": bad(
        "echo_text",
        {"IN": Raw("BYTES", [2], b"\x09\0\0\0b\x01\0\0\0")},
        UNKNOWN + "expected 2 string elements for inference input 'IN' for model 'echo_text', got 1",
    ),
    "unknown model": bad(
        "nobody", {"IN": f32(1)}, "Request for unknown model: 'nobody' is not found", code="NOT_FOUND"
    ),
    "unknown version": bad(
        "versions",
        {"IN": i32(1)[0]},
        "Request for unknown model: 'versions' version 7 is not found",
        code="NOT_FOUND",
        version=7,
    ),
}


def in_one_order(message: str) -> str:
    """Return the text with its lists sorted. Triton keeps inputs in a hash table: what it lists, and which of two it
    blames, has no fixed order (1.4.12)."""
    listed = re.sub(r"(?<=Got input\(s\) \[)[^]]*", lambda m: ",".join(sorted(m[0].split(","))), message)
    return re.sub(r"input '[AB]' batch size", "input 'A|B' batch size", listed)


@rule("5.4.1", "5.4.2", "5.4.4", "5.4.5")
@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_bad_request_is_refused_with_the_same_words_and_runs_nothing(client: Client, case: str) -> None:
    name, inputs, options, code, message = BAD_REQUESTS[case]
    before = client.statistics(name)
    answer = client.infer(name, inputs, **options)
    assert (answer.code, in_one_order(answer.error)) == (code, message)
    if isinstance(before, list):
        after = client.statistics(name)
        assert isinstance(after, list)
        assert [s["execution_count"] for s in after] == [s["execution_count"] for s in before]


@rule("5.11.6", "2.8.1")
def test_an_unloaded_model_has_no_version(side: Client) -> None:
    assert side.placed("gone", model(ADD_SUB, ADD_SUB_CONFIG)) is None
    assert side.unload("gone") is None
    answer: Answer = side.infer("gone", ADD_SUB_INPUTS)
    assert (answer.code, answer.error) == ("NOT_FOUND", "Request for unknown model: 'gone' has no available versions")
