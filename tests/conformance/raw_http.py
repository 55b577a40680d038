"""A client that hides nothing: the bytes of an HTTP request, and the status, headers and body that come back."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO

from .clients import DEADLINE

JSON_SIZE = "Inference-Header-Content-Length"


@dataclass(frozen=True)
class Reply:
    """A reply of a server. `headers` by their names in lower case; `chunks` are the pieces of a chunked body, which
    `body` joins. `protocol` is what the first line begins with, `reason` what ends it; `names` are those of the headers
    as they were sent."""

    status: int
    headers: dict[str, str]
    body: bytes
    chunks: tuple[bytes, ...] = ()
    protocol: str = "HTTP/1.1"
    reason: str = ""
    names: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The text of an error's body, and nothing else may be in it."""
        (text,) = self.document.values() if self.document.keys() == {"error"} else [""]
        return str(text)

    @property
    def plain(self) -> tuple[int, str, bytes]:
        """What both servers must agree on."""
        return self.status, self.kind, self.body


class RawHTTP:
    """A client of one server that opens a connection for each request."""

    def __init__(self, side: str, address: str) -> None:
        self.side = side
        self.address = address
        self._host, _, port = address.rpartition(":")
        self._port = int(port)

    def connect(self) -> socket.socket:
        return socket.create_connection((self._host, self._port), timeout=DEADLINE)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        sent = {"Host": self.address, **(headers or {})}
        if body is not None:
            sent.setdefault("Content-Length", str(len(body)))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
        return self.send("\r\n".join(lines).encode("latin-1") + (body or b""))

    def get(self, path: str) -> Reply:
        return self.request("GET", path)

    def post(self, path: str, body: Any = b"", **headers: str) -> Reply:
        """Send a body: bytes, or what is written as JSON. Headers have `_` for `-`."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, {name.replace("_", "-"): value for name, value in headers.items()})

    def infer(self, model: str, document: Any, blobs: bytes = b"", **headers: str) -> Reply:
        """Send an infer request of JSON, or text as it is, and the binary data behind it."""
        head = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        if blobs:
            headers.setdefault(JSON_SIZE.replace("-", "_"), str(len(head)))
        return self.post(f"/v2/models/{model}/infer", head + blobs, **headers)

    def send(self, data: bytes) -> Reply:
        """Send any bytes, and return the reply to them."""
        with closing(self.connect()) as connection:
            connection.sendall(data)
            with connection.makefile("rb") as stream:
                return read_reply(stream)


def read_reply(stream: BinaryIO) -> Reply:
    """Return the next reply on a connection. Raise ConnectionError if there is none."""
    line = stream.readline()
    if not line:
        raise ConnectionError("the server closed the connection")
    headers, names = {}, set()
    while (field := stream.readline()) not in (b"\r\n", b""):
        name, _, value = field.decode("latin-1").partition(":")
        names.add(name)
        headers[name.lower()] = value.strip()
    chunks: list[bytes] = []
    if headers.get("transfer-encoding") == "chunked":
        while size := int(stream.readline(), 16):
            chunks.append(stream.read(size))
            stream.readline()
        stream.readline()
        body = b"".join(chunks)
    elif line.startswith(b"HTTP/1.0") and "content-length" not in headers and headers.get("connection") != "keep-alive":
        body = stream.read()
    else:
        body = stream.read(int(headers.get("content-length", "0")))
    protocol, status, reason = line.decode().strip().split(" ", 2)
    return Reply(int(status), headers, body, tuple(chunks), protocol, reason, frozenset(names))
