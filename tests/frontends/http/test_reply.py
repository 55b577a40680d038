"""What comes before the body of a reply."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tritonlab.frontends.http.reply import TEXT, HttpReply


def test_a_reply_in_one_piece() -> None:
    reply = HttpReply(200, b"{}", headers=((b"a", b"1"),), more=(b"xyz", memoryview(b"w")))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 6\r\nA: 1\r\nB: 2\r\n"
    assert reply.whole(True, [(b"b", b"2")]) == head + b"\r\n{}xyzw"
    assert reply.whole(False, [(b"b", b"2")]) == head + b"Connection: close\r\n\r\n{}xyzw"
    assert reply.head(True, [(b"b", b"2")]) == head + b"\r\n"


def test_replies_differ_in_what_their_heads_say() -> None:
    cases = [HttpReply(), HttpReply(404), HttpReply(kind=TEXT), HttpReply(body=b"x"), HttpReply(headers=[(b"a", b"1")])]
    assert len({reply.whole() for reply in [*cases, *cases]}) == len(cases)


def test_a_large_body_is_not_joined() -> None:
    reply = HttpReply(more=[bytes(1 << 16)])
    assert reply.whole() is None
    assert b"\r\nContent-Length: 65536\r\n" in reply.head(True)


def test_events_have_no_length() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"x"

    assert HttpReply(events=events()).head(True).endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_a_client_of_http_1_0_is_answered_as_one() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"x"

    head = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n"
    assert (
        HttpReply(body=b"{}").whole(True, old=True) == head + b"Content-Length: 2\r\nConnection: keep-alive\r\n\r\n{}"
    )
    assert HttpReply(body=b"{}").head(False, old=True) == head + b"Content-Length: 2\r\n\r\n"
    assert HttpReply(events=events()).head(False, old=True) == head + b"\r\n"
