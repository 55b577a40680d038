"""The replies of one connection: small ones in one piece, and none faster than the client reads."""

from __future__ import annotations

import asyncio

from . import errors
from .reply import LAST_CHUNK, HttpReply, chunk
from .request_parser import BadRequestError, Request

#: How many bytes are skipped, and for how many seconds, after bytes that were not HTTP.
_SKIPPED, _SKIPPING = 1 << 20, 2.0


class ReplyWriter:
    """The writer of everything that one connection sends. It writes nothing to a client that is gone, or whose bytes
    were not HTTP."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._readable: asyncio.Event | None = None  # there while the client reads too slowly
        self._left = _SKIPPED
        #: whether the client has sent bytes that are not HTTP
        self.refused = False
        #: whether the client must read before more is written
        self.waits = False

    def pause(self) -> None:
        self.waits = True
        self._readable = asyncio.Event()

    def resume(self) -> None:
        self.waits = False
        if self._readable is not None:
            self._readable.set()
            self._readable = None

    async def _room(self) -> None:
        if self._readable is not None:
            await self._readable.wait()

    def write(self, data: bytes | memoryview) -> None:
        if not (self.refused or self._transport.is_closing()):
            self._transport.write(data)

    async def send(self, request: Request, reply: HttpReply, keep_alive: bool) -> None:
        """Write a whole reply. Raises CutOffError if its events end too early."""
        if reply.watch is None:
            await self._send(request, reply, keep_alive)
            return
        reply.watch.begin()
        try:
            await self._send(request, reply, keep_alive)
        finally:
            reply.watch.end()

    async def _send(self, request: Request, reply: HttpReply, keep_alive: bool) -> None:
        headers, old = request.reply_headers, request.old
        if reply.events is not None:
            self.write(reply.head(keep_alive, headers, old=old))
            async for event in reply.events:
                self.write(event if old else chunk(event))
                await self._room()
            if not old:
                self.write(LAST_CHUNK)
        elif request.method == "HEAD":
            self.write(reply.head(keep_alive, headers, old=old))
        elif (whole := reply.whole(keep_alive, headers, old=old)) is not None:
            self.write(whole)
            await self._room()
        else:
            self.write(reply.head(keep_alive, headers, old=old))
            for piece in (reply.body, *reply.more):
                self.write(piece)
                await self._room()

    def refuse(self, error: BadRequestError) -> None:
        """Answer bytes that are not HTTP with the error, and end the connection.

        What the client is still sending is skipped for a while: if it were closed at once, the connection would be
        reset and the answer lost.
        """
        if not self._transport.is_closing():
            reply = HttpReply(error.status, errors.body(str(error)), b"text/plain; charset=utf-8")
            self.write(reply.head(False) + reply.body)
            self.refused = True
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(_SKIPPING, self._transport.close)

    def skip(self, size: int) -> None:
        """Count bytes that came after those that were not HTTP."""
        self._left -= size
        if self._left <= 0:
            self._transport.close()
