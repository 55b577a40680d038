"""The JSON parser of Triton, which is rapidjson, through python-rapidjson.

Compared with Python's own parser (2026-11-23; `tests/conformance/test_http_infer.py` has samples): Triton 2.51 reads
each of 34,017 decimal numbers as rapidjson does with its native numbers, 7,827 of them one bit away from the nearest
double, which Python reads. A request of 384 bytes takes 4 us instead of 10 (and as long as before without numbers), 16
KB of numbers 37 us instead of 440, 4 MB with one escaped emoji 0.05 s instead of 0.86 with a reader of ours. rapidjson
holds the interpreter lock while it reads, 16 ms for each MB of numbers; so large documents are read in pieces
(`large_json`).

python-rapidjson and Triton differ in: bytes that are not UTF-8, parts of a byte-order mark, second halves of surrogate
pairs that stand alone, and numbers such as 2e308, infinite for Triton and too big for newer rapidjsons.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import IO, Any, Final, cast

import numpy as np
import rapidjson

from ..shared.work_pause import pause_work

#: Bytes that are read at once; 64 KB of numbers take 0.5 ms.
PIECE = 1 << 16
#: Rule 6.3.5.
MAX_DEPTH: Final = 100

_BOM = re.compile(rb"\xef?\xbb?\xbf?")  # as much of a byte-order mark as there is (measured)
_WHERE = re.compile(r"Parse error at offset (\d+): (.*)", re.DOTALL)
#: The texts of newer rapidjsons, and Triton's text.
_TEXTS = {"Invalid encoding in string.": "Invalid escape character in string."}
#: Their texts for some documents that Triton reads.
_TOO_BIG, _HALF_PAIR = "Number too big to be stored in double.", "The surrogate pair in string is invalid."
#: Largest power of ten of a double.
_MAX_EXPONENT = 308
_NEARLY_TOO_BIG = 1.7e308

#: Byte + this is the character that stands for the byte while a document that is not UTF-8 is read.
_STAND_IN = 0xE000
_SURROGATES = {_STAND_IN + byte: 0xDC00 + byte for byte in range(128, 256)}
#: Escapes of these characters, in the group, and escaped backslashes.
_STAND_INS = re.compile(rb"(?:\\\\)++|\\u([eE]0[89a-fA-F][0-9a-fA-F])")
#: The second halves of surrogate pairs that stand alone, in the group; other escapes that may look like one.
_LOW_HALVES = re.compile(rb"(?:\\\\)++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u([dD][c-fC-F][0-9a-fA-F]{2})")
#: Puts `?` for bytes outside ASCII, when only faults are looked for.
_MASK = bytes(range(128)) + b"?" * 128

#: Strings, which are left as they are, and numbers: their integer part, fraction and positive exponent.
_NUMBERS = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"'
    rb"|(?<![-+.0-9eE])-?(0|[1-9][0-9]*+)(?:\.([0-9]++))?+(?:[eE](?:\+?([0-9]++)|-[0-9]++))?+",
    re.DOTALL,
)

_FORMAT = rapidjson.NM_NATIVE | rapidjson.NM_NAN


class ReadError(Exception):
    """A fault of a document, in Triton's words, and its offset."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text, offset)
        self.text = text
        self.offset = offset

    def __str__(self) -> str:
        return self.text


class RepeatingObject(dict[str, Any]):
    """An object with several members of one name. The first counts, as for Triton (measured); `again` has the names."""

    def __init__(self, members: Iterable[tuple[str, Any]]) -> None:
        super().__init__()
        self.again: set[str] = set()
        self.add(members)

    def add(self, members: Iterable[tuple[str, Any]]) -> None:
        for name, value in members:
            if name in self:
                self.again.add(name)
            else:
                self[name] = value


def make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    return found if len(found) == len(members) else RepeatingObject(members)


class _Values(rapidjson.Decoder):
    # rapidjson puts what it still reads into the mapping; a mapping that leaves out a second member would crash the
    # process.
    start_object = list
    end_object = staticmethod(make_object)


class _Faults(rapidjson.Decoder):
    """A parser that discards all values."""

    def end_object(self, _: Any) -> None:
        return None

    string = end_array = end_object


