"""These tests compare with rapidjson itself, as python-rapidjson binds it (tritonclient depends on it). What only the
real server showed is in the table."""

from __future__ import annotations

import math

import pytest
import rapidjson
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conformance.rules import rule
from tritonlab.frontends.http.rapidjson_reader import DepthError, ReadError, read

#: Document -> what the real server says of it, and the offset.
MEASURED: dict[str, tuple[str, int]] = {
    " ": ("The document is empty.", 1),
    "x": ("Invalid value.", 0),
    "{": ("Missing a name for object member.", 1),
    "[": ("Invalid value.", 1),
    "{}x": ("The document root must not be followed by other values.", 2),
    '{"a":1,"inputs":[],}': ("Missing a name for object member.", 19),
    '{"a" 1}': ("Missing a colon after a name of object member.", 5),
    '{"a":tru}': ("Invalid value.", 8),
    '{"a":01}': ("Missing a comma or '}' after an object member.", 6),
    '{"a":1.}': ("Miss fraction part in number.", 7),
    '{"a":1e}': ("Miss exponent in number.", 7),
    '{"a":1e999}': ("Number too big to be stored in double.", 5),
    '{"a":-}': ("Invalid value.", 6),
    '{"a":"\\x"}': ("Invalid escape character in string.", 6),
    '{"a":"\\u12"}': ("Incorrect hex digit after \\u escape in string.", 6),
    '{"a":"\\ud800"}': ("The surrogate pair in string is invalid.", 6),
    '{"a":"b}': ("Missing a closing quotation mark in string.", 8),
    '{"a":"\n"}': ("Invalid escape character in string.", 6),
    "[1 2]": ("Missing a comma or ']' after an array element.", 3),
    "// c\n{}": ("Invalid value.", 0),
}

#: Pieces that make documents which are nearly good.
PIECES = st.one_of(
    st.sampled_from('{}[]:,"-+.eE0 19\\\t'),
    st.sampled_from(
        ["null", "true", "fals", "NaN", "Inf", "-Infinity", "1e308", "1e309", "12.5e-3", '{"a":1}', "[1,2]"]
    ),
    st.sampled_from(['"a"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\udc00"', '"\\ud83d', "\\u", '"é"']),
)


@rule("6.3.3")
@pytest.mark.parametrize("text", MEASURED)
def test_what_is_no_json_is_told_as_triton_tells_it(text: str) -> None:
    with pytest.raises(ReadError) as raised:
        read(text.encode())
    assert (raised.value.text, raised.value.offset) == MEASURED[text]


@example("11e308")
@example("-2e308")
@given(st.lists(PIECES, max_size=12).map("".join))
def test_rapidjson_reads_and_refuses_the_same(text: str) -> None:
    try:
        expected = f"value {rapidjson.loads(text)!r}"
    except rapidjson.JSONDecodeError as error:
        expected = str(error)
    try:
        found = f"value {read(text.encode())!r}"
    except ReadError as error:
        words = error.text
        if words.startswith("Invalid escape") and text.encode()[error.offset] < 32:
            words = "Invalid encoding in string."  # of a newer rapidjson than Triton's
        found = f"Parse error at offset {error.offset}: {words}"
    assert found == expected


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        read(body)
    except ReadError as error:
        assert 0 <= error.offset <= len(body)


def test_what_only_triton_reads() -> None:
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xbf"):
        assert read(mark + b"[1]") == [1]
    assert read(b"[1]\0 anything") == [1]
    assert read(b'"\xff"') == "\udcff"
    assert read(b"[Inf,-Inf,Infinity,-Infinity]") == [math.inf, -math.inf, math.inf, -math.inf]
    assert math.isnan(read(b"-NaN"))


@rule("6.3.5")
def test_a_hundred_levels_are_the_most() -> None:
    assert read(b"[" * 100 + b"]" * 100)
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        with pytest.raises(DepthError):
            read(opening * 101 + b"1" + closing * 101)
        with pytest.raises(DepthError):
            read(opening * 100_000)
