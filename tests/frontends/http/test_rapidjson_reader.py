"""What python-rapidjson reads otherwise than Triton, and how it is fixed, without a change to anything else. The table
has the real server's texts.
"""

from __future__ import annotations

import math

import pytest
import rapidjson
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conformance.rules import rule
from tritonlab.frontends.http import rapidjson_reader
from tritonlab.frontends.http.rapidjson_reader import ReadError, find_fault, read

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


_NATIVE = rapidjson.NM_NATIVE | rapidjson.NM_NAN


def as_read(text: str) -> str:
    """Return what `read` returns or the fault, after a check that the same fault is found in pieces."""
    body = text.encode()
    try:
        return f"value {read(body)!r}"
    except ReadError as error:
        assert (error.text, error.offset) == fault(body)
        return f"Parse error at offset {error.offset}: {error.text}"


def fault(body: bytes) -> tuple[str, int]:
    found = find_fault(memoryview(body))
    return found.text, found.offset


@rule("6.3.3")
@pytest.mark.parametrize("text", MEASURED)
def test_faults_have_tritons_texts_and_offsets(text: str) -> None:
    with pytest.raises(ReadError) as raised:
        read(text.encode())
    assert (raised.value.text, raised.value.offset) == fault(text.encode()) == MEASURED[text]


@given(st.lists(PIECES, max_size=12).map("".join))
def test_rapidjson_reads_and_refuses_the_same(text: str) -> None:
    try:
        expected = f"value {rapidjson.loads(text, number_mode=_NATIVE)!r}"
    except rapidjson.JSONDecodeError as error:
        expected = str(error).replace("Invalid encoding in string.", "Invalid escape character in string.")
        assume("\\udc00" not in text and not ("e308" in text and "too big" in expected))  # which Triton reads
    assert as_read(text) == expected


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        read(body)
    except ReadError as error:
        assert 0 <= error.offset <= len(body)
        assert fault(body) == (error.text, error.offset)


@given(st.binary(), st.text())
def test_bytes_that_are_not_utf_8_stay_what_they_are(body: bytes, text: str) -> None:
    raw = bytes(byte for byte in body if byte >= 128)
    escapes = "".join(f"\\u{ord(each):04x}" for each in text if each.isprintable() and ord(each) < 0xD800)
    document = b'{"k\xff": [1.5, "%b%b%b\\\\ue0ff\\ue0ff"], "l": "\\\\%b"}' % (raw, escapes.encode(), raw, raw)
    expected = raw + escapes.encode().decode("unicode-escape").encode() + raw + b"\\ue0ff" + "\ue0ff".encode()
    key, value = "k\udcff", read(document)
    assert value[key][0] == 1.5
    assert value[key][1].encode("utf-8", "surrogateescape") == expected
    assert value["l"].encode("utf-8", "surrogateescape") == b"\\" + raw


def test_faults_beside_bytes_that_are_not_utf_8() -> None:
    for text, expected in (
        (b'["\xff",]', ("Invalid value.", 5)),
        (b'["\xff"] \xff', ("The document root must not be followed by other values.", 6)),
        (b'["\xff\n"]', ("Invalid escape character in string.", 3)),
        (b'\xef\xbb\xbf["\xff",]', ("Invalid value.", 8)),
        (b'["\xff", 2e308, 1e309]', ("Number too big to be stored in double.", 13)),
    ):
        with pytest.raises(ReadError) as raised:
            read(text)
        assert (raised.value.text, raised.value.offset) == expected


def test_what_only_triton_reads() -> None:
    assert read(b'["\\udc00\\\\udc00\\ud83d\\ude00\\n\\uDFFF"]')[0].encode("utf-8", "surrogateescape") == (
        b"\xed\xb0\x80\\udc00\xf0\x9f\x98\x80\n\xed\xbf\xbf"
    )
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xbf"):
        assert read(mark + b"[1]") == [1]
    assert read(b"[1]\0 anything") == [1]
    assert read(b'"\xff"') == "\udcff"
    assert read(b"[Inf,-Inf,Infinity,-Infinity]") == [math.inf, -math.inf, math.inf, -math.inf]
    assert math.isnan(read(b"-NaN"))


@rule("6.3.3")
def test_numbers_that_overflow_below_the_largest_exponent_are_infinite() -> None:
    for text, number in (("2e308", math.inf), ("-11e308", -math.inf), ("9.1e309", math.inf), ("0.1e309", 1e308)):
        assert read(f'["2e308", 1.7976931348623157e308, {text}, 5]'.encode()) == [
            "2e308",
            1.7976931348623157e308,
            number,
            5,
        ]
    for text in ("1e309", "-1E+400", "9" * 309, "1" * 310 + "e-3", "0e400"):
        with pytest.raises(ReadError, match="too big") as raised:
            read(f"[2e308,{text}]".encode())
        assert raised.value.offset == 7


@pytest.mark.parametrize(
    "body",
    [b'["\\ud83d\\ude00"]', '["😀"]'.encode(), b"[Inf, -Infinity, NaN]", b'{"a": 1, "a": 2}', b"[1e-400]"],
    ids=["escaped emoji", "emoji", "infinite", "repeated", "tiny"],
)
def test_what_json_may_hold_is_read_in_one_go(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rapidjson_reader, "_examine", None)
    read(body)


def test_of_members_of_one_name_the_first_counts() -> None:
    assert list(read(b'{"a":1,"b":2,"a":3,"b":4}').items()) == [("a", 1), ("b", 2)]
    assert read(b'{"a":{"b":{"c":1,"c":2}},"a":3}') == {"a": {"b": {"c": 1}}}


def test_containers_under_a_name_that_came_before_are_dropped() -> None:
    """A mapping that drops a member while rapidjson still fills it crashes the process."""
    for second in ("{}", "[]", '{"b":[1,{"c":2}]}', '[[{"d":[]}]]', '{"a":{},"a":[{}],"a":1}'):
        for _ in range(100):
            assert read(f'{{"a":{{"x":[]}},"a":{second},"e":[{{}}]}}'.encode()) == {"a": {"x": []}, "e": [{}]}
