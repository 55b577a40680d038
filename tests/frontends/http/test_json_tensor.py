from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conformance.rules import rule
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.status import Code, TritonError
from tritonlab.frontends.http.json_tensor import elements

NON_NUMBER = "Unable to parse 'data': attempt to access JSON non-number as double"
NON_INT = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"
NON_UINT = "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer"
NON_BOOL = "Unable to parse 'data': attempt to access JSON non-boolean as boolean"
NON_STRING = "Unable to parse JSON bytes array: attempt to access JSON non-string as string"
TOO_MANY = "Unable to parse 'data': Shape does not match true shape of 'data' field"
TOO_FEW = "Failed to parse 'data' field: shape does not match true shape"


@rule("6.3.1", "6.3.4")
@pytest.mark.parametrize(
    ("datatype", "data", "expected"),
    [
        ("FP32", [1, 2.5], [1, 2.5]),
        ("FP32", [[1], [[2, 3]], 4], [1, 2, 3, 4]),
        ("FP32", [1e300, -1e300], [np.inf, -np.inf]),
        ("FP64", [2**70], [2.0**70]),
        ("INT8", [300, -300, 2**63 - 1], [44, -44, -1]),
        ("UINT8", [300, 2**64 - 1], [44, 255]),
        ("INT64", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
        ("UINT64", [[2**64 - 1], [0]], [2**64 - 1, 0]),
        ("BOOL", [True, False], [True, False]),
    ],
)
def test_elements_are_flattened_and_truncated(datatype: str, data: Any, expected: list[Any]) -> None:
    array = elements("IN", DataType[datatype], data, len(expected))
    assert (array.dtype, array.tolist()) == (DataType[datatype].numpy, expected)


@rule("6.3.1", "6.5.4")
def test_strings_become_the_wire_form() -> None:
    array = elements("IN", DataType.BYTES, [["a"], ["é", "\udcff", ""]], 4)
    assert array.tobytes() == b"\1\0\0\0a\2\0\0\0\xc3\xa9\1\0\0\0\xff\0\0\0\0"


@rule("6.3.3")
@pytest.mark.parametrize(
    ("datatype", "data", "count", "text"),
    [
        ("FP32", [1, 2, 3], 2, TOO_MANY),
        ("FP32", [1], 2, TOO_FEW),
        ("FP32", [], 1, TOO_FEW),
        ("FP32", ["a", 1], 2, NON_NUMBER),
        ("FP32", [1, True], 2, NON_NUMBER),
        ("FP32", [1, 2, "a"], 2, TOO_MANY),  # it never comes to the third
        ("FP32", ["a", 2, 3], 2, NON_NUMBER),
        ("FP32", [1, ["a"]], 2, NON_NUMBER),
        ("INT8", [1.0], 1, NON_INT),
        ("INT64", [2**63], 1, NON_INT),
        ("UINT8", [-1], 1, NON_UINT),
        ("UINT64", [2**64], 1, NON_UINT),
        ("BOOL", [1], 1, NON_BOOL),
        ("BYTES", [1], 1, NON_STRING),
        ("BYTES", ["a", None], 1, NON_STRING),
    ],
)
def test_the_first_fault_is_the_error(datatype: str, data: Any, count: int, text: str) -> None:
    with pytest.raises(TritonError) as raised:
        elements("IN", DataType[datatype], data, count)
    assert (raised.value.code, raised.value.message) == (Code.INTERNAL, text)


@rule("6.3.3")
@pytest.mark.parametrize(
    ("datatype", "text"),
    [
        ("FP16", "receiving FP16 data via JSON is not supported. Please use the binary data format for input IN"),
        ("BF16", "receiving BF16 data via JSON is not supported. Please use the binary data format for input IN"),
        ("INVALID", "invalid datatype for input IN"),
    ],
)
def test_some_datatypes_have_no_json(datatype: str, text: str) -> None:
    with pytest.raises(TritonError) as raised:
        elements("IN", DataType[datatype], [1], 1)
    assert (raised.value.code, raised.value.message) == (Code.INVALID_ARG, text)
