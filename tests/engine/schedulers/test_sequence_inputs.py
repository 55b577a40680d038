from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError, InvalidArgumentError
from tritonlab.engine.schedulers.sequence_inputs import SequenceInputs

START, END = 1, 2


def control(kind: str, values: str, name: str = "C") -> str:
    return f'control_input {{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{kind} {values} }} }}'


def made(sequences: str, max_batch_size: int = 4, directory: Path = Path("/none")) -> SequenceInputs:
    text = f"max_batch_size: {max_batch_size} sequence_batching {{ {sequences} }}"
    return SequenceInputs(parse_pbtxt(text, "config.pbtxt"), directory)


def completed(inputs: SequenceInputs, ident: int | str = 7, flags: int = 0) -> dict[str, Tensor]:
    request = InferenceRequest("m", {}, correlation_id=ident, flags=flags)
    inputs.complete(request)
    return request.inputs


def value(inputs: SequenceInputs, ident: int | str = 7, flags: int = 0, name: str = "C") -> Any:
    return completed(inputs, ident, flags)[name].numpy().reshape(-1)[0]


@pytest.mark.parametrize(("max_batch_size", "shape"), [(0, (1,)), (4, (1, 1))])
def test_controls_have_one_element(max_batch_size: int, shape: tuple[int, ...]) -> None:  # rule 5.6.5
    flag = completed(made(control("START", "int32_false_true: [ 0, 1 ]"), max_batch_size))["C"]
    ident = completed(made(control("CORRID", "data_type: TYPE_UINT64"), max_batch_size))["C"]
    assert (flag.shape, flag.numpy().shape, ident.shape, ident.numpy().shape) == (shape,) * 4


@pytest.mark.parametrize(("kind", "values"), [("START", [2, 7, 2, 7]), ("END", [2, 2, 7, 7]), ("READY", [7, 7, 7, 7])])
def test_flags_choose_the_value(kind: str, values: list[int]) -> None:  # rule 5.6.5
    inputs = made(control(kind, "int32_false_true: [ 2, 7 ]"))
    assert [value(inputs, flags=flags) for flags in (0, START, END, START | END)] == values


@pytest.mark.parametrize(
    ("field", "datatype", "expected"),
    [
        ("int32_false_true: [ 0, 1 ]", DataType.INT32, 1),
        ("fp32_false_true: [ 0, 2.5 ]", DataType.FP32, 2.5),
        ("bool_false_true: [ true, false ]", DataType.BOOL, False),
    ],
)
def test_the_pair_decides_the_datatype(field: str, datatype: DataType, expected: object) -> None:
    inputs = made(control("START", field))
    assert completed(inputs)["C"].datatype is datatype
    assert value(inputs, flags=START) == expected


@pytest.mark.parametrize(
    ("datatype", "ident", "expected"),
    [
        ("UINT64", 2**64 - 1, 2**64 - 1),
        ("INT64", 7, 7),
        ("UINT32", 2**32 + 5, 5),  # measured: it is cut
        ("INT32", 2**31 + 5, 5 - 2**31),
        ("INT32", 2**63 - 1, -1),
        ("UINT64", "str", 32216184615075843),  # measured, rule 5.6.6
        ("INT64", "abc", 27974191445704707),
        ("UINT32", "abc", 3),
        ("STRING", "abc", b"abc"),
        ("STRING", 5, b"5"),
    ],
)
def test_the_id_as_a_tensor(datatype: str, ident: int | str, expected: object) -> None:  # rules 5.6.5, 5.6.6
    assert value(made(control("CORRID", f"data_type: TYPE_{datatype}")), ident) == expected


def test_of_two_controls_in_one_tensor_the_later_kind_wins() -> None:  # measured
    pairs = ("{ kind: CONTROL_SEQUENCE_END int32_false_true: [ 5, 6 ] }",
             "{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }")  # fmt: skip
    inputs = made(f'control_input {{ name: "C" control {pairs[0]} control {pairs[1]} }}')
    assert [value(inputs, flags=flags) for flags in (START, END)] == [5, 6]


