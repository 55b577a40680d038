"""An HTTP/1.1 connection: its client's requests, and the replies in the same order, small ones in one piece, and none
faster than the client reads.

The application gets a whole request and returns an HttpReply. A head with the same bytes as an earlier head of the
connection is not parsed again: an endpoint that has answered it may request the next bodies behind it directly
(`remember`), and answers in place. Measured when this was added, add_sub with one caller on two cores took 300 us p50
instead of 400, because the code of parser, request, routes and task has left the processor's caches when the next
request comes. The access rules check each parsed head, and decide from the head alone; so their decision also holds for
a repeated head.

A client that has shut down its side after its last request still gets its replies. A client that then sends bytes which
are not HTTP also gets them, and the error afterwards.

With `cancel_on_disconnect`, the end of a client's bytes while a request is under way means that the client has left, as
for nginx, uvicorn and aiohttp: the request is cancelled, and those behind it are dropped. A client that closes its
connection and one that only shuts down its side send the same FIN, and cannot be distinguished before something is
written, so a server that waited for more would not notice a client that leaves. An answer is still written, for a
client that only shut down its side: the error of its cancelled request, or the reply of an endpoint with nothing to
cancel.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from ..shared.access import Door, DoorAnswer
from ..shared.request_memory import NoRoomError, RequestMemory, TooLargeError
from . import errors
from .reply import JSON, LAST_CHUNK, TEXT, CutOffError, HttpReply, chunk
from .request_parser import BadRequestError, Request, RequestParser

#: How many bytes are skipped after bytes that were not HTTP, and for how many seconds.
_SKIPPED, _SKIPPING = 1 << 20, 2.0

#: A reply, or a function that makes it.
Reply: TypeAlias = HttpReply | Coroutine[Any, Any, HttpReply]


class LaterReply:
    """A reply that is still to come, without a task that waits for it. All methods run on the event loop."""

    __slots__ = ()

    def then(self, take: Callable[[Reply], None]) -> None:
        """Set the function that is called with the reply, once it has come."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Remove the function."""
        raise NotImplementedError

    def leave(self) -> None:
        """Note that the client has gone; `take` is still called."""
        raise NotImplementedError


#: Answers a request with a known head, given its body: at once or later. None: the head must be parsed.
Direct: TypeAlias = Callable[[memoryview], Reply | LaterReply | None]

_END = b"\r\n\r\n"
_OURS = (b"content-type", b"content-length")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Requests, and bytes of one, that may wait for their turn before reading stops. Only while bytes are read does the
#: server notice that the client goes.
_QUEUED, _QUEUED_BODY = 16, 1 << 20
#: Heads of one connection, and bytes of each.
MAX_HEADS = 16
_MAX_HEAD = 1 << 12


class ConnectionHost:
    """The state that the connections of one server share. `app` answers requests, `defect` makes the reply for an
    unexpected exception of `app`, `memory` limits the bodies of requests. `cancel_on_disconnect`: whether a client that
    has shut down its side has left."""

    def __init__(
        self,
        app: Callable[[Request], Awaitable[HttpReply]],
        defect: Callable[[Exception], HttpReply],
        door: Door,
        memory: RequestMemory,
        cancel_on_disconnect: bool = False,
    ) -> None:
        self.app = app
        self.defect = defect
        self.door = door
        self.memory = memory
        self.cancel_on_disconnect = cancel_on_disconnect
        self.connections: set[HttpConnection] = set()
        self.stopping = False


class KnownHead(NamedTuple):
    """A head that was answered before: `size`: bytes of the body behind it; `request`: the first request with this
    head, without its body."""

    size: int
    request: Request
    answer: Direct


