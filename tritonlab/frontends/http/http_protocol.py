"""uvicorn's HTTP/1.1 protocol, taught what ASGI has no word for.

- A body is collected where it arrives, in one buffer that the application takes without a copy: through `receive` a
  tensor of 64 MB would be handed over in a thousand pieces, each a wake-up and two copies.
- A small response is written at once: ASGI's two messages take 39 us of processor time, that takes 9.
- Header names are kept as the client wrote them: a forwarded header is a parameter of that name (rule 6.14).
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from . import errors

#: Pieces of a chunked body (rule 6.3.5).
MAX_CHUNKS = 65536


class HTTPProtocol(HttpToolsProtocol):
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._names: list[bytes] = []
        self._body = bytearray()
        self._chunks = 0
        self.scope["tritonlab.names"] = self._names  # type: ignore[typeddict-unknown-key]
        self.scope["tritonlab.body"] = self._body  # type: ignore[typeddict-unknown-key]

    def on_header(self, name: bytes, value: bytes) -> None:
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

    def send_400_response(self, msg: str) -> None:
        """Of what is no HTTP, as all errors are told."""
        super().send_400_response(errors.body(msg).decode())


def respond_at_once(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
    """Sends a whole response; False where it must go through `send`: something is wrapped around the application, the
    client does not read, or wants no body. Names and values of headers are ours, and are not checked."""
    cycle = getattr(send, "__self__", None)
    if (
        type(cycle) is not RequestResponseCycle
        or cycle.flow.write_paused
        or cycle.disconnected
        or cycle.response_started
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    pieces = [STATUS_LINE[status]]
    for name, value in (*cycle.default_headers, *headers):
        pieces += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive:
        pieces.append(b"connection: close\r\n")
    pieces += (b"\r\n", body)
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join(pieces))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True
