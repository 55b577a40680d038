from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.request_rules import RequestRules
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError

NOTE = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


def inputs(*rows: str) -> str:
    """Return inputs of config.pbtxt, each from a text such as `A FP32 [2]`; words after the dims go in as they are."""
    texts = []
    for row in rows:
        name, datatype, dims, *more = row.split(" ", 3)
        texts.append(f'input {{ name: "{name}" data_type: TYPE_{datatype} dims: {dims} {" ".join(more)} }}')
    return " ".join(texts)


PLAIN = inputs("A FP32 [2]", "B FP32 [2]") + ' output { name: "O" data_type: TYPE_FP32 dims: [1] }'
BATCHED = "max_batch_size: 4 " + inputs("A FP32 [2]", "B FP32 [-1]")
OPTIONAL = inputs("A FP32 [2]", "B FP32 [2] optional: true")
TWO_REQUIRED = inputs("A FP32 [2]", "A2 FP32 [2]", "B FP32 [2] optional: true")
MIXED = inputs("Z FP32 [2]", "A STRING [2]", "M FP32 [2]")
STRINGS = "max_batch_size: 4 " + inputs("S STRING [2]")
SEQUENCE = (
    "max_batch_size: 2 sequence_batching { control_input "
    '{ name: "S" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } } '
    'state { input_name: "si" output_name: "so" data_type: TYPE_FP32 dims: [1] } } ' + inputs("A FP32 [1]")
)


def rules(config: str) -> RequestRules:
    return RequestRules(parse_pbtxt(config, ""), model_name="m")


def fp32(*shape: int) -> Tensor:
    return Tensor.from_numpy(np.ones(shape, dtype=np.float32))


def fp64(*shape: int) -> Tensor:
    return Tensor.from_numpy(np.ones(shape, dtype=np.float64))


def raw(datatype: DataType, shape: tuple[int, ...], data: bytes) -> Tensor:
    return Tensor(datatype, shape, np.frombuffer(data, dtype=np.uint8))


