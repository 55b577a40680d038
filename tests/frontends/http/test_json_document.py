from __future__ import annotations

import json

import pytest

from tests.conformance.rules import rule
from tritonlab.core.status import InternalError, InvalidArgumentError, TritonError
from tritonlab.frontends.http.json_document import about, as_int, as_uint, member, parse


@pytest.mark.parametrize(
    "body",
    [b"\xef\xbb\xbf{}", b"{}\0", b'{"a":"\xff"}', b'{"a":"\\ud83d\\ude00"}', b"[-Inf]", b"1" * 308],
    ids=["bom", "nul", "no utf-8", "surrogate pair", "inf", "digits"],
)
def test_what_pythons_parser_refuses_is_read_as_triton_reads_it(body: bytes) -> None:
    parse(body)


@rule("6.3.3")
@pytest.mark.parametrize("body", [b'{"a":"\\ud800"}', b"", b'{"a":', b"9" * 5000, b"\xff\xfe{\0}\0"])
def test_no_document_is_an_internal_error(body: bytes) -> None:
    with pytest.raises(InternalError, match=r"^failed to parse the request JSON buffer: .*\. at \d+$"):
        parse(body)


def test_of_members_of_one_name_the_first_counts() -> None:
    assert list(parse(b'{"a":1,"b":2,"a":3,"b":4}').items()) == [("a", 1), ("b", 2)]
    assert list(parse(b'{"a":1,"b":2,"a":Inf,"b":4}').items()) == [("a", 1), ("b", 2)]


@rule("6.3.3")
def test_a_number_beyond_a_double_is_refused() -> None:
    for number in (b"1e309", b"-1E+400", b"1" + b"0" * 309):
        with pytest.raises(InternalError, match=r"Number too big to be stored in double\. at 1$"):
            parse(b"[" + number + b"]")
    for text in (b"[1e308]", b"[1e-400]", b"[Infinity]", b'["1e999"]', b"[11e308]"):
        parse(text)


@rule("6.3.5")
def test_depth_is_limited_and_the_number_of_brackets_is_not() -> None:
    flat = json.dumps([[[1]]] * 5000).encode()
    assert len(parse(flat)) == 5000
    text = json.dumps({"a": "[" * 500}).encode()  # in a string they open nothing
    assert parse(text) == {"a": "[" * 500}
    for body in (b"[" * 101 + b"]" * 101, b"[" * 1_000_000, b'{"a":' * 200_000):
        with pytest.raises(InvalidArgumentError) as raised:
            parse(body)
        assert raised.value.message == "JSON nesting depth exceeds maximum allowed limit (100)"


@rule("6.3.5")
@pytest.mark.parametrize("size", [0, 1 << 17], ids=["small", "large"])
def test_of_depth_and_a_fault_the_first_is_reported(size: int) -> None:
    deep, blanks = b"[" * 101 + b"]" * 101, b" " * size
    with pytest.raises(InvalidArgumentError, match=r"^JSON nesting depth"):
        parse(b'{"a":"[[[","b":' + blanks + deep + b",}")
    with pytest.raises(InternalError, match=r"Invalid value\. at 6$"):
        parse(b'{"a":[,"b":' + blanks + deep + b"}")


@rule("6.3.3")
def test_a_wrong_type_is_refused_in_tritons_words() -> None:
    with pytest.raises(TritonError) as raised:
        member([], "inputs")
    assert raised.value.message == "attempt to access non-existing object member 'inputs'"
    for value in (2**64, -1, 1.0, True, "1", None):
        with pytest.raises(TritonError, match="attempt to access JSON non-unsigned-integer as unsigned-integer"):
            as_uint(value)
    with pytest.raises(TritonError, match="attempt to access JSON non-signed-integer as signed-integer"):
        as_int(2**63)
    error = about("Unable to parse 'x'", InvalidArgumentError("why"))
    assert (type(error), error.message) == (InvalidArgumentError, "Unable to parse 'x': why")
