from __future__ import annotations

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.notebook.views.playground.input_values import (
    InputSpec,
    ValueProblem,
    as_text,
    input_specs,
    python_value,
    random_value,
    typed_value,
)

FP32 = InputSpec("X", DataType.FP32, (-1, 2), max_batch_size=8)
PAIRS = InputSpec("X", DataType.FP32, (2,), max_batch_size=8)
FLAT = InputSpec("X", DataType.INT32, (-1,))
TEXT = InputSpec("T", DataType.BYTES, (2,))


def test_the_shape_has_the_batch_and_the_variable_sizes() -> None:
    assert FP32.shape(3, [5]) == (3, 5, 2)
    assert TEXT.shape(3, []) == (2,)


@pytest.mark.parametrize("datatype", [t for t in DataType if t is not DataType.INVALID])
def test_random_values_are_sent_as_they_are_displayed(datatype: DataType) -> None:
    spec = InputSpec("X", datatype, (2, 3))
    text = as_text(random_value(spec, (2, 3), np.random.default_rng(0)))
    assert text == as_text(random_value(spec, (2, 3), np.random.default_rng(0)))
    assert text != as_text(random_value(spec, (2, 3), np.random.default_rng(1)))
    assert len(text) < 100 and text.count("\n") == 1
    value = typed_value(spec, text, (2, 3))
    assert value.dtype == datatype.numpy
    assert value.shape == (2, 3)


@pytest.mark.parametrize(
    ("spec", "text", "shape", "expected"),
    [
        (PAIRS, "1.5", (2, 2), [[1.5, 1.5], [1.5, 1.5]]),
        (PAIRS, "[1, 2, 3, 4]", (2, 2), [[1, 2], [3, 4]]),
        (PAIRS, "[[1, 2]]", (1, 2), [[1, 2]]),
        # rows set the batch size
        (PAIRS, "[[1, 2], [3, 4], [5, 6]]", (1, 2), [[1, 2], [3, 4], [5, 6]]),
        (PAIRS, "1,2,3,4,5,6", (1, 2), [[1, 2], [3, 4], [5, 6]]),
        (PAIRS, "1, 2\n3, 4\n5, 6", (1, 2), [[1, 2], [3, 4], [5, 6]]),
        (PAIRS, "[1, 2],\n[3, 4]\n", (1, 2), [[1, 2], [3, 4]]),
        # one row for each of the batch
        (PAIRS, "1, 2", (2, 2), [[1, 2], [1, 2]]),
        # variable dimensions are as long as what is typed
        (FP32, "[[1, 2], [3, 4]]", (1, 1, 2), [[[1, 2], [3, 4]]]),
        (FLAT, "1,2,3", (1,), [1, 2, 3]),
        (InputSpec("X", DataType.FP32, (2,)), "nan, -inf", (2,), [float("nan"), float("-inf")]),
        # a list that fits nothing keeps its shape: what the server says about it is to be seen
        (PAIRS, "[1, 2, 3]", (2, 2), [1, 2, 3]),
        (FP32, "[1, 2, 3]", (1, 1, 2), [1, 2, 3]),
    ],
)
def test_typed_numbers(spec: InputSpec, text: str, shape: tuple[int, ...], expected: object) -> None:
    value = typed_value(spec, text, shape)
    assert value.dtype == spec.datatype.numpy
    assert str(value.tolist()) == str(np.array(expected, spec.datatype.numpy).tolist())


@pytest.mark.parametrize("text", ["true, false", "[True, FALSE]", "1, 0", "true\nfalse"])
def test_typed_truth(text: str) -> None:
    value = typed_value(InputSpec("B", DataType.BOOL, (2,)), text, (2,))
    assert value.dtype == np.bool_ and value.tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello world", ["hello world", "hello world"]),
        ("['a', 'b']", ["a", "b"]),
        ("b'\\x00'", [b"\x00", b"\x00"]),
        ("42", ["42", "42"]),
        ("'quoted'", ["quoted", "quoted"]),
        ("two\nlines", ["two", "lines"]),
        ("one\nof\nthree", ["one\nof\nthree", "one\nof\nthree"]),
        ('{"of":\n"JSON"}', ['{"of":\n"JSON"}', '{"of":\n"JSON"}']),
        ("true", ["true", "true"]),
        (" a prompt:\n", [" a prompt:\n", " a prompt:\n"]),
        ("", ["", ""]),
    ],
)
def test_typed_text(text: str, expected: list[object]) -> None:
    assert typed_value(TEXT, text, (2,)).tolist() == expected


@pytest.mark.parametrize("text", ["one", "[1, [2, 3]]", "['a']", "", "1 2", "f(1)"])
def test_what_is_not_a_number_is_reported(text: str) -> None:
    with pytest.raises(ValueProblem, match=r"^X: "):
        typed_value(PAIRS, text, (1,))


@pytest.mark.parametrize(
    ("datatype", "text"),
    [
        (DataType.INT32, "1.5"),
        (DataType.UINT8, "300"),
        (DataType.UINT8, "-1"),
        (DataType.INT64, "nan"),
        (DataType.BOOL, "2"),
        (DataType.BOOL, "'no'"),
        (DataType.FP16, "70000"),
        (DataType.FP32, "-1e39"),
        (DataType.BF16, "1e39"),
    ],
)
def test_no_element_becomes_another(datatype: DataType, text: str) -> None:
    with pytest.raises(ValueProblem, match=rf"^X: not {datatype.name}: "):
        typed_value(InputSpec("X", datatype, (1,)), text, (1,))


def test_a_typed_bf16_is_rounded_to_its_upper_half() -> None:
    value = typed_value(InputSpec("B", DataType.BF16, (1,)), "1.5", (1,))
    assert value.dtype == np.uint16 and value.tolist() == [0x3FC0]


def test_an_expression_sees_the_notebook_and_keeps_its_type() -> None:
    value = python_value(FP32, " np.zeros((1, 2), 'float64') ", {"np": np})
    assert value.dtype == np.float64
    with pytest.raises(ValueProblem, match=r"X: NameError: name 'nobody' is not defined"):
        python_value(FP32, "nobody", {})
    with pytest.raises(ValueProblem, match=r"X: type a Python expression"):
        python_value(FP32, " ", {})


def test_specs_come_from_the_config() -> None:
    config = {
        "max_batch_size": 4,
        "input": [{"name": "A", "data_type": "TYPE_STRING", "dims": [1], "optional": True}],
    }
    assert input_specs(config) == (InputSpec("A", DataType.BYTES, (1,), 4, True),)
