"""The JSON of requests: documents as Triton reads them, and members one by one, with Triton's words for wrong types."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.status import InternalError, InvalidArgumentError, TritonError
from .large_json import FaultError, LargeArray, LargeReader
from .rapidjson_reader import MAX_DEPTH, PIECE, ReadError, RepeatingObject, find_fault, read

_OPENING = np.zeros(256, np.int8)
_OPENING[[*b"[{"]] = 1
_OPENING[[*b"]}"]] = -1

INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)


def parse(body: bytes | bytearray | memoryview) -> Any:
    """Return the value of a document; objects are dicts, and large arrays may be LargeArrays. Raises TritonError with
    Triton's text."""
    if len(body) <= PIECE:
        text = bytes(body)
        if text.count(b"[") + text.count(b"{") <= MAX_DEPTH or not _may_be_deep(text):
            try:
                return read(text)
            except ReadError as error:
                raise _refusal(error) from None
    try:
        return LargeReader(body).read()
    except FaultError as error:
        end = error.end
    fault = find_fault(memoryview(body)[:end])
    if fault.offset < end or end == len(body):
        raise _refusal(fault)
    # Since 2025-05 (rule 6.3.5); the depth is the document's.
    raise InvalidArgumentError(f"JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH})")


def _refusal(error: ReadError) -> InternalError:
    return InternalError(f"failed to parse the request JSON buffer: {error.text} at {error.offset}")


def _may_be_deep(text: bytes) -> bool:
    """Return whether more brackets than allowed may be open at once; brackets in strings count, too."""
    steps = _OPENING[np.frombuffer(text, np.uint8)]
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) > MAX_DEPTH)


class MissingMember(NamedTuple):
    """The value of a member that Triton does not find (`members`)."""

    name: str

    def refusal(self) -> InternalError:
        return InternalError(f"attempt to access non-existing object member '{self.name}'")


def _type_error(value: Any, text: str) -> InternalError:
    if type(value) is MissingMember:
        return value.refusal()
    return InternalError(f"attempt to access JSON {text}")


def member(value: Any, name: str) -> Any:
    """Return a member of an object. Raises InternalError for a missing member or a value that is not an object."""
    if not isinstance(value, dict) or name not in value:
        raise MissingMember(name).refusal()
    return value[name]


def find(value: Any, name: str) -> tuple[bool, Any]:
    """Return whether `value` is an object with that member, and the member."""
    return (True, value[name]) if isinstance(value, dict) and name in value else (False, None)


def members(value: Any) -> dict[str, Any]:
    """Return the members of an object as Triton iterates over them: it reads a name up to its first NUL, and looks for
    the value by that (measured). Raises InternalError for a value that is not an object."""
    if not isinstance(value, dict):
        raise InternalError("attempt to get members for non-object")
    return _with_c_names(value) if "\0" in "".join(value) else value


def _with_c_names(value: dict[str, Any]) -> dict[str, Any]:
    names = [name.partition("\0")[0] for name in (*value, *getattr(value, "again", ()))]
    return RepeatingObject((name, value.get(name, MissingMember(name))) for name in names)


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _type_error(value, "non-object as object")
    return value


def as_array(value: Any) -> list[Any]:
    if type(value) is LargeArray:
        return value.tolist()
    if type(value) is not list:
        raise _type_error(value, "non-array as array")
    return value


def as_string(value: Any) -> str:
    if type(value) is not str:
        raise _type_error(value, "non-string as string")
    return value


def as_c_string(value: Any) -> str:
    """Return a string up to its first NUL, as Triton keeps it as a C string (measured)."""
    return as_string(value).partition("\0")[0]


def as_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise _type_error(value, "non-boolean as boolean")
    return value


def as_int(value: Any) -> int:
    if type(value) is not int or value not in INT64:
        raise _type_error(value, "non-signed-integer as signed-integer")
    return value


def as_uint(value: Any) -> int:
    if type(value) is not int or value not in UINT64:
        raise _type_error(value, "non-unsigned-integer as unsigned-integer")
    return value


def as_double(value: Any) -> float:
    if type(value) not in (int, float):
        raise _type_error(value, "non-number as double")
    return float(value)


def about(what: str, error: TritonError) -> TritonError:
    """Return the same error with `what` in front: `Unable to parse 'shape': …`."""
    return TritonError.from_code(error.code, f"{what}: {error.message}")
