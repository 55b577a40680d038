"""This module reads a JSON document exactly as Triton's parser (rapidjson) does, and reports errors in Triton's words.

It is slow, and asked only for documents that Python's own parser refuses or reads otherwise (`json_document`). It
differs from Python's: `Inf`, `-NaN` and a byte-order mark are read, a NUL ends the document, and bytes that are not
UTF-8 pass, but half a surrogate pair and numbers beyond a double do not; of members with one name the first counts.
Measured on 2.51.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

#: Rule 6.3.5.
MAX_DEPTH: Final = 100

_BOM = re.compile(rb"\xef?\xbb?\xbf?")  # as much of a byte-order mark as is there (measured)
_SPACE = re.compile(rb"[ \t\n\r]*")
_NUMBER = re.compile(rb"(-?)(0|[1-9][0-9]*)")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(rb"[0-9]*")
_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_ESCAPES = {b'"': '"', b"/": "/", b"\\": "\\", b"b": "\b", b"f": "\f", b"n": "\n", b"r": "\r", b"t": "\t"}
#: Largest power of ten of a double.
_MAX_EXPONENT = 308


class ReadError(Exception):
    """Says what is wrong, in rapidjson's words, and at which offset."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset


class DepthError(Exception):
    """Says that the document is nested deeper than MAX_DEPTH."""


def read(body: bytes) -> Any:
    """Returns the value of a document. Text that is not UTF-8 comes with surrogate escapes. Raises ReadError or
    DepthError."""
    reader = _Reader(body)
    reader.at = _BOM.match(body).end()  # type: ignore[union-attr]
    reader.skip_space()
    if reader.peek() == b"":
        raise ReadError("The document is empty.", reader.at)
    value = reader.value(0)
    reader.skip_space()
    if reader.peek() != b"":
        raise ReadError("The document root must not be followed by other values.", reader.at)
    return value


class _Reader:
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def peek(self) -> bytes:
        """Returns the next byte; empty at the end, which a NUL also is."""
        byte = self.body[self.at : self.at + 1]
        return b"" if byte == b"\0" else byte

    def skip_space(self) -> None:
        self.at = _SPACE.match(self.body, self.at).end()  # type: ignore[union-attr]

    def take(self, word: bytes) -> bool:
        """Takes the bytes of `word` one by one, as far as they match; tells whether all did."""
        for byte in word:
            if self.body[self.at : self.at + 1] != bytes((byte,)):
                return False
            self.at += 1
        return True

    def value(self, depth: int) -> Any:
        first = self.peek()
        if first == b"{":
            return self.object(depth + 1)
        if first == b"[":
            return self.array(depth + 1)
        if first == b'"':
            return self.string()
        for word, value in ((b"null", None), (b"true", True), (b"false", False)):
            if first == word[:1]:
                if not self.take(word):
                    raise ReadError("Invalid value.", self.at)
                return value
        return self.number()

    def object(self, depth: int) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise DepthError
        found: dict[str, Any] = {}
        self.at += 1
        self.skip_space()
        if self.take(b"}"):
            return found
        while True:
            if self.peek() != b'"':
                raise ReadError("Missing a name for object member.", self.at)
            name = self.string()
            self.skip_space()
            if not self.take(b":"):
                raise ReadError("Missing a colon after a name of object member.", self.at)
            self.skip_space()
            found.setdefault(name, self.value(depth))
            self.skip_space()
            if self.take(b"}"):
                return found
            if not self.take(b","):
                raise ReadError("Missing a comma or '}' after an object member.", self.at)
            self.skip_space()

    def array(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise DepthError
        found: list[Any] = []
        self.at += 1
        self.skip_space()
        if self.take(b"]"):
            return found
        while True:
            found.append(self.value(depth))
            self.skip_space()
            if self.take(b"]"):
                return found
            if not self.take(b","):
                raise ReadError("Missing a comma or ']' after an array element.", self.at)
            self.skip_space()

    def string(self) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self.body, self.at)
            assert plain is not None
            parts.append(plain[0].decode("utf-8", "surrogateescape"))
            self.at = plain.end()
            if self.take(b'"'):
                return "".join(parts)
            if self.peek() == b"":
                raise ReadError("Missing a closing quotation mark in string.", self.at)
            if self.peek() != b"\\":
                raise ReadError("Invalid escape character in string.", self.at)  # a control character
            parts.append(self.escape())

    def escape(self) -> str:
        start = self.at
        self.at += 1
        letter = self.peek()
        if (character := _ESCAPES.get(letter)) is not None:
            self.at += 1
            return character
        if letter != b"u":
            raise ReadError("Invalid escape character in string.", start)
        code = self.code(start)
        if 0xD800 <= code <= 0xDFFF:
            if code >= 0xDC00 or not self.take(b"\\") or self.peek() != b"u":
                raise ReadError("The surrogate pair in string is invalid.", start)
            low = self.code(start)
            if not 0xDC00 <= low <= 0xDFFF:
                raise ReadError("The surrogate pair in string is invalid.", start)
            code = 0x10000 + (code - 0xD800 << 10 | low - 0xDC00)
        return chr(code)

    def code(self, start: int) -> int:
        self.at += 1
        digits = _HEX.match(self.body, self.at)
        if digits is None:
            raise ReadError("Incorrect hex digit after \\u escape in string.", start)
        self.at = digits.end()
        return int(digits[0], 16)

    def number(self) -> int | float:
        start = self.at
        whole = _NUMBER.match(self.body, start)
        if whole is None:
            return self.not_finite()
        self.at = whole.end()
        fraction = self.digits(b".", "Miss fraction part in number.")
        exponent, negative = 0, False
        if self.take(b"e") or self.take(b"E"):
            negative = self.take(b"-")
            if not negative:
                self.take(b"+")
            exponent = int(self.digits(b"", "Miss exponent in number.")[:9])
        elif not fraction and len(whole[0]) <= _MAX_EXPONENT:
            return int(whole[0])
        if not negative and exponent > _MAX_EXPONENT + len(fraction):
            raise ReadError("Number too big to be stored in double.", start)
        value = float(self.body[start : self.at])
        if math.isinf(value) and math.isinf(float(whole[0])):  # 11e308 is infinite, and no error (measured)
            raise ReadError("Number too big to be stored in double.", start)
        return value

    def digits(self, sign: bytes, missing: str) -> bytes:
        """Takes the digits after `sign`, of which there must be one; nothing without the sign."""
        if not self.take(sign):
            return b""
        found = _DIGITS.match(self.body, self.at)
        assert found is not None
        if not found[0]:
            raise ReadError(missing, self.at)
        self.at = found.end()
        return found[0]

    def not_finite(self) -> float:
        negative = self.take(b"-")
        if self.peek() == b"N":
            if self.take(b"NaN"):
                return math.nan
        elif self.peek() == b"I" and self.take(b"Inf") and (self.peek() != b"i" or self.take(b"inity")):
            return -math.inf if negative else math.inf
        raise ReadError("Invalid value.", self.at)