_values = _Values(number_mode=_FORMAT)
_faults = _Faults(number_mode=_FORMAT)


def read(text: bytes) -> Any:
    """Return the value of a document, at once. Bytes that are not UTF-8 become surrogate escapes.

    Raises ReadError. The document must not be nested deeper than MAX_DEPTH.
    """
    try:
        return _values(text)
    except (UnicodeDecodeError, rapidjson.JSONDecodeError):
        pass
    fault, body = _examine(memoryview(text))
    if fault is not None:
        raise fault
    repaired = _LOW_HALVES.sub(_as_bytes, body)
    try:
        return _values(repaired)
    except UnicodeDecodeError:
        # while it is read, a character of the private use area stands for each byte outside ASCII
        codes = np.frombuffer(_STAND_INS.sub(_as_bytes, repaired), np.uint8).astype("<u2")
        codes[codes >= 128] += _STAND_IN
        return _with_bytes(_values(codes.tobytes().decode("utf-16-le")))


def find_fault(body: memoryview) -> ReadError:
    """Return the first fault of a document that has one; the document is read in pieces."""
    fault, _ = _examine(body)
    assert fault is not None
    return fault


def mark_size(text: bytes | memoryview) -> int:
    """Return the size of the beginning of a byte-order mark."""
    return _BOM.match(text).end()  # type: ignore[union-attr]


class _Pieces:
    """A document as a file from which rapidjson reads; between two pieces other threads run."""

    def __init__(self, body: memoryview) -> None:
        self._left = body

    def read(self, size: int) -> bytes:
        pause_work()
        piece, self._left = self._left[:size], self._left[size:]
        return bytes(piece).translate(_MASK)


def _examine(text: memoryview) -> tuple[ReadError | None, memoryview]:
    """Return the first fault that Triton would find, and the document with its numbers as in python-rapidjson."""
    start = mark_size(text)
    body = text[start:]
    fault = _first_fault(body)
    if fault is not None and fault.text in (_TOO_BIG, _HALF_PAIR):
        body = memoryview(_NUMBERS.sub(_infinite, body))
        halves_gone = _LOW_HALVES.sub(lambda match: match[0] if match[1] is None else rb"\u0000", body)
        fault = _first_fault(memoryview(halves_gone))
    if fault is not None:
        fault.offset += start
    return fault, body


def _first_fault(body: memoryview) -> ReadError | None:
    """Return the first fault other than bytes that are not UTF-8."""
    try:
        _faults(cast(IO[bytes], _Pieces(body)), chunk_size=PIECE)
    except rapidjson.JSONDecodeError as error:
        offset, text = _WHERE.fullmatch(str(error)).groups()  # type: ignore[union-attr]
        return ReadError(_TEXTS.get(text, text), int(offset))
    return None


def _infinite(match: re.Match[bytes]) -> bytes:
    """Return `Inf`, as long as the number, for one such as 2e308, of which only the product overflows (measured)."""
    number = match[0]
    whole, fraction, exponent = match.groups()
    if exponent is None or abs(float(number)) < _NEARLY_TOO_BIG or math.isinf(float(whole)):
        return number
    if int(exponent[:9]) > _MAX_EXPONENT + len(fraction or b""):
        return number
    try:
        _values(number)
    except rapidjson.JSONDecodeError:
        return (b"-Inf" if number[:1] == b"-" else b"Inf").ljust(len(number))
    return number


def _as_bytes(match: re.Match[bytes]) -> bytes:
    """Return the bytes of an escaped character, which is in the group."""
    code: bytes | None = match[1]
    return match[0] if code is None else chr(int(code, 16)).encode("utf-8", "surrogatepass")


def _with_bytes(value: Any) -> Any:
    """Return the value with the bytes for which its characters stand."""
    if type(value) is str:
        if value.isascii():
            return value
        return value.translate(_SURROGATES).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    if type(value) is list:
        return [_with_bytes(each) for each in value]
    if isinstance(value, dict):
        members = [(_with_bytes(name), _with_bytes(each)) for name, each in value.items()]
        if isinstance(value, RepeatingObject):
            members += [(_with_bytes(name), None) for name in value.again]
        return make_object(members)
    return value
