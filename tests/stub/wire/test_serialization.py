from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritonlab.core.inference.data_type import DataType
from tritonlab.stub._pb_stub.wire.serialization import (
    ELEMENT_DTYPES,
    WireError,
    decode_body,
    decode_bytes_tensor,
    encode_body,
    encode_bytes_tensor,
    pack_body,
    unpack_body,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


# -- bodies


@given(JSON)
def test_bodies_come_back_as_they_were(body: Any) -> None:
    assert decode_body(memoryview(encode_body(body))) == body


@given(JSON)
def test_bodies_are_json_that_anybody_reads(body: Any) -> None:
    assert body is None or json.loads(encode_body(body)) == body


def test_no_body_is_empty() -> None:
    assert encode_body(None) == b""
    assert decode_body(b"") is None


def test_floats_without_a_number_cross() -> None:  # a metric may be NaN
    body = decode_body(encode_body([float("inf"), float("-inf"), float("nan")]))
    assert body[:2] == [float("inf"), float("-inf")]
    assert body[2] != body[2]


def test_text_is_ascii_on_the_wire() -> None:
    assert encode_body("\u00e9\ud800") == b'"\\u00e9\\ud800"'
    assert decode_body(b'"\\u00e9\\ud800"') == "\u00e9\ud800"


@pytest.mark.parametrize("data", [b"{", b"nonsense", b"\xff", b"1 2", b" 1", b"[1,]", b"'a'", b"[" * 100_000])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_body(data)


@pytest.mark.parametrize("body", [object(), {"a": b"bytes"}, [np.int64(1)], {1, 2}])
def test_what_cannot_cross_is_a_type_error(body: Any) -> None:
    with pytest.raises(TypeError):
        encode_body(body)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_body_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode_body(data)


# -- BYTES


def wire(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def objects(*elements: object) -> np.ndarray[Any, Any]:
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array


@pytest.mark.parametrize(
    ("array", "encoded"),
    [
        (objects(), b""),
        (objects(b""), wire(b"")),
        (objects(b"", b"a", b""), wire(b"", b"a", b"")),
        (objects(b"a\0b\0", b"\0\0"), wire(b"a\0b\0", b"\0\0")),  # NULs inside and at the end
        (objects("text", 5, None, 1.5, True), wire(b"text", b"5", b"None", b"1.5", b"True")),
        (objects("\u00e9\u4f60"), wire("\u00e9\u4f60".encode())),
        (objects(bytearray(b"a")), wire(b"bytearray(b'a')")),  # only exactly bytes goes as it is
        (objects(type("Sub", (bytes,), {})(b"a")), wire(b"b'a'")),
        (np.array([[b"ab", b"c"], [b"", b"def"]], dtype=object), wire(b"ab", b"c", b"", b"def")),
        (np.array(b"scalar", dtype=object), wire(b"scalar")),
        (np.array([b"ab", b"c"]), wire(b"ab", b"c")),  # S dtype: numpy drops trailing NULs
        (np.array(["ab", "\u00e9"]), wire(b"ab", "\u00e9".encode())),
        (np.array([[b"a", b"b"], [b"c", b"d"]], dtype=object).T, wire(b"a", b"c", b"b", b"d")),  # C order
        (np.empty((0, 3), dtype=object), b""),
    ],
)
def test_bytes_tensors(array: np.ndarray[Any, Any], encoded: bytes) -> None:  # rules 1.6.1, 1.6.2
    assert encode_bytes_tensor(array) == encoded


@given(st.lists(st.binary(max_size=12), max_size=40))
def test_elements_come_back(elements: list[bytes]) -> None:
    encoded = encode_bytes_tensor(objects(*elements))
    assert encoded == wire(*elements)
    decoded = decode_bytes_tensor(memoryview(encoded))
    assert decoded.dtype == object
    assert decoded.shape == (len(elements),)
    assert decoded.tolist() == elements


@given(st.integers(0, 20), st.integers(9, 60), st.data())
def test_elements_of_one_length_go_the_quick_way(size: int, count: int, data: st.DataObject) -> None:
    elements = data.draw(st.lists(st.binary(min_size=size, max_size=size), min_size=count, max_size=count))
    encoded = encode_bytes_tensor(objects(*elements))
    assert encoded == wire(*elements)
    assert decode_bytes_tensor(encoded).tolist() == elements


def test_a_length_that_only_looks_uniform() -> None:
    """The total is a multiple of the first element's size, the prefixes differ."""
    elements = [b"x" * 4] * 10 + [b"", b"y" * 8] + [b"z" * 4] * 4
    assert decode_bytes_tensor(wire(*elements)).tolist() == elements


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\1", "Invalid bytes tensor data: incomplete length field"),
        (wire(b"ok") + b"\0\0\0", "Invalid bytes tensor data: incomplete length field"),
        (b"\5\0\0\0abcd", "Invalid bytes tensor data: string extends beyond buffer"),
        (b"\xff\xff\xff\xff", "Invalid bytes tensor data: string extends beyond buffer"),
    ],
)
def test_broken_bytes_tensors(data: bytes, text: str) -> None:  # rule 1.6.3
    with pytest.raises(ValueError, match=text):
        decode_bytes_tensor(data)


@given(st.binary(max_size=200))
def test_any_bytes_decode_to_themselves_or_not_at_all(data: bytes) -> None:
    try:
        decoded = decode_bytes_tensor(data)
    except ValueError:
        return
    assert encode_bytes_tensor(decoded) == data


def test_element_dtypes_are_those_of_the_protocol() -> None:
    for datatype in DataType:
        if datatype not in (DataType.INVALID, DataType.BYTES, DataType.BF16):
            assert ELEMENT_DTYPES[int(datatype)] == datatype.numpy
    assert ELEMENT_DTYPES[int(DataType.BYTES)] is None
    assert ELEMENT_DTYPES[int(DataType.BF16)] == np.uint16


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists))
def test_packed_bodies_come_back_as_they_were(body: Any) -> None:
    packed = pack_body(body)
    assert packed is not None
    assert unpack_body(packed) == body


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize("body", [object(), [_Text("a")], {"a": iter([])}])
def test_what_is_no_plain_data_is_not_packed(body: Any) -> None:
    assert pack_body(body) is None


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[\x02\x00\x00\x00N", b"[\xff\xff\xff\xffN"])
def test_what_pack_body_does_not_write_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        unpack_body(data)
