from __future__ import annotations

import gzip
import random
import time
import zlib

import pytest

from tests.conformance.rules import rule
from tritonlab.core.status import InvalidArgumentError, UnsupportedError
from tritonlab.frontends.http.data_compressor import accepted, compress, decompress

LIMIT = 1 << 20


@rule("6.3.6")
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bodies_come_and_go_compressed(encoding: str) -> None:
    body = bytes(range(256)) * 1000
    packed = compress(encoding, [body[:1000], memoryview(body)[1000:]])
    assert (gzip.decompress if encoding == "gzip" else zlib.decompress)(packed) == body
    assert decompress(encoding, packed, LIMIT) == body


@rule("6.3.6")
def test_what_can_be_read_is_read() -> None:
    """Measured: either format under either name; what follows, is cut off or damaged does not matter."""
    packed = gzip.compress(b"body")
    assert decompress("deflate", packed, LIMIT) == b"body"
    assert decompress("gzip", zlib.compress(b"body"), LIMIT) == b"body"
    assert decompress("gzip", packed + b"xx", LIMIT) == b"body"
    assert decompress("gzip", packed[:-9], LIMIT) == b"body"
    assert decompress("gzip", packed[:-8] + b"checksum", LIMIT) == b"body"
    assert decompress("gzip", b"no gzip", LIMIT) == b""
    assert decompress("identity", b"body", LIMIT) == b"body"


@rule("6.3.3")
@pytest.mark.parametrize("encoding", ["", "br", "GZIP", "gzip, deflate"])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedError, match=r"^Unsupported compression type$"):
        decompress(encoding, b"x", LIMIT)


@rule("6.3.6")
def test_of_a_long_damaged_body_the_beginning_is_read() -> None:
    body = random.Random(1).randbytes(200_000)
    packed = bytearray(gzip.compress(body, mtime=0))
    packed[150_000] ^= 0xFF
    read = decompress("gzip", packed, LIMIT)
    assert len(read) > 140_000 and read[:140_000] == body[:140_000]


def test_what_follows_the_compressed_data_costs_nothing() -> None:
    body = gzip.compress(b"{}") + bytes(24 << 20)
    began = time.thread_time()
    assert decompress("gzip", body, LIMIT) == b"{}"
    assert time.thread_time() - began < 0.5  # 5 s with all of it in zlib's `unused_data`


def test_an_empty_body_is_no_compressed_one() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^nothing to be decompressed$"):
        decompress("gzip", b"", LIMIT)


@rule("6.3.5")
def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(InvalidArgumentError, match="exceeds the maximum allowed value of 1048576 bytes"):
        decompress("gzip", gzip.compress(bytes(1 << 28)), LIMIT)


@rule("6.3.6")
@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("gzip", "gzip"),
        ("deflate, gzip", "deflate"),
        ("br, gzip", "gzip"),
        ("gzip;q=0.5, deflate;q=0.8", "deflate"),
        ("identity;q=0.5, gzip", "gzip"),
        ("identity, gzip;q=0.5", "identity"),
        ("gzip;q=0", ""),
        ("gzip;q=x", ""),
        ("GZIP", ""),
        ("*", ""),
        ("", ""),
    ],
)
def test_the_heaviest_encoding_is_chosen(header: str, encoding: str) -> None:
    """Measured."""
    assert accepted(header) == encoding
