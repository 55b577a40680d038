"""This module reads the JSON of requests: Python's parser reads it where it agrees with Triton's, and members are read
one by one, with Triton's words for a wrong type."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from ...core.status import InternalError, InvalidArgumentError, TritonError
from .large_json import PIECE, LargeArray, LargeReader, NotPlainError, first_of_equals
from .rapidjson_reader import MAX_DEPTH, DepthError, ReadError, read

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TOO_DEEP = f"JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH})"

_OPENING = np.zeros(256, np.int8)
_OPENING[[*b"[{"]] = 1
_OPENING[[*b"]}"]] = -1

#: A number that may be beyond a double.
_LARGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{210}")
_LARGE_SIZE = 210


_decoder = json.JSONDecoder(object_pairs_hook=first_of_equals)
_scan = _decoder.scan_once  # type: ignore[attr-defined]  # typeshed lacks it

INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)


def parse(body: bytes | bytearray | memoryview) -> Any:
    """Returns the value of a document; objects are dicts, and large arrays may be LargeArrays. Raises InternalError
    with Triton's text."""
    if len(body) > PIECE:
        try:
            return LargeReader(body, MAX_DEPTH, _refuse_surrogates).read()
        except NotPlainError:
            return parse_exactly(bytes(body))
    text = bytes(body)
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH or not _may_be_deep(text):
        try:
            value = _loads(text.decode())
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or a number of thousands of digits
            pass
        else:
            if b"\\u" not in text or _SURROGATE.search(text) is None:
                return value
    return parse_exactly(text)


def _refuse_surrogates(text: bytes) -> None:
    if b"\\u" in text and _SURROGATE.search(text) is not None:
        raise NotPlainError


def _loads(text: str) -> Any:
    """Does what `_decoder.decode` does, without its work around the parser if the parser has read everything."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return _decoder.decode(text)
    return value if end == len(text) else _decoder.decode(text)


def parse_exactly(text: bytes) -> Any:
    """Parses as `parse` does, slowly: for documents that Python's parser accepts and Triton's may not."""
    try:
        return read(text)
    except DepthError:
        # Since 2025-05 (rule 6.3.5); the depth is that of the document.
        raise InvalidArgumentError(_TOO_DEEP) from None
    except ReadError as error:
        raise InternalError(f"failed to parse the request JSON buffer: {error.text} at {error.offset}") from None


def refuse_large_numbers(text: bytes | bytearray | memoryview) -> None:
    """Raises what Triton's parser says of a number beyond a double. Python's reads such a number as infinity, or
    exactly."""
    for start in range(0, len(text), PIECE):
        if _LARGE.search(text, start, start + PIECE + _LARGE_SIZE) is not None:
            parse_exactly(bytes(text))
            return


def _may_be_deep(text: bytes) -> bool:
    """Tells whether more brackets may be open somewhere than are allowed; brackets in strings count, too."""
    steps = _OPENING[np.frombuffer(text, np.uint8)]
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) > MAX_DEPTH)


def member(value: Any, name: str) -> Any:
    """Returns a member of an object. Raises for one that is not there, and for a value that is not an object."""
    if type(value) is not dict or name not in value:
        raise InternalError(f"attempt to access non-existing object member '{name}'")
    return value[name]


def find(value: Any, name: str) -> tuple[bool, Any]:
    """Returns whether `value` is an object with that member, and the member."""
    return (True, value[name]) if type(value) is dict and name in value else (False, None)


def members(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise InternalError("attempt to get members for non-object")
    return value


def as_object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise InternalError("attempt to access JSON non-object as object")
    return value


def as_array(value: Any) -> list[Any]:
    if type(value) is LargeArray:
        return value.tolist()
    if type(value) is not list:
        raise InternalError("attempt to access JSON non-array as array")
    return value


def as_string(value: Any) -> str:
    if type(value) is not str:
        raise InternalError("attempt to access JSON non-string as string")
    return value


def as_c_string(value: Any) -> str:
    """Returns a string up to its first NUL, as Triton keeps it as a C string (measured)."""
    return as_string(value).partition("\0")[0]


def as_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise InternalError("attempt to access JSON non-boolean as boolean")
    return value


def as_int(value: Any) -> int:
    if type(value) is not int or value not in INT64:
        raise InternalError("attempt to access JSON non-signed-integer as signed-integer")
    return value


def as_uint(value: Any) -> int:
    if type(value) is not int or value not in UINT64:
        raise InternalError("attempt to access JSON non-unsigned-integer as unsigned-integer")
    return value


def as_double(value: Any) -> float:
    if type(value) not in (int, float):
        raise InternalError("attempt to access JSON non-number as double")
    return float(value)


def about(what: str, error: TritonError) -> TritonError:
    """Returns the same error with `what` in front: `Unable to parse 'shape': …`."""
    return TritonError.of(error.code, f"{what}: {error.message}")
