"""A large JSON document, read in pieces, so that no other thread waits for the whole of it.

The parser holds the interpreter lock from the first byte to the last. Here it gets at most PIECE bytes at a time: as
many elements of a large array, or members of a large object, as fit. A piece that ends at a comma is put in brackets;
parsed in this way, it has the same values as in the whole document.

Numbers do not stay Python objects: a piece of them becomes an array, which takes a quarter of the memory.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..shared.work_pause import pause_work
from .rapidjson_reader import MAX_DEPTH, PIECE, ReadError, RepeatingObject, mark_size, read

_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]*+")
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
#: The parts of a string that may be read alone: surrogate pairs stay together.
_IN_STRING = re.compile(
    rb'(?:[^"\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*+'
)
_NOT_NUMBERS = re.compile(rb'[\[\]{}"]')

_STEPS = np.zeros(256, np.int8)
_STEPS[[*b"[{"]] = 1
_STEPS[[*b"]}"]] = -1
_COMMA, _QUOTE, _COLON, _NUL = b',":\0'
_ARRAY, _OBJECT = b"[]", b"{}"
#: The levels of content without brackets.
_FLAT = np.zeros(0, np.int32)
#: The array that a piece of elements of one type becomes.
_ARRAYS: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


class FaultError(Exception):
    """An error for a document with a fault before `end`, or with more open brackets at `end` than are allowed."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        self.end = end


class LargeArray:
    """A JSON array of more than one piece.

    `pieces` are arrays of int64, float64 or bool, or lists of other values; elements that are arrays have been
    flattened, unless they contain objects. `length` counts the elements as the document has them.
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
        """Return whether there are no objects in the array."""
        return not any(type(piece) is list and dict in set(map(type, piece)) for piece in self.pieces)

    def tolist(self) -> list[Any]:
        """Return the elements of all pieces."""
        return list(chain.from_iterable(p.tolist() if isinstance(p, np.ndarray) else p for p in self.pieces))


def flat(data: Any) -> list[Any]:
    """Return the elements in order; a list that holds lists is not returned itself."""
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


class LargeReader:
    """The reader of one document, in pieces."""

    def __init__(self, body: bytes | bytearray | memoryview) -> None:
        self._body = memoryview(body)

    def read(self) -> Any:
        """Return the value; large arrays are LargeArrays. Raises FaultError."""
        try:
            value, at = self._value(self._skip(mark_size(self._body)), 0)
        except (ReadError, IndexError):  # it is not JSON, or cut off
            raise self._fault() from None
        at = self._skip(at)
        if at != len(self._body) and self._body[at] != _NUL:
            raise self._fault()
        return value

    def _fault(self) -> FaultError:
        return FaultError(len(self._body))

    def _skip(self, at: int) -> int:
        return _SPACE.match(self._body, at).end()  # type: ignore[union-attr]

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        """Return the value that begins at a place, and where it ends; `depth` brackets are open around it."""
        first = self._body[at]
        if first in b"{[":
            if depth == MAX_DEPTH:
                raise FaultError(at)
            return (self._object if first == _OBJECT[0] else self._array)(at + 1, depth + 1)
        if first == _QUOTE:
            return self._string(at)
        end = _SCALAR.match(self._body, at).end()  # type: ignore[union-attr]
        return read(bytes(self._body[at:end])), end

    def _string(self, at: int) -> tuple[str, int]:
        parts: list[str] = []
        if self._body[at] != _QUOTE:
            raise self._fault()
        at += 1
        while True:
            end = _IN_STRING.match(self._body, at, at + PIECE).end()  # type: ignore[union-attr]
            if end == at:
                if self._body[at] != _QUOTE:
                    raise self._fault()
                return "".join(parts), at + 1
            for whole in range(end, max(end - 4, at), -1):  # not in the middle of a character
                if self._body[whole] & 0xC0 != 0x80:
                    end = whole
                    break
            pause_work()
            parts.append(read(b'"%b"' % bytes(self._body[at:end])))
            at = end

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        last = False
        while not last:
            values, at, last = self._some(at, depth, _OBJECT)
            if not values and (found or not last):  # nothing behind a comma
                raise self._fault()
            if type(found) is type(values) is dict and found.keys().isdisjoint(values):
                found.update(values)
                continue
            if not isinstance(found, RepeatingObject):
                found = RepeatingObject(found.items())
            found.add(values.items())
            if isinstance(values, RepeatingObject):
                found.again |= values.again
        return found, at

    def _array(self, at: int, depth: int) -> tuple[list[Any] | LargeArray, int]:
        found = LargeArray()
        last = False
        while not last:
            values, at, last = self._some(at, depth, _ARRAY)
            if last and not found.length:
                return values, at
            if not values:  # nothing behind a comma
                raise self._fault()
            found.add(values)
        return found, at

    def _some(self, at: int, depth: int, brackets: bytes) -> tuple[Any, int, bool]:
        """Return as many elements or members as fit into a piece, where they end, and whether they are the last."""
        window = bytes(self._body[at : at + PIECE])
        pause_work()
        levels, size = _elements(window)
        if size:
            if (deep := levels[:size] > MAX_DEPTH - depth).any():
                raise FaultError(at + int(deep.argmax()))
            values, at = read(b"%b%b%b" % (brackets[:1], window[: size - 1], brackets[1:])), at + size
        else:  # the first is larger
            values, at = (self._member if brackets is _OBJECT else self._element)(self._skip(at), depth)
            at = self._skip(at) + 1
        end = self._body[at - 1]
        if end not in (_COMMA, brackets[1]):
            raise self._fault()
        return values, at, end != _COMMA

    def _element(self, at: int, depth: int) -> tuple[list[Any], int]:
        value, at = self._value(at, depth)
        return [value], at

    def _member(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        name, at = self._string(at)
        at = self._skip(at)
        if self._body[at] != _COLON:
            raise self._fault()
        value, at = self._value(self._skip(at + 1), depth)
        return {name: value}, at


def _elements(window: bytes) -> tuple[NDArray[Any], int]:
    """Return for each byte of an array's or object's content how many brackets are open, and how many bytes are
    complete elements or members, up to the comma or bracket that ends the last one: 0 if the first one does not end
    here."""
    if _NOT_NUMBERS.search(window) is None:
        return _FLAT, window.rfind(_COMMA) + 1
    codes = np.frombuffer(_ESCAPE.sub(b"..", window) if b"\\" in window else window, np.uint8)
    steps = _STEPS[codes]
    commas = codes == _COMMA
    if _QUOTE in window:
        inside = np.bitwise_xor.accumulate((codes == _QUOTE).view(np.uint8)).view(np.bool_)
        steps[inside] = 0
        commas &= ~inside
    levels = np.cumsum(steps, dtype=np.int32)
    ends = levels < 0
    end = int(ends.argmax()) if ends.any() else -1
    if end < 0:
        places = np.flatnonzero(commas & (levels == 0))
        end = int(places[-1]) if len(places) else -1
    return levels, end + 1