def test_the_clients_inputs_stay_as_they_are_and_completing_twice_is_once() -> None:
    inputs = made(control("START", "int32_false_true: [ 0, 1 ]"))
    sent = {"IN": Tensor.from_numpy(np.ones((1, 2), np.float32))}
    request = InferenceRequest("m", sent, correlation_id=7, flags=START)
    inputs.complete(request)
    assert list(request.inputs) == ["IN", "C"]
    request.flags = 0
    inputs.complete(request)
    assert request.inputs["C"].numpy().tolist() == [[0]]
    assert list(sent) == ["IN"]


# -- state


def state(dims: str, datatype: str = "FP32", initial_dims: str = "", data: str = "") -> str:
    initial = (
        f'initial_state {{ name: "i" data_type: TYPE_{datatype} dims: [ {initial_dims} ] {data} }}' if data else ""
    )
    return f'state {{ input_name: "S" output_name: "T" data_type: TYPE_{datatype} dims: [ {dims} ] {initial} }}'


@pytest.mark.parametrize(
    ("text", "max_batch_size", "shape"),
    [
        (state("3"), 4, (1, 3)),
        (state("3"), 0, (3,)),
        (state("-1, 2"), 4, (1, 1, 2)),
        (state("-1, 2", "INT64", "3, 2", "zero_data: true"), 4, (1, 1, 2)),  # measured: not the initial state's dims
    ],
)
def test_a_state_without_data_is_zero(text: str, max_batch_size: int, shape: tuple[int, ...]) -> None:  # rule 5.6.10
    array = completed(made(text, max_batch_size))["S"].numpy()
    assert (array.shape, array.any()) == (shape, False)


def test_a_state_of_strings_without_data_is_empty_strings() -> None:
    assert completed(made(state("2", "STRING")))["S"].numpy().tolist() == [[b"", b""]]


def seeded(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "initial_state").mkdir()
    (tmp_path / "initial_state" / "seed").write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("count", [6, 60])  # measured: what is too much is ignored
def test_initial_data_comes_from_a_file(tmp_path: Path, count: int) -> None:
    directory = seeded(tmp_path, np.arange(count, dtype=np.int32).tobytes())
    inputs = made(state("-1, 2", "INT32", "3, 2", 'data_file: "seed"'), directory=directory)
    assert completed(inputs)["S"].numpy().tolist() == [[[0, 1]]]


def test_a_file_of_strings(tmp_path: Path) -> None:
    directory = seeded(tmp_path, b"\x02\0\0\0ab\x01\0\0\0c")
    inputs = made(state("2", "STRING", "2", 'data_file: "seed"'), directory=directory)
    assert completed(inputs)["S"].numpy().tolist() == [[b"ab", b"c"]]


def test_a_file_that_is_not_there_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as raised:
        made(state("2", "INT32", "2", 'data_file: "seed"'), directory=tmp_path)
    path = tmp_path / "initial_state" / "seed"
    assert raised.value.message == f"failed to open text file for read {path}: No such file or directory"


def test_so_is_a_file_that_is_too_short(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        made(state("300, 2", "INT32", "300, 2", 'data_file: "seed"'), directory=seeded(tmp_path, b"abc"))
    assert raised.value.message == (
        "initial_state setting expects 2400 bytes, but the data provided from seedonly has 3 bytes."
    )


# -- null requests


def test_a_null_request_has_inputs_of_the_same_shape_and_says_that_it_is_not_ready() -> None:  # rule 5.6.7
    controls = [control(kind, "int32_false_true: [ 0, 1 ]", kind) for kind in ("START", "END", "READY")]
    inputs = made(" ".join([*controls, control("CORRID", "data_type: TYPE_UINT64", "ID"), state("1")]))
    like = InferenceRequest(
        "m",
        {"A": Tensor.from_numpy(np.ones((1, 2), np.float32)), "B": Tensor.from_numpy(np.array([["x", "yz"]], object))},
        correlation_id=7,
        flags=START | END,
    )
    inputs.complete(like)
    null = inputs.null_request(like)
    assert (null.null, null.serial, null.correlation_id, null.flags) == (True, 0, 0, 0)
    assert {name: tensor.numpy().tolist() for name, tensor in null.inputs.items()} == {
        "A": [[0, 0]],
        "B": [[b"", b""]],
        "START": [[0]],
        "END": [[0]],
        "READY": [[0]],
        "ID": [[0]],
        "S": [[0]],
    }
    assert like.inputs["READY"].numpy().tolist() == [[1]]
