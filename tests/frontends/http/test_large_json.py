"""Documents read in pieces: the result is what the parser makes of the whole, and the pieces are small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.rules import rule
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.status import TritonError
from tritonlab.frontends.http import json_document, json_tensor, large_json, rapidjson_reader
from tritonlab.frontends.http.json_document import as_array, parse
from tritonlab.frontends.http.large_json import FaultError, LargeArray, LargeReader, flat
from tritonlab.frontends.http.rapidjson_reader import ReadError, find_fault


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "PIECE", 16)
        patch.setattr(json_document, "PIECE", 16)
        patch.setattr(rapidjson_reader, "PIECE", 16)
        for module in (large_json, rapidjson_reader):
            patch.setattr(module, "pause_work", lambda: None)
        yield


def read(text: str | bytes) -> Any:
    body = text.encode() if isinstance(text, str) else text
    return LargeReader(body).read()


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is in an array, in arrays in it, and so on."""
    for each in value.tolist() if type(value) is LargeArray else value:
        if type(each) in (list, LargeArray):
            yield from leaves(each)
        else:
            yield each


def text_of(value: Any, large: Any = None) -> str:
    """Return the value's text, arrays flat, after a check that `large` has the same lengths."""
    if type(large) is LargeArray:
        assert large.length == len(value)
    if isinstance(value, dict):
        members = [f"{key!r}: {text_of(each)}" for key, each in value.items()]
        return "{" + ", ".join(members) + "}"
    if type(value) in (list, LargeArray):
        return "[" + ", ".join(map(text_of, leaves(value))) + "]"
    return repr(value)


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=60,
)
layouts = st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 1}, {"separators": (",", ":")}])


@settings(max_examples=300, deadline=None)
@given(document=documents, layout=layouts)
def test_a_document_in_pieces_is_the_document(document: Any, layout: dict[str, Any]) -> None:
    text = json.dumps(document, **layout)
    assert text_of(read(text)) == text_of(rapidjson_reader.read(text.encode()), read(text))


@settings(max_examples=500, deadline=None)
@given(
    document=documents,
    place=st.integers(0, 10_000),
    put=st.sampled_from(
        [*'[]{},:" \\1ax\0', "", "Inf", "\\ud83d", "1e309", "2e308", "\\udc00", "\udcff", "\ufeff", "[" * 101]
    ),
    cut=st.booleans(),
)
def test_a_document_with_something_odd_in_it(document: Any, place: int, put: str, cut: bool) -> None:
    text = json.dumps(document)
    place %= len(text) + 1
    body = (text[:place] + put + ("" if cut else text[place + 1 :])).encode("utf-8", "surrogateescape")
    try:
        expected = rapidjson_reader.read(body)
    except ReadError as error:
        with pytest.raises(FaultError) as raised:
            read(body)
        found = find_fault(memoryview(body)[: raised.value.end])
        assert found.offset == error.offset if found.offset < raised.value.end else raised.value.end <= len(body)
        return
    found = read(body)
    assert text_of(found) == text_of(expected, found)


@pytest.mark.parametrize(
    "text",
    [b"[1,2,3,4,5,6,7,8,,9]", b"[1,2,3,4,5,6,7,]", b"[,1,2,3,4,5,6,7,8]", b"[1,2,3,4,5,6,7,8", b'"' + b"x" * 40, b""],
)
def test_what_lacks_something_between_two_pieces_is_not_read(text: bytes) -> None:
    for blanks in range(20):
        with pytest.raises(FaultError):
            read(b" " * blanks + text)


def test_no_piece_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "PIECE", 1000)
    sizes: list[int] = []
    whole = rapidjson_reader.read
    monkeypatch.setattr(large_json, "read", lambda text: (sizes.append(len(text)), whole(text))[1])
    numbers = list(range(20_000))
    for document in (
        numbers,
        {"inputs": [{"name": "IN", "data": [numbers, [[each] for each in numbers]]}]},
        {"a": "x" * 100_000, "b": 'é"\\' * 30_000},
        ["one, two ][ {"] * 5000,
        [{"a": [1, 2], "b": "]"}] * 2000,
        {f"k{each}": each for each in range(5000)},
        [{f"k{each}": [each, "}"] for each in range(5000)}],
        ["\U0001f600"] * 5000,
        "\U0001f600" * 5000,
    ):
        found = read(json.dumps(document, ensure_ascii=False))
        assert text_of(found) == text_of(document)
    assert max(sizes) <= 1002
    assert sum(sizes) / len(sizes) > 500  # and they are not small, either