class HttpConnection(asyncio.Protocol):
    """The connection of one client. Everything runs on the event loop."""

    def __init__(self, server: ConnectionHost) -> None:
        self._server = server
        self._parser = RequestParser(self._on_head, self._on_request, self._on_too_large, server.memory)
        self._sender = object()
        self._known: dict[bytes, KnownHead] = {}
        self._chunk: tuple[bytes, int] | None = None  # a head, and how many bytes came with it
        self._queue: deque[Request] = deque()  # requests behind the one under way
        self._current: Request | None = None
        self._waiting: Request | None = None  # for its turn, its body not sent before
        self._task: asyncio.Task[None] | None = None
        self._later: LaterReply | None = None  # the request under way, if no task waits for it
        self._ended = False  # the client has said all
        self._fault: BadRequestError | None = None  # of bytes that are not HTTP; those that follow are skipped
        self._paused = False  # nothing is read
        #: something came since the server looked the last time
        self.used = True

    # -- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._writer = ReplyWriter(self._transport)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.used = True
        if self._fault is not None:
            self._writer.skip(len(data))
            return
        self._chunk = None
        if self._current is None and self._parser.between:
            end = data.find(_END) + len(_END)
            head, size = data[:end], len(data) - end
            known = self._known.get(head)
            if known is not None and known.size == size and self._answer(known, memoryview(data)[end:]):
                return
            self._chunk = head, size
        try:
            self._parser.feed(data)
        except BadRequestError as error:
            self._fault = error
            if self._current is None:
                self._writer.refuse(error)

    def eof_received(self) -> bool:
        """Return whether the connection is kept, for pending answers."""
        self._ended = True
        if self._server.cancel_on_disconnect:
            self._leave()
        return self._current is not None

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._known.clear()
        self._parser.close()
        self._writer.resume()
        self._leave()

    def _leave(self) -> None:
        """Drop the waiting requests, and note on the current one that the client has gone."""
        self._queue.clear()
        if self._later is not None:
            self._later.leave()
        elif self._current is not None:
            self._current.leave()

    # -- called by the server

    @property
    def busy(self) -> bool:
        return self._current is not None

    @property
    def receives(self) -> bool:
        """Whether a part of a request has come."""
        return not self._parser.between

    def close(self) -> None:
        """End the connection once everything is written: now if nothing is under way, else with the pending answer."""
        if self._current is None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        if self._task is not None:
            self._task.cancel()
        if self._later is not None:
            self._later.give_up()
            self._go_on(False)
        self._transport.abort()

    # -- requests

    def _answer(self, known: KnownHead, body: memoryview) -> bool:
        """Answer a request whose head is known; returns False if it must be parsed."""
        if self._writer.waits or self._server.stopping:
            return False
        reply = known.answer(body)
        if reply is None:
            return False
        if isinstance(reply, HttpReply) and (whole := reply.whole(True, known.request.reply_headers)) is not None:
            self._transport.write(whole)
            return True
        self._current = known.request
        if isinstance(reply, LaterReply):
            self._later = reply
            reply.then(self._take)
        else:
            self._take(reply)
        return True

    def _take(self, reply: Reply) -> None:
        """Send the reply to a request with a known head. A task is made only if it has to wait."""
        request, self._later = self._current, None
        assert request is not None
        goes_on = not self._server.stopping
        if not isinstance(reply, HttpReply):
            self._start(request, reply)
        elif not self._writer.waits and (whole := reply.whole(goes_on, request.reply_headers)) is not None:
            self._writer.write(whole)
            self._go_on(goes_on)
        else:
            self._start(request, _as_awaited(reply))

    def _on_head(self, request: Request) -> None:
        request.sender = self._sender
        answer = self._server.door.ask(request.method, request.path, request.headers)
        if answer is not None:
            request.refusal = answer
            if self._current is None:  # and the body, which may be long, is dropped
                self._start(request, _as_awaited(refused_reply(answer)))
            return
        request.reply_headers = self._server.door.for_page(request.headers)
        if request.size > self._server.memory.unasked:
            try:
                self._server.memory.announce(request.size)
            except TooLargeError as error:
                self._on_too_large(request, error)
                return
        if request.expects:
            if self._current is None:
                self._writer.write(_CONTINUE)
            else:
                self._waiting = request

    def _on_too_large(self, request: Request, error: TooLargeError) -> None:
        status = 503 if isinstance(error, NoRoomError) else 413
        headers = ((b"content-type", JSON), *request.reply_headers)
        request.refusal = DoorAnswer(status, headers, errors.body(str(error)))
        if self._current is None:  # the client learns of it while it still sends
            self._start(request, _as_awaited(refused_reply(request.refusal)))

    def _on_request(self, request: Request) -> None:
        chunk, self._chunk = self._chunk, None
        self._waiting = None
        if request.answered:
            return
        if self._current is not None:
            self._queue.append(request)
            much = len(self._queue) >= _QUEUED or len(request.body) > _QUEUED_BODY
            if much and not self._paused and not self._transport.is_closing():
                self._paused = True
                self._transport.pause_reading()
            return
        if chunk is not None and self._is_plain(request, *chunk):
            request.remember = partial(self._remember, request, *chunk)
        self._begin(request)

    def _begin(self, request: Request) -> None:
        if request.refusal is not None:
            self._start(request, _as_awaited(refused_reply(request.refusal)))
        else:
            self._start(request, self._server.app(request))

    @staticmethod
    def _is_plain(request: Request, head: bytes, size: int) -> bool:
        """Return whether a request came in one piece, its body of `size` bytes included, and nothing in its head
        concerns the connection."""
        whole = size == len(request.body) and not request.chunked and len(head) <= _MAX_HEAD
        return whole and request.keep_alive and not request.expects and not request.old

    def _remember(self, request: Request, head: bytes, size: int, answer: Direct) -> None:
        if len(self._known) >= MAX_HEADS:
            self._known.clear()
        remembered = Request(request.method, request.path, request.headers, request.names, keep_alive=True)
        remembered.reply_headers = request.reply_headers
        self._known[head] = KnownHead(size, remembered, answer)

    def _start(self, request: Request, reply: Awaitable[HttpReply]) -> None:
        self._current = request
        request.answered = True
        self._task = asyncio.get_running_loop().create_task(self._run(request, reply))

    async def _run(self, request: Request, reply: Awaitable[HttpReply]) -> None:
        keep_alive = False
        try:
            try:
                answer = await reply
            except Exception as error:
                answer = self._server.defect(error)
            goes_on = request.keep_alive and not self._server.stopping and not (request.old and answer.events)
            await self._writer.send(request, answer, goes_on)
            keep_alive = goes_on
        except CutOffError:
            pass
        except Exception as error:  # its reply has begun, and cannot be another one
            self._server.defect(error)
        finally:
            self._go_on(keep_alive)

    def _go_on(self, keep_alive: bool) -> None:
        """Go on to the next request: the current one is answered, or will not be."""
        if self._current is not None:
            self._current.held = None
        self._current = self._task = self._later = None
        if not keep_alive or self._server.stopping or (self._ended and not self._queue):
            self._queue.clear()
            self._transport.close()
        elif self._queue:
            self._begin(self._queue.popleft())
        elif self._fault is not None:
            self._writer.refuse(self._fault)
        elif not self._transport.is_closing():
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            if self._waiting is not None:
                self._writer.write(_CONTINUE)
                self._waiting = None


async def _as_awaited(reply: HttpReply) -> HttpReply:
    return reply


def refused_reply(answer: DoorAnswer) -> HttpReply:
    """Return the reply to a request that the door refuses."""
    about = dict(answer.headers)
    kind, rest = about.get(b"content-type", TEXT), [each for each in answer.headers if each[0] not in _OURS]
    return HttpReply(answer.status, answer.body, kind, rest)


class ReplyWriter:
    """The writer of all bytes of one connection. It writes nothing to a client that has gone, or did not send HTTP."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._readable: asyncio.Event | None = None  # set while the client reads too slowly
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
            if request.gone:  # and its events have ended early
                raise CutOffError
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

        Further bytes of the client are skipped for a while: a connection closed at once would be reset and the answer
        lost.
        """
        if not self._transport.is_closing():
            reply = HttpReply(error.status, errors.body(str(error)), b"text/plain; charset=utf-8")
            self.write(reply.head(False) + reply.body)
            self.refused = True
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(_SKIPPING, self._transport.close)

    def skip(self, size: int) -> None:
        """Count bytes that come after bytes that were not HTTP."""
        self._left -= size
        if self._left <= 0:
            self._transport.close()
