"""uvicorn's HTTP/1.1 protocol, taught what ASGI has no word for.

- A body is collected where it arrives, in one buffer that the application takes without a copy: through `receive` a
  tensor of 64 MB would be handed over in a thousand pieces, each a wake-up and two copies.
- Header names are kept as the client wrote them: a forwarded header is a parameter of that name (rule 6.14).
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
        super().on_header(name, value)

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
