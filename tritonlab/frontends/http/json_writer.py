"""JSON as Triton writes it: no blanks, floating-point numbers with a fraction, text as UTF-8 (rule
6.3.2).

Triton's digits are not always the shortest for a number, ours are; both read back as the same number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from numpy.typing import NDArray

from ...core.json_text import fractions
from ..shared.work_pause import check_memory, pause_work

#: Numbers that are written before other threads may run: 2 ms.
_AT_ONCE = 1 << 12
#: How often an array is in memory next to its pieces, until the document is made.
_COPIES = 2
_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')
_ESCAPED = {bytes((code,)): b"\\u%04X" % code for code in range(32)} | {
    b'"': b'\\"',
    b"\\": b"\\\\",
    b"\b": b"\\b",
    b"\f": b"\\f",
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
}
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def string(raw: bytes) -> bytes:
    """Write a string of these bytes; bytes that are not UTF-8 are kept."""
    return b'"' + _SPECIAL.sub(lambda match: _ESCAPED[match[0]], raw) + b'"'


def text(value: str) -> bytes:
    """Write a string. Bytes of the request that are not UTF-8 go out unchanged."""
    return string(value.encode("utf-8", "surrogateescape"))


def value(item: Any) -> bytes:
    """Write one value of a document or parameter: None, bool, int, float, str, and lists and mappings of them."""
    if isinstance(item, str):
        return text(item)
    if isinstance(item, float):
        return fractions(_compact(item)).encode()
    if isinstance(item, Mapping):
        return members((key, value(entry)) for key, entry in item.items())
    if isinstance(item, (list, tuple)):
        return b"[" + b",".join(map(value, item)) + b"]"
    return _compact(item).encode()


def members(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """Write an object whose values are JSON already; a name may occur twice (rule 5.7.8)."""
    return b"{" + b",".join(text(name) + b":" + entry for name, entry in pairs) + b"}"


def numbers(array: NDArray[Any]) -> bytes:
    """Write the elements of an array of numbers or bools as a flat array."""
    flat = array.reshape(-1)
    if flat.size <= _AT_ONCE:
        return _numbers(flat)
    pieces = []
    for start in range(0, flat.size, _AT_ONCE):
        pieces.append(_numbers(flat[start : start + _AT_ONCE])[1:-1])
        pause_work()
    return joined(pieces)


def joined(pieces: Sequence[bytes]) -> bytes:
    """Write a large array whose elements are JSON already, some in each piece. Raises UnavailableError if there is no
    memory for it and for the document."""
    check_memory(_COPIES * sum(map(len, pieces)))
    # if they are many bytes, without the interpreter lock
    return b"".join((b"[", *chain.from_iterable((piece, b",") for piece in pieces[:-1]), *pieces[-1:], b"]"))


def _numbers(flat: NDArray[Any]) -> bytes:
    values = flat.tolist()
    if flat.dtype.kind != "f":
        return _compact(values).encode()
    printed = repr(values)  # has json's digits, in two thirds of the time
    printed = printed.replace(" ", "") if "n" not in printed else _compact(values)  # json has words for inf and nan
    return fractions(printed).encode()