def test_of_members_of_one_name_the_first_counts_and_of_large_ones_too() -> None:
    found = read('{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9], "b": 1, "a": 2}')
    assert list(found) == ["a", "b"] and found["a"].tolist() == list(range(1, 10))


@rule("6.3.5")
@pytest.mark.parametrize("inner", ["1", "{}", '"[[["', "[[1]],[[2]]"])
def test_the_limit_of_depth(inner: str) -> None:
    depth = 100 - inner.count("[[") * 2 + inner.count('"[[["') * 2 - inner.count("{")
    if inner == "[[1]],[[2]]":
        depth = 98
    read("[" * depth + inner + "]" * depth)
    with pytest.raises(FaultError):
        read("[" * (depth + 1) + inner + "]" * (depth + 1))


def test_objects_in_arrays_in_arrays_are_no_objects_in_arrays() -> None:
    for text in (
        '[[{"a": 1}, {"b": 2}, {"c": 3}]]',
        '[[{"a": 1}], [{"b": 2}], [{"c": 3}]]',
        '[1, 2, 3, [[{"c": 123}]]]',
    ):
        found = as_array(read(text))
        assert not all(type(each) is dict for each in found)
    assert as_array(read('[{"a": 1}, {"b": 2}, {"c": 3}]')) == [{"a": 1}, {"b": 2}, {"c": 3}]


@rule("6.3.3", "6.3.4")
@pytest.mark.parametrize(
    ("datatype", "text"),
    [
        ("FP32", "[1.5, 2.5, 3, 4, 5.25, 1e300, -1, 12345678901234567890123]"),
        ("FP32", "[1.5, 2.5, 3.5, 4.5, [5.25, 6], [[7]], 8.0]"),
        ("FP64", "[1, 2, 3, 4, 5, 6, 7, 8, 9223372036854775807, 2]"),
        ("INT8", "[300, -300, 1, 2, 3, 4, 5, 6, 7]"),
        ("UINT64", "[18446744073709551615, 0, 1, 2, 3, 4, 5, 6]"),
        ("UINT64", "[1, 2, 3, 4, 5, 6, 7, 8, 9, -10, 11]"),
        ("INT64", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 9223372036854775808]"),
        ("INT32", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5]"),
        ("INT32", "[1, 2, 3, 4, 5, 6, 7, 8, 9, true]"),
        ("BOOL", "[true, false, true, false, true]"),
        ("BOOL", "[true, false, true, false, 1]"),
        ("FP32", "[true, false, true, false, true]"),
        ("BYTES", '["one", "two", ["three", "four"], "f\\u00fcnf", "sechs"]'),
        ("BYTES", '["one", "two", "three", "four", 5, 6, 7, 8, 9, 10]'),
        ("FP32", '[1, 2, 3, 4, 5, 6, 7, 8, {"a": [9, 10, 11, 12, 13, 14]}]'),
    ],
)
def test_tensors_of_large_arrays_are_those_of_lists(datatype: str, text: str) -> None:
    def elements(data: Any, count: int) -> Any:
        try:
            found = json_tensor.elements("IN", DataType[datatype], data, count)
            return found.dtype, found.tolist()
        except TritonError as error:
            return error.code, error.message

    data = read(text)
    assert type(data) is LargeArray
    size = len(flat(json.loads(text)))
    for count in (size, size - 1, size + 1):
        assert elements(data, count) == elements(json.loads(text), count)


def test_numbers_do_not_stay_python_objects() -> None:
    (document,) = as_array(read(json.dumps([{"data": [0.5, 1.5] * 100}])))
    assert {type(piece) for piece in document["data"].pieces} == {np.ndarray}


def test_parse_reads_large_documents_in_pieces_and_the_others_as_ever() -> None:
    assert type(parse(b"[1,2]")) is list
    assert type(parse(b"[" + b"1," * 20 + b"1]")) is LargeArray
    assert as_array(parse(b"[" + b"NaN," * 20 + b"-Inf]"))[-1] == -np.inf
