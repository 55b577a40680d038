"""uvicorn's HTTP/1.1 protocol, taught what ASGI has no word for.

- A body is collected where it arrives, in one buffer that the application takes without a copy: through `receive` a
  tensor of 64 MB would be handed over in a thousand pieces, each a wake-up and two copies.
- A small response is written at once: ASGI's two messages take 39 us of processor time, that takes 9.
- Header names are kept as the client wrote them: a forwarded header is a parameter of that name (rule 6.14).
- A head that came before on the same connection, byte by byte, is not parsed again: an endpoint that has answered it
  may ask to get the bodies behind it as they come (`rememberer`). add_sub with one caller on two cores: 300 us p50
  instead of 400; what parser, scope, middleware and task run has left the processor's caches when the next request
  comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from starlette.types import ASGIApp, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from . import errors
from .http_connection import HTTPConnection

#: Pieces of a chunked body (rule 6.3.5).
MAX_CHUNKS = 65536

#: From a body to the whole response, or to the application that sends it later; None has the request parsed after all.
Direct: TypeAlias = Callable[[memoryview], bytes | ASGIApp | None]

_END = b"\r\n\r\n"
_REMEMBER = "tritonlab.remember"
#: Heads of one connection, and bytes of each.
_MAX_HEADS = 16
_MAX_HEAD = 1 << 12


@dataclass(frozen=True, slots=True)
class _KnownHead:
    """`size`: bytes of the body behind it. `scope`: of the request it was first seen in, without what is ours."""

    size: int
    scope: Any
    answer: Direct


class HTTPProtocol(HTTPConnection):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._known: dict[bytes, _KnownHead] = {}
        self._between = True  # the parser has had whole messages only
        self._chunk: tuple[bytes, int] | None = None  # a head, and how many bytes came with it
        self._served = False  # something was answered directly since the keep-alive timer was set

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._known.clear()  # this object is left to the garbage collector

    def data_received(self, data: bytes) -> None:
        self._chunk = None
        if self._between and (self.cycle is None or self.cycle.response_complete):
            end = data.find(_END) + len(_END)
            head, size = data[:end], len(data) - end
            known = self._known.get(head)
            if known is not None and known.size == size and self._answer(known, memoryview(data)[end:]):
                return
            self._chunk = head, size
        super().data_received(data)

    def _answer(self, known: _KnownHead, body: memoryview) -> bool:
        """Answers a request whose head is known; False if it must be parsed."""
        if self.flow.write_paused:
            return False
        answer = known.answer(body)
        if answer is None:
            return False
        if isinstance(answer, bytes):
            self._served = True
            self.server_state.total_requests += 1
            self.transport.write(answer)
            return True
        self._unset_keepalive_if_required()
        self.cycle = RequestResponseCycle(
            scope=known.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        self.cycle.more_body = False
        task = self.loop.create_task(self.cycle.run_asgi(answer))  # type: ignore[arg-type]  # starlette's ASGI types
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        return True

    def _remember(self, head: bytes, size: int, scope: Scope, answer: Direct) -> None:
        if len(self._known) >= _MAX_HEADS:
            self._known.clear()
        plain = {key: value for key, value in scope.items() if not key.startswith("tritonlab.")}
        self._known[head] = _KnownHead(size, plain, answer)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._between = False
        self._names: list[bytes] = []
        self._body = bytearray()
        self._chunks = 0
        self.scope["tritonlab.names"] = self._names  # type: ignore[typeddict-unknown-key]
        self.scope["tritonlab.body"] = self._body  # type: ignore[typeddict-unknown-key]

    def on_request_header(self, name: bytes, value: bytes) -> None:
        self._names.append(name)
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            return
        self._body += body

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks == MAX_CHUNKS + 1:
            self.send_400_response(f"the request has more than {MAX_CHUNKS} chunks")

    def on_request_complete(self) -> None:
        self._between = True
        chunk, self._chunk = self._chunk, None
        if chunk is not None and self._is_plain(*chunk):
            self.scope[_REMEMBER] = partial(self._remember, *chunk)  # type: ignore[literal-required]
        super().on_request_complete()

    def _is_plain(self, head: bytes, size: int) -> bool:
        """Whether a request that came at once, its body of `size` bytes, has nothing in its head that concerns the
        connection."""
        whole = size == len(self._body) and not self._chunks and len(head) <= _MAX_HEAD
        return whole and self.cycle.keep_alive and self.parser.should_keep_alive() and not self.expect_100_continue

    def timeout_keep_alive_handler(self) -> None:
        if self._served:
            self._served = False
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Of what is no HTTP, as all errors are told."""
        super().send_400_response(errors.body(msg).decode())


def rememberer(scope: Scope, send: Send) -> Callable[[Direct], None] | None:
    """What remembers the head of a request, so that the next one with the same is answered directly: without the
    middleware, whose decision must follow from the head alone. None where it cannot be, or where something is wrapped
    around the application, and would not see that answer."""
    remember = scope.get(_REMEMBER)
    if remember is None or type(getattr(send, "__self__", None)) is not RequestResponseCycle:
        return None
    return partial(remember, scope)


def is_gone(send: Send) -> bool:
    """Whether the client is: uvicorn tells the last request of a connection only, not those before it."""
    cycle = getattr(send, "__self__", None)
    return isinstance(cycle, RequestResponseCycle) and cycle.transport.is_closing()


def response(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, *, keep_alive: bool = True) -> bytes:
    """A whole response. Names and values of headers are ours, and are not checked."""
    pieces = [STATUS_LINE[status]]
    for name, value in headers:
        pieces += (name, b": ", value, b"\r\n")
    pieces.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    pieces.append(body)
    return b"".join(pieces)


def respond_at_once(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
    """Sends a whole response; False where it must go through `send`: something is wrapped around the application, the
    client does not read, or wants no body."""
    cycle = getattr(send, "__self__", None)
    if (
        type(cycle) is not RequestResponseCycle
        or cycle.flow.write_paused
        or cycle.disconnected
        or cycle.response_started
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(response(status, (*cycle.default_headers, *headers), body, keep_alive=cycle.keep_alive))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True
