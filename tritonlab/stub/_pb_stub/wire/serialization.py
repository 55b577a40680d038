"""The encoding of data that crosses the process border: the wire version, message bodies, tensor headers and BYTES
elements.

Bodies are JSON: the C encoder of the standard library takes 2-3 us for a request, every interpreter from 3.8 on has it,
and reading the data of a broken stub is harmless. `ipc_message.py` has their contents. Bodies that the server sends
with every request are packed with `marshal`, which takes a quarter of that time on both sides and saves 3 us of a
request's 65. The stub's own messages are not, as `marshal` is not made for corrupt bytes, and the server must survive
them.
"""

from __future__ import annotations

import json
import marshal
import struct
from typing import Any, Callable, List, Optional, Union

import numpy as np

#: Part of the sum in every header; a server and a stub of different releases refuse each other instead of misreading.
WIRE_VERSION = 7

#: The most characters of the author's text on the wire (rule 3.5.5).
MAX_TEXT = 1 << 20

#: The marshal format that every interpreter from 3.8 on reads and writes identically.
_MARSHAL_VERSION = 2

MEMORY_CPU = 0
MEMORY_CPU_PINNED = 1
MEMORY_GPU = 2

Buffer = Union[bytes, bytearray, memoryview]


def _make_encoder() -> Callable[[Any], bytes]:
    """Return JSONEncoder.encode without its set-up on each call: 2.4 us instead of 4.8 for a request
    of two tensors."""
    make = getattr(json.encoder, "c_make_encoder", None)
    slow = json.JSONEncoder(separators=(",", ":"))
    if make is None:
        return lambda body: b"" if body is None else slow.encode(body).encode("ascii")
    escape = json.encoder.encode_basestring_ascii
    fast = make(
        markers=None,
        default=slow.default,
        encoder=escape,
        indent=None,
        key_separator=":",
        item_separator=",",
        sort_keys=False,
        skipkeys=False,
        allow_nan=True,
    )
    return lambda body: b"" if body is None else "".join(fast(body, 0)).encode("ascii")


#: Encodes the body of a message as UTF-8 JSON; None becomes the empty body.
encode_body = _make_encoder()
_scan_json = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class WireError(Exception):
    """Bytes that no correct process sends. The error fails only requests in flight on that link."""


def bounded(text: str, limit: int = MAX_TEXT) -> str:
    """Cut `text` at the limit, and add the number of characters left out."""
    if len(text) <= limit:
        return text
    return "%s … [%d characters left out]" % (text[:limit], len(text) - limit)


def decode_body(data: Buffer) -> Any:
    """Reverse encode_body. Raises WireError for anything that is not JSON."""
    if not len(data):
        return None
    try:
        text = str(data, "ascii")
        body, end = _scan_json(text, 0)  # half the time of json.loads, which checks encodings and white space
    except (ValueError, RecursionError, StopIteration) as error:
        raise WireError("message body is not valid JSON: %s" % error) from None
    if end != len(text):
        raise WireError("message body is longer than its JSON")
    return body


def pack_body(body: Any) -> Optional[bytes]:
    """Encode a body of plain data in a quarter of the time; returns None for other types."""
    try:
        return marshal.dumps(body, _MARSHAL_VERSION)
    except ValueError:
        return None


def unpack_body(data: Buffer) -> Any:
    """Reverse pack_body. Raises WireError for other bytes."""
    try:
        return marshal.loads(data)
    except (EOFError, ValueError, TypeError, MemoryError) as error:
        raise WireError("message body cannot be unpacked: %s" % error) from None


#: Numpy dtype of the elements of each datatype in memory (numbers of model_config.proto): BF16 as bit
#: patterns.
ELEMENT_DTYPES = (
    None,
    np.dtype(np.bool_),
    np.dtype(np.uint8),
    np.dtype(np.uint16),
    np.dtype(np.uint32),
    np.dtype(np.uint64),
    np.dtype(np.int8),
    np.dtype(np.int16),
    np.dtype(np.int32),
    np.dtype(np.int64),
    np.dtype(np.float16),
    np.dtype(np.float32),
    np.dtype(np.float64),
    None,
    np.dtype(np.uint16),
)


def _element_bytes(element: Any) -> bytes:
    # rule 1.6.2: only exactly `bytes` is sent unchanged; a subclass, like everything else, goes through str()
    return element if type(element) is bytes else str(element).encode("utf-8")


def encode_bytes_tensor(array: "np.ndarray[Any, Any]") -> bytes:
    """Encode an object, `S` or `U` array: for each element, in C order, a little-endian uint32 length and the bytes
    (rule 1.6.1)."""
    if array.size == 0:
        return b""
    elements = array.ravel(order="C").tolist()
    if set(map(type, elements)) != {bytes}:
        elements = [_element_bytes(element) for element in elements]
    lengths = list(map(len, elements))
    first = lengths[0]
    if len(elements) > 8 and lengths.count(first) == len(lengths):
        rows = np.empty((len(elements), 4 + first), dtype=np.uint8)
        rows[:, :4] = np.frombuffer(struct.pack("<I", first), dtype=np.uint8)
        rows[:, 4:] = np.frombuffer(b"".join(elements), dtype=np.uint8).reshape(len(elements), first)
        return rows.tobytes()
    prefix = {n: struct.pack("<I", n) for n in set(lengths)}
    pieces: List[bytes] = []
    for element, n in zip(elements, lengths):
        pieces.append(prefix[n])
        pieces.append(element)
    return b"".join(pieces)


def decode_bytes_tensor(buffer: Buffer) -> "np.ndarray[Any, Any]":
    """Decode a BYTES tensor's elements into a 1-D object array of `bytes`. Raises ValueError (texts of rule 1.6.3)."""
    data = bytes(buffer)
    end = len(data)
    if end == 0:
        return np.empty(0, dtype=np.object_)
    elements = _decode_uniform(data)
    if elements is None:
        elements = []
        position = 0
        while position < end:
            start = position + 4
            if start > end:
                raise ValueError("Invalid bytes tensor data: incomplete length field")
            position = start + int.from_bytes(data[position:start], "little")
            if position > end:
                raise ValueError("Invalid bytes tensor data: string extends beyond buffer")
            elements.append(data[start:position])
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array


def _decode_uniform(data: bytes) -> "Any":
    """Return the elements if all have one length, which one numpy comparison of the prefixes checks; else None."""
    if len(data) < 64:
        return None
    n = int.from_bytes(data[:4], "little")
    if n == 0 or len(data) % (4 + n):
        return None
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, 4 + n)
    if not (np.ascontiguousarray(rows[:, :4]).view("<u4") == n).all():
        return None
    return np.ascontiguousarray(rows[:, 4:]).view("V%d" % n).ravel().tolist()
