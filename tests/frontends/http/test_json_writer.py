from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.rules import rule
from tritonlab.frontends.http import json_writer


@rule("6.3.2")
@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0.1, "0.1"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e20, "100000000000000000000.0"),
        (123456789012345678.0, "123456789012345680.0"),
        (1e21, "1e21"),
        (1e-5, "0.00001"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (5e-324, "5e-324"),
        (-3.14e100, "-3.14e100"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_a_number_is_printed_as_triton_prints_it(number: float, printed: str) -> None:
    """Measured."""
    assert json_writer.numbers(np.array([number])) == f"[{printed}]".encode()
    assert json_writer.value(number) == printed.encode()


def test_a_float32_is_printed_as_the_double_it_is() -> None:
    assert json_writer.numbers(np.array([0.1], np.float32)) == b"[0.10000000149011612]"


@pytest.mark.parametrize(
    ("array", "printed"),
    [
        (np.array([[1, -2], [3, 4]], np.int8), b"[1,-2,3,4]"),
        (np.array([2**64 - 1], np.uint64), b"[18446744073709551615]"),
        (np.array([True, False]), b"[true,false]"),
        (np.array([], np.float32), b"[]"),
    ],
)
def test_other_elements_are_printed_flat(array: np.ndarray, printed: bytes) -> None:
    assert json_writer.numbers(array) == printed


@given(st.floats(allow_nan=False))
def test_a_number_reads_back_as_itself(number: float) -> None:
    assert json.loads(json_writer.value(number)) == number


@given(st.text())
def test_a_text_reads_back_as_itself(text: str) -> None:
    assert json.loads(json_writer.text(text)) == text


def test_bytes_that_are_no_utf_8_stay_as_they_are() -> None:
    assert json_writer.string(b'\xff"\\/\n\x1f\x7f') == b'"\xff\\"\\\\/\\n\\u001F\x7f"'
    assert json_writer.text("\udcff") == b'"\xff"'


def test_values_and_names_that_stand_twice() -> None:
    assert json_writer.value({"a": [None, True, 1, "é", {"b": ()}]}) == '{"a":[null,true,1,"é",{"b":[]}]}'.encode()
    assert json_writer.members([("a", b"1"), ("a", b"2")]) == b'{"a":1,"a":2}'
