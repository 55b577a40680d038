"""This module reads a large JSON document in pieces, so that no other thread waits for the whole of it.

Python's parser holds the interpreter lock from the first byte to the last: 5 million numbers stop every thread for
seconds. Here it gets at most PIECE bytes at a time: objects and large arrays are walked in Python, and as many elements
of an array as fit into a piece are parsed in one go. A piece of an array that ends at a comma is put in brackets; so
parsed, it has the values that the parser would have found in the whole document.

Numbers do not stay Python objects: a piece of them becomes an array, which takes a quarter of the memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..shared.give_way import give_way

#: Bytes that are parsed in one go; 64 KB of numbers take 1 ms.
PIECE = 1 << 16

_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]{1,4096}")
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+')
_NOT_NUMBERS = re.compile(rb'[\[\]{}"]')

_STEPS = np.zeros(256, np.int8)
_STEPS[[*b"[{"]] = 1
_STEPS[[*b"]}"]] = -1
_COMMA, _QUOTE = b',"'
#: The array that a piece of elements of one type becomes.
_ARRAYS: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


class NotPlainError(Exception):
    """Python's and Triton's parsers read this document differently."""


class LargeArray:
    """Holds a JSON array of more than one piece.

    `pieces` are arrays of int64, float64 or bool, or lists of what is none of that; elements that are arrays have been
    flattened, unless there are objects in them. `length` counts the elements as the document has them.
    """

    __slots__ = ("length", "pieces")

    def __init__(self) -> None:
        self.pieces: list[NDArray[Any] | list[Any]] = []
        self.length = 0

    def add(self, values: list[Any]) -> None:
        self.length += len(values)
        for value in values:
            if type(value) is LargeArray:  # the only one: larger than a piece
                self.pieces += value.pieces if value.leaves else [values]
                return
        leaves = flat(values)
        types = set(map(type, leaves))
        if dict in types:
            self.pieces.append(values)
        else:
            self.pieces.append(_packed(leaves, types))

    @property
    def leaves(self) -> bool:
        """Tells whether there are no objects in the array."""
        return not any(type(piece) is list and dict in set(map(type, piece)) for piece in self.pieces)

    def tolist(self) -> list[Any]:
        """Returns the elements of all pieces."""
        return list(chain.from_iterable(p.tolist() if isinstance(p, np.ndarray) else p for p in self.pieces))


def flat(data: Any) -> list[Any]:
    """Returns the elements in order; a list that holds lists is not returned itself."""
    found = data if type(data) is list else [data]
    while list in (types := set(map(type, found))):
        if len(types) > 1:
            found = list(chain.from_iterable(each if type(each) is list else (each,) for each in found))
        else:
            found = list(chain.from_iterable(found))
    return found


def _packed(values: list[Any], types: set[type]) -> NDArray[Any] | list[Any]:
    dtype = _ARRAYS.get(*types) if len(types) == 1 else None
    if dtype is None:
        return values
    try:
        return np.array(values, dtype)
    except OverflowError:
        return values


def first_of_equals(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object. Of members with one name the first counts, as for Triton (measured)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        found.update(reversed(pairs))
    return found


class LargeReader:
    """Reads one document. `check(text)` raises NotPlainError for text that Python's parser reads otherwise than
    Triton's."""

    def __init__(self, body: bytes | bytearray | memoryview, max_depth: int, check: Callable[[bytes], None]) -> None:
        self._body = memoryview(body)
        self._max_depth = max_depth
        self._check = check
        self._scan = json.JSONDecoder(object_pairs_hook=first_of_equals).scan_once  # type: ignore[attr-defined]

    def read(self) -> Any:
        """Returns the value; large arrays are LargeArrays. Raises NotPlainError."""
        try:
            value, at = self._value(self._skip(0), 0)
        except (ValueError, StopIteration, RecursionError, IndexError) as error:  # it is cut off, or not JSON
            raise NotPlainError from error
        if self._skip(at) != len(self._body):
            raise NotPlainError
        return value

    def _skip(self, at: int) -> int:
        return _SPACE.match(self._body, at).end()  # type: ignore[union-attr]

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        """Returns the value that begins at a place, and where it ends."""
        first = self._body[at]
        if first == b"{"[0]:
            return self._object(at, depth + 1)
        if first == b"["[0]:
            return self._array(at, depth + 1)
        if first == _QUOTE:
            return self._string(at)
        scalar = _SCALAR.match(self._body, at)
        if scalar is None:
            raise NotPlainError
        return self._parse(scalar[0]), scalar.end()

    def _parse(self, text: bytes) -> Any:
        self._check(text)
        decoded = text.decode()
        value, end = self._scan(decoded, 0)
        if end != len(decoded):
            raise NotPlainError
        return value

    def _string(self, at: int) -> tuple[str, int]:
        parts: list[str] = []
        at += 1
        while True:
            end = _IN_STRING.match(self._body, at, at + PIECE).end()  # type: ignore[union-attr]
            if end == at:
                if self._body[at] != _QUOTE:
                    raise NotPlainError
                return "".join(parts), at + 1
            while self._body[end] & 0xC0 == 0x80:  # in the middle of a character
                end -= 1
            parts.append(self._parse(b'"%b"' % bytes(self._body[at:end])))
            at = end

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        if depth > self._max_depth:
            raise NotPlainError
        found: dict[str, Any] = {}
        at = self._skip(at + 1)
        if self._body[at] == b"}"[0]:
            return found, at + 1
        while self._body[at] == _QUOTE:
            name, at = self._string(at)
            at = self._skip(at)
            if self._body[at] != b":"[0]:
                break
            value, at = self._value(self._skip(at + 1), depth)
            found.setdefault(name, value)
            at = self._skip(at)
            if self._body[at] == b"}"[0]:
                return found, at + 1
            if self._body[at] != _COMMA:
                break
            at = self._skip(at + 1)
        raise NotPlainError

    def _array(self, at: int, depth: int) -> tuple[list[Any] | LargeArray, int]:
        if depth > self._max_depth:
            raise NotPlainError
        found = LargeArray()
        at += 1
        while True:
            window = bytes(self._body[at : at + PIECE])
            give_way()
            size, deepest = _elements(window)
            if size:
                if depth + deepest > self._max_depth or window[size - 1] not in b",]":
                    raise NotPlainError
                values = self._parse(b"[%b]" % window[: size - 1])
                at += size
                last = window[size - 1] == b"]"[0]
                if last and not found.length:
                    return values, at
            else:  # the first element is larger
                value, at = self._value(self._skip(at), depth)
                values = [value]
                at = self._skip(at)
                last = self._body[at] == b"]"[0]
                if not last and self._body[at] != _COMMA:
                    raise NotPlainError
                at += 1
            if not values:  # nothing between two commas
                raise NotPlainError
            found.add(values)
            if last:
                return found, at


def _elements(window: bytes) -> tuple[int, int]:
    """Returns how many bytes of an array's content are whole elements, including the comma or bracket that ends the
    last one, and how many brackets are open at most. The first number is 0 if the first element does not end here."""
    if _NOT_NUMBERS.search(window) is None:
        return window.rfind(_COMMA) + 1, 0
    codes = np.frombuffer(_ESCAPE.sub(b"..", window) if b"\\" in window else window, np.uint8)
    steps = _STEPS[codes]
    commas = codes == _COMMA
    if _QUOTE in window:
        inside = np.bitwise_xor.accumulate((codes == _QUOTE).view(np.uint8)).view(np.bool_)
        steps[inside] = 0
        commas &= ~inside
    depth = np.cumsum(steps, dtype=np.int32)
    ends = depth < 0
    end = int(ends.argmax()) if ends.any() else -1
    if end < 0:
        places = np.flatnonzero(commas & (depth == 0))
        end = int(places[-1]) if len(places) else -1
    return end + 1, int(depth[: end + 1].max(initial=0))