def elements(*values: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def strings(*values: bytes, shape: tuple[int, ...] = (2,), rest: bytes = b"") -> Tensor:
    return raw(DataType.BYTES, shape, elements(*values) + rest)


def request(tensors: dict[str, Tensor], **more: Any) -> InferenceRequest:
    return InferenceRequest("m", tensors, **more)


GOOD = [
    (PLAIN, {"A": fp32(2), "B": fp32(2)}, 1),
    (BATCHED, {"A": fp32(1, 2), "B": fp32(1, 3)}, 1),
    (BATCHED, {"A": fp32(4, 2), "B": fp32(4, 7)}, 4),
    # zero is a size like any other where dims say -1 (rule 5.4.5)
    (BATCHED, {"A": fp32(1, 2), "B": fp32(1, 0)}, 1),
    (OPTIONAL, {"A": fp32(2)}, 1),
    # numbers are compared, not names (rule 5.4.3)
    (OPTIONAL, {"B": fp32(2)}, 1),
    (MIXED, {"Z": fp32(2), "A": strings(b"a", b""), "M": fp32(2)}, 1),
    (STRINGS, {"S": strings(b"a", b"b", b"c", b"d", shape=(2, 2))}, 2),
    ("", {}, 1),
    (inputs("H BF16 [2]"), {"H": raw(DataType.BF16, (2,), b"1234")}, 1),
]


@pytest.mark.parametrize(("config", "tensors", "batch"), GOOD)
def test_good_requests_pass_with_their_batch_size(config: str, tensors: dict[str, Tensor], batch: int) -> None:
    checked = request(tensors)
    rules(config).check(checked)
    assert checked.batch_size == batch


def words(*lengths: int) -> Tensor:
    return raw(DataType.BYTES, (len(lengths),), elements(*(b"x" * length for length in lengths)))


@pytest.mark.parametrize("lengths", [(3,) * 20, (0,) * 20, tuple(range(20)), (), (5,), (0,)])
def test_bytes_of_equal_and_unequal_lengths_pass(lengths: tuple[int, ...]) -> None:
    rules(inputs("S STRING [-1]")).check(request({"S": words(*lengths)}))


def test_bytes_that_only_look_like_equal_lengths_are_walked() -> None:
    """20 elements of 4 + 3 bytes by their number of bytes, but the second length says 10, so there are 19."""
    data = bytearray(words(*(3,) * 20).data)
    data[7:11] = struct.pack("<I", 10)
    with pytest.raises(InvalidArgumentError, match=r"expected 20 string elements .*, got 19$"):
        rules(inputs("S STRING [-1]")).check(request({"S": raw(DataType.BYTES, (20,), bytes(data))}))


@pytest.mark.parametrize("shape", [(3,), (-2,)])
def test_bytes_without_data(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"expected {shape[0]} string elements"):
        rules(inputs("S STRING [-1]")).check(request({"S": raw(DataType.BYTES, shape, b"")}))


@pytest.mark.parametrize("config", [BATCHED, PLAIN])
def test_a_shape_that_has_passed_says_nothing_of_the_bytes_of_the_next(config: str) -> None:
    found = rules(config)
    shape = (1, 2) if config is BATCHED else (2,)
    good = {"A": fp32(*shape), "B": fp32(*shape)}
    short = {**good, "B": Tensor(DataType.FP32, shape, np.ones(1, np.float32))}
    for _ in range(2):
        found.check(InferenceRequest("m", dict(good)))
        with pytest.raises(InvalidArgumentError, match="byte size mismatch"):
            found.check(InferenceRequest("m", dict(short)))


def test_shapes_that_are_remembered_are_few() -> None:
    found = rules(BATCHED)
    for size in range(1000):
        found.check(InferenceRequest("m", {"A": fp32(1, 2), "B": fp32(1, size)}))
    assert 0 < len(found._rules["B"].sizes) <= 256


def test_what_a_client_must_say_it_must_say() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        rules(inputs("A FP32 [-1]")).check(request({"A": raw(DataType.FP32, (-1,), bytes(4))}))
    assert raised.value.message == (
        "[request id: <id_unknown>] All input dimensions should be specified for input 'A' for model 'm', got [-1]"
    )


def test_a_datatype_that_is_none_has_tritons_word() -> None:
    with pytest.raises(InvalidArgumentError, match="data-type is '<invalid>', but model 'm' expects 'FP32'"):
        rules(inputs("A FP32 [-1]")).check(request({"A": raw(DataType.INVALID, (4,), bytes(4))}))


def test_a_negative_size_is_no_size() -> None:
    with pytest.raises(InvalidArgumentError, match="input byte size mismatch"):
        rules(inputs("A FP32 [-1]")).check(request({"A": raw(DataType.FP32, (-2,), bytes(4))}))


#: Texts of tritonserver 2.51; `P` stands for the prefix with the request id.
BAD = [
    (PLAIN, {"A": fp32(2)},
     "P expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing required input(s) ['B']. "
     "Please provide all required input(s)."),
    (PLAIN, {},
     "P expected 2 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['A','B']. "
     "Please provide all required input(s)."),
    (PLAIN, {"X": fp32(2)},
     "P expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['X'], but missing required input(s) ['A','B']. "
     "Please provide all required input(s)."),
    (PLAIN, {"A": fp32(2), "B": fp32(2), "X": fp32(2)},
     "P expected 2 inputs but got 3 inputs for model 'm'. Got input(s) ['A','B','X'], but missing required input(s) ]. "
     "Please provide all required input(s)."),
    ("", {"A": fp32(2)},
     "P expected 0 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing required input(s) ]. "
     "Please provide all required input(s)."),
    (inputs("A FP32 [2]", "A FP32 [2]"), {"A": fp32(2)},
     "P expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing required input(s) ]. "
     "Please provide all required input(s)."),
    (OPTIONAL, {},
     "P expected number of inputs between 1 and 2 but got 0 inputs for model 'm'. Got input(s) [], but missing "
     "required input(s) ['A']. Please provide all required input(s)."),
    (OPTIONAL, {"C": fp32(2), "D": fp32(2), "E": fp32(2)},
     "P expected number of inputs between 1 and 2 but got 3 inputs for model 'm'. Got input(s) ['C','D','E'], but "
     "missing required input(s) ['A']. Please provide all required input(s)."),
    (TWO_REQUIRED, {"B": fp32(2)},
     "P expected number of inputs between 2 and 3 but got 1 inputs for model 'm'. Got input(s) ['B'], but missing "
     "required input(s) ['A','A2']. Please provide all required input(s)."),
    (PLAIN, {"A": fp32(2), "X": fp32(2)}, "unexpected inference input 'X' for model 'm'"),
    (PLAIN, {"A": fp32(3), "X": fp32(2)}, "unexpected inference input 'X' for model 'm'"),
    (OPTIONAL, {"C": fp32(2)}, "unexpected inference input 'C' for model 'm'"),
    (BATCHED, {"A": fp32(5, 2), "X": fp32(1, 3)}, "unexpected inference input 'X' for model 'm'"),
    # controls and states are no client inputs (rule 5.6.5)
    (SEQUENCE, {"S": fp32(1, 1)}, "unexpected inference input 'S' for model 'm'"),
    (SEQUENCE, {"A": fp32(1, 1), "si": fp32(1, 1)},
     "P expected 1 inputs but got 2 inputs for model 'm'. Got input(s) ['A','si'], but missing required input(s) ]. "
     "Please provide all required input(s)."),
    (PLAIN, {"A": fp32(3), "B": fp64(2)}, "P inference input 'B' data-type is 'FP64', but model 'm' expects 'FP32'"),
    (PLAIN, {"A": fp64(3), "B": fp32(2)}, "P inference input 'A' data-type is 'FP64', but model 'm' expects 'FP32'"),
    (PLAIN, {"A": fp64(2), "B": fp32(3)}, "P unexpected shape for input 'B' for model 'm'. Expected [2], got [3]. "),
    (PLAIN, {"A": fp32(), "B": fp32(2)}, "P unexpected shape for input 'A' for model 'm'. Expected [2], got []. "),
    (BATCHED, {"A": fp32(2), "B": fp32(2)},
     "P unexpected shape for input 'B' for model 'm'. Expected [-1,-1], got [2]." + NOTE),
    (BATCHED, {"A": fp32(), "B": fp32(2)}, "P input 'A' has no shape but model requires batch dimension for 'm'"),
    (BATCHED, {"A": fp32(2, 2), "B": fp32(1, 3)}, "P input 'A' batch size does not match other inputs for 'm'"),
    (BATCHED, {"A": fp32(5, 2), "B": fp32(1, 3)}, "P input 'A' batch size does not match other inputs for 'm'"),
    (BATCHED, {"A": fp64(1, 2), "B": fp32(5, 3)}, "P input 'A' batch size does not match other inputs for 'm'"),
    (BATCHED, {"A": fp32(5, 3), "B": fp32(5, 3)}, "P inference request batch-size must be <= 4 for 'm'"),
    # a batch dimension of 0 counts as 1 in the sizes
    (BATCHED, {"A": fp32(0, 2), "B": fp32(0, 3)},
     "P input byte size mismatch for input 'B' for model 'm'. Expected 12, got 0"),
    (BATCHED, {"A": fp32(1, 2), "B": fp32(0, 3)},
     "P input byte size mismatch for input 'B' for model 'm'. Expected 12, got 0"),
    (BATCHED, {"A": fp32(0, 2), "B": fp32(1, 3)}, "P input 'A' batch size does not match other inputs for 'm'"),
    (MIXED, {"Z": fp64(2), "A": strings(b"a"), "M": raw(DataType.FP32, (2,), b"1234")},
     "P input byte size mismatch for input 'M' for model 'm'. Expected 8, got 4"),
    (MIXED, {"Z": raw(DataType.FP32, (2,), bytes(12)), "A": strings(b"a", b"b"), "M": fp32(2)},
     "P input byte size mismatch for input 'Z' for model 'm'. Expected 8, got 12"),
    (MIXED, {"Z": fp64(2), "A": strings(b"a"), "M": fp32(2)},
     "P expected 2 string elements for inference input 'A' for model 'm', got 1"),
    (MIXED, {"Z": fp32(2), "A": strings(b"a", b"b", b"c"), "M": fp32(2)},
     "P unexpected number of string elements 3 for inference input 'A' for model 'm', expecting 2"),
    (MIXED, {"Z": fp32(2), "A": strings(b"a", b"b", rest=b"\0\0"), "M": fp32(2)},
     "P incomplete string length indicator for inference input 'A' for model 'm', expecting 4 bytes but only 2 bytes "
     "available. Please make sure the string length indicator is in one buffer."),
    (MIXED, {"Z": fp32(2), "A": strings(b"a", rest=b"\t\0\0\0x"), "M": fp32(2)},
     "incomplete string data for inference input 'A', expecting string of length 9 but only 1 bytes available"),
    (MIXED, {"Z": fp32(2), "A": strings(b"a", b"b", rest=b"\t\0\0\0x"), "M": fp32(2)},
     "P unexpected number of string elements 3 for inference input 'A' for model 'm', expecting 2"),
    (MIXED, {"Z": fp32(2), "A": strings(), "M": fp32(2)},
     "P expected 2 string elements for inference input 'A' for model 'm', got 0"),
    (STRINGS, {"S": strings(shape=(0, 2))},
     "P expected 2 string elements for inference input 'S' for model 'm', got 0"),
    (STRINGS, {"S": fp32(1, 2)}, "P inference input 'S' data-type is 'FP32', but model 'm' expects 'BYTES'"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "tensors", "text"), BAD)
@pytest.mark.parametrize("request_id", ["", "7"])
def test_bad_requests_are_refused_in_tritons_words(
    config: str, tensors: dict[str, Tensor], text: str, request_id: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        rules(config).check(request(tensors, request_id=request_id))
    assert caught.value.message == text.replace("P ", f"[request id: {request_id or '<id_unknown>'}] ", 1)


def test_requested_outputs_are_looked_at_first() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^unexpected inference output 'Q' for model 'm'$"):
        rules(PLAIN).check(request({"A": fp32(2)}, requested_outputs=["Q"]))
    with pytest.raises(InvalidArgumentError, match=r"^output 'O' already exists in request$"):
        rules(PLAIN).check(request({}, requested_outputs=["O", "O"]))
    rules(PLAIN).check(request({"A": fp32(2), "B": fp32(2)}, requested_outputs=["O"]))


def test_a_good_request_with_outputs_gets_its_batch_size_too() -> None:
    config = BATCHED + ' output { name: "O" data_type: TYPE_FP32 dims: [1] }'
    checked = request({"A": fp32(3, 2), "B": fp32(3, 1)}, requested_outputs=("O",))
    rules(config).check(checked)
    assert checked.batch_size == 3


RESHAPED = "max_batch_size: 4 " + inputs(
    "A FP32 [4] reshape { shape: [2, 2] }",
    "B FP32 [1] reshape { }",
    "C FP32 [-1,4,-1] reshape { shape: [-1, 2, 2, -1] }",
    "D FP32 [2]",
)


def test_reshape_changes_what_the_model_sees_and_nothing_of_the_callers() -> None:
    """Rule 5.4.6."""
    tensors = {"A": fp32(2, 4), "B": fp32(2, 1), "C": fp32(2, 3, 4, 5), "D": fp32(2, 2)}
    checked = request(tensors)
    rules(RESHAPED).check(checked)
    assert {name: tensor.shape for name, tensor in checked.inputs.items()} == {
        "A": (2, 2, 2),
        "B": (2,),
        "C": (2, 3, 2, 2, 5),
        "D": (2, 2),
    }
    assert checked.inputs["A"].data is tensors["A"].data
    assert checked.inputs["D"] is tensors["D"]
    assert tensors["A"].shape == (2, 4)


def test_the_client_must_send_dims_not_the_reshape() -> None:
    tensors = {"A": fp32(2, 2, 2), "B": fp32(2, 1), "C": fp32(2, 3, 4, 5), "D": fp32(2, 2)}
    with pytest.raises(InvalidArgumentError, match=r"Expected \[-1,4\], got \[2,2,2\]\. NOTE"):
        rules(RESHAPED).check(request(tensors))


def test_reshape_without_batching() -> None:
    checked = request({"A": fp32(4)})
    rules(inputs("A FP32 [4] reshape { shape: [2, 2] }")).check(checked)
    assert checked.inputs["A"].shape == (2, 2)


def test_a_request_checked_twice_is_not_reshaped_twice_into_an_error_of_ours() -> None:
    """A rescheduled or warmed-up request is not checked again; a client's second use of the same tensors is."""
    tensors = {"A": fp32(4)}
    checker = rules(inputs("A FP32 [4] reshape { shape: [2, 2] }"))
    checker.check(request(tensors))
    checker.check(request(tensors))


def test_metadata_has_the_batch_dimension_and_every_input() -> None:
    """Rule 6.1.2."""
    checker = rules('backend: "python" max_batch_size: 4 ' + inputs("A FP32 [-1,3]", "B STRING [1] optional: true"))
    assert checker.metadata([1, 3]) == {
        "name": "m",
        "versions": ["1", "3"],
        "platform": "python",
        "inputs": [
            {"name": "A", "datatype": "FP32", "shape": [-1, -1, 3]},
            {"name": "B", "datatype": "BYTES", "shape": [-1, 1]},
        ],
        "outputs": [],
    }
    assert rules('platform: "ensemble"').metadata([])["platform"] == "ensemble"
    assert rules(inputs("A FP32 [2]")).metadata([1])["inputs"][0]["shape"] == [2]


def test_expected_shape_is_for_people() -> None:
    assert rules("max_batch_size: 8 " + inputs("A FP32 [3,-1]")).expected_shape("A") == "[batch ≤ 8, 3, any]"
    assert rules(PLAIN).expected_shape("A") == "[2]"
    with pytest.raises(KeyError):
        rules(PLAIN).expected_shape("X")


def test_names_and_kind() -> None:
    checker = rules(PLAIN + " model_transaction_policy { decoupled: true }")
    assert checker.output_names == ("O",)
    assert (checker.decoupled, checker.max_batch_size) == (True, 0)


def test_requests_whose_shapes_the_configuration_fixes_have_one_shape_key() -> None:
    def shape_key(checked: RequestRules, **tensors: Tensor) -> object:
        request = InferenceRequest("m", tensors)
        checked.check(request)
        return request.shape_key

    plain = rules(PLAIN)
    first, second = (shape_key(plain, A=fp32(2), B=fp32(2)) for _ in range(2))
    assert first is second is not None
    assert shape_key(rules(PLAIN), A=fp32(2), B=fp32(2)) is not first
    assert shape_key(rules(BATCHED), A=fp32(1, 2), B=fp32(1, 5)) is None
    assert shape_key(rules(OPTIONAL), A=fp32(2)) is None
    assert shape_key(rules(SEQUENCE), A=fp32(1, 1)) is None
    assert shape_key(rules("max_batch_size: 4 " + inputs("A FP32 [0]")), A=fp32(0, 0)) is None
