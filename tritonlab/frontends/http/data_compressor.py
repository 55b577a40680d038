"""The decompression of request bodies, and the compression that clients accept (rule 6.3.6)."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterable

from ...core.status import InvalidArgumentError, UnsupportedError

_EITHER = zlib.MAX_WBITS | 32  # reads zlib's or gzip's header, as Triton does
_STEP = 1 << 16  # bytes that become 64 MB at most
_WBITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
#: A name, and its weight if it has one.
_ACCEPTED = re.compile(r" *(gzip|deflate|identity)(?:;q=\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?).*)?")


def decompress(encoding: str, body: bytes | bytearray | memoryview, limit: int) -> bytes | bytearray | memoryview:
    """Return the body as it was before the client compressed it; `limit` bounds its size in bytes.

    As on Triton, data behind the compressed data is ignored. Of compressed data that is cut off, damaged or not
    compressed at all, the body is the readable part (measured). Raises UnsupportedError for another encoding,
    InvalidArgumentError for an empty body and for one over the limit.
    """
    if encoding == "identity":
        return body
    if encoding not in _WBITS:
        raise UnsupportedError("Unsupported compression type")
    if not body:
        raise InvalidArgumentError("nothing to be decompressed")
    decompressor = zlib.decompressobj(_EITHER)
    data = bytearray()
    view = memoryview(body)
    for start in range(0, len(view), _STEP):
        piece = view[start : start + _STEP]
        before = decompressor.copy()
        try:
            data += decompressor.decompress(piece)
        except zlib.error:
            data += _until_damage(before.decompress, piece)
            break
        if len(data) > limit:
            raise InvalidArgumentError(
                f"Request data size exceeds the maximum allowed value of {limit} bytes after decompression. "
                "Use --http-max-input-size to increase the limit."
            )
        if decompressor.eof:  # zlib would collect what follows, in quadratic time
            break
    return data


def _until_damage(decompress: Callable[[memoryview], bytes], piece: memoryview) -> bytearray:
    """Return the readable beginning of a damaged piece, which zlib withholds when it raises."""
    data = bytearray()
    with contextlib.suppress(zlib.error):
        for at in range(len(piece)):
            data += decompress(piece[at : at + 1])
    return data


def compress(encoding: str, pieces: Iterable[bytes | memoryview]) -> bytes:
    compressor = zlib.compressobj(wbits=_WBITS[encoding])
    return b"".join([*map(compressor.compress, pieces), compressor.flush()])


def accepted(header: str) -> str:
    """Pick the encoding of an answer by an Accept-Encoding header: the known one with the highest weight, the first of
    equals; "identity" or "" for none. As Triton does, read blanks only before a name, and only the number of a
    weight."""
    best, weight = "", 0.0
    for entry in header.split(","):
        known = _ACCEPTED.fullmatch(entry)
        if known is not None and (quality := float(known[2] or 1)) > weight:
            best, weight = known[1], quality
    return best
