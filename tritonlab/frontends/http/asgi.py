"""The HTTP application of a server for a host that speaks ASGI, such as uvicorn or Ray Serve.

The host handles sockets, timeouts and who may connect. The application handles the rest: paths, bodies, streams of
events, and the cancellation of a request when its client goes: of a stream always, of other requests with
`HTTPOptions.cancel_on_disconnect`. Header names, and so forwarded headers, are in lower case here, as ASGI defines.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from ..shared.access import AccessRules, Door
from ..shared.request_memory import NoRoomError, RequestMemory, TooLargeError
from .connection import refused_reply
from .http_app import HTTPApp
from .reply import CutOffError, HttpReply, failure
from .request_parser import Request

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
#: Answers a request in the place of the application, such as a request that its host does not serve; None: it does not.
Refusal: TypeAlias = Callable[[Request], HttpReply | None]


class AsgiApp:
    """The ASGI application of one server. `rules`: the access rules; `memory` limits the bodies of requests; `refuses`
    gets each request first."""

    def __init__(
        self,
        app: HTTPApp,
        rules: AccessRules,
        memory: RequestMemory,
        refuses: Refusal = lambda request: None,
    ) -> None:
        self._app = app
        self._door = Door(rules)
        self._memory = memory
        self._refuses = refuses

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            raise NotImplementedError(f"'{scope['type']}' is not a protocol of Triton's; HTTP is")

    async def _live(self, receive: Receive, send: Send) -> None:
        """Follow the lifespan of the host, whose event loop reads models' answers. The server may outlive it."""
        with self._app.reading(asyncio.get_running_loop()):
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        request = _request(scope)
        refused = self._door.ask(request.method, request.path, request.headers)
        reply = refused_reply(refused) if refused is not None else self._refuses(request)
        try:
            if reply is None:
                reply = await self._reply(request, receive)
            if reply is not None:
                await _send(request, reply, send)
        except BaseException:  # a host may cancel the call of a client that is gone
            request.leave()
            raise

    async def _reply(self, request: Request, receive: Receive) -> HttpReply | None:
        """Return the reply; None if the client goes before."""
        try:
            body = await self._body(receive)
        except TooLargeError as error:
            return failure(503 if isinstance(error, NoRoomError) else 413, str(error))
        if body is None:
            return None
        request.body = body
        return await self._watched(request, receive)

    async def _body(self, receive: Receive) -> bytes | bytearray | None:
        """Return the body, which is counted as long as it lives; None if the client goes. Raises TooLargeError."""
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        first: bytes = message.get("body", b"")
        if not message.get("more_body"):
            self._memory.check(len(first))
            return first
        body = self._memory.body(first)
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body.add(message.get("body", b""))
        return body

    async def _watched(self, request: Request, receive: Receive) -> HttpReply | None:
        """Return the application's reply; None if the client goes and its request ends without a reply."""

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            request.leave()

        watching = asyncio.ensure_future(watch())
        request.sender = watching
        try:
            reply = await self._app(request)
        except CutOffError:
            reply = None
        except Exception as error:
            reply = self._app.on_defect(error)
        except BaseException:
            watching.cancel()
            raise
        if reply is None or reply.events is None:
            watching.cancel()
        else:
            _end_with(reply, watching)
        return reply


def _end_with(reply: HttpReply, watching: asyncio.Future[None]) -> None:
    """Watch the client of a stream until its last event."""
    events = reply.events
    assert events is not None

    async def watched() -> Any:
        try:
            async for event in events:
                yield event
        finally:
            watching.cancel()

    reply.events = watched()


def _request(scope: Message) -> Request:
    """Return the request of a scope, without its body. Its path is the client's, below the application's root."""
    raw: bytes | None = scope.get("raw_path")
    path = raw.partition(b"?")[0] if raw is not None else scope["path"].encode()
    root = scope.get("root_path", "").rstrip("/").encode()
    if root and path.startswith(root):
        path = path[len(root) :]
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    return Request(scope["method"], path, headers, [name for name, _ in headers], keep_alive=True)


async def _send(request: Request, reply: HttpReply, send: Send) -> None:
    if reply.watch is not None:
        reply.watch.begin()
    try:
        await _send_pieces(request, reply, send)
    finally:
        if reply.watch is not None:
            reply.watch.end()


async def _send_pieces(request: Request, reply: HttpReply, send: Send) -> None:
    headers = [(b"content-type", reply.kind), *reply.headers]
    pieces: Sequence[bytes | memoryview] = (reply.body, *reply.more)
    if reply.events is None:
        headers.append((b"content-length", b"%d" % sum(map(len, pieces))))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if reply.events is not None:
        # CutOffError leaves here: the host then ends the connection, and no client takes the stream for whole
        async with contextlib.aclosing(reply.events) as events:  # type: ignore[type-var]  # ours are generators
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
    elif request.method != "HEAD":
        # in one piece: hosts send each message on its own
        await send({"type": "http.response.body", "body": b"".join(pieces)})
        return
    await send({"type": "http.response.body", "body": b""})
