"""The access rules keep web pages out: a page open in the author's browser must not reach the author's server.

Loading a model runs code, and a page can send requests to ports of the machine its reader sits at. Two doors are shut
here, in front of HTTP and metrics alike:

- cross-origin: a browser says in `Origin` which page sends. A simple POST (`text/plain`) needs no preflight, but it
  carries the header too.
- DNS rebinding: a page of evil.example, whose name suddenly resolves to 127.0.0.1, has the right origin in the
  browser's eyes; but its requests name evil.example in `Host`. An address in `Host` cannot be rebound.

A client that is no browser sends no Origin, and by its very address a Host that is allowed.

gRPC needs no such door: its calls are HTTP/2 with trailers, from the first byte on, and no browser lets a page send
either to a port without TLS; what a page can send, HTTP/1.1, is no gRPC.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

ANY = "*"

#: The parts of the protocols that can be restricted (rule 6.1.3).
CATEGORIES = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)


@dataclass(frozen=True)
class AccessRules:
    """`origins`: pages that may ask, as `https://host[:port]`. `hosts`: names under which clients may reach the server,
    beside addresses, `localhost` and the machine's own. `*` stands for all of them."""

    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def guard(self, app: ASGIApp) -> ASGIApp:
        """The application behind the door. Pages of allowed origins are told by CORS that they may read answers."""
        if self.origins:
            app = CORSMiddleware(
                app,
                [origin.rstrip("/").lower() for origin in self.origins],
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=["Inference-Header-Content-Length"],
            )
        return Access(app, self)


class Access:
    """The door. A refused request gets status 403 and a text that says which option lets it in."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._any_host = ANY in rules.hosts
        self._any_origin = ANY in rules.origins
        self._origins = {origin.rstrip("/").lower() for origin in rules.origins}
        self._names = {"localhost", *own_names(), *(name.lower() for name in rules.hosts)}
        #: Host headers that have passed once: clients send the same one with every request
        self._passed: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope["headers"]) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        body = json.dumps({"error": refusal}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Why this request may not pass; None if it may."""
        host, origins = b"", []
        for name, value in headers:
            if name == b"host":
                host = value
                if host not in self._passed and not self._knows(host):
                    return (
                        f"requests for host '{host.decode('latin-1')}' are refused: a web page may stand behind that "
                        "name (DNS rebinding); '--allowed-host=<name>' allows it"
                    )
            elif name == b"origin":
                origins.append(value)
        for origin in origins:
            text = origin.decode("latin-1").lower()
            if (
                not self._any_origin
                and text not in self._origins
                and text != f"http://{host.decode('latin-1').lower()}"
            ):
                return (
                    f"requests of web pages of '{origin.decode('latin-1')}' are refused; "
                    "'--allowed-origin=<origin>' allows them"
                )
        return None

    def _knows(self, header: bytes) -> bool:
        name = host_name(header.decode("latin-1")).lower()
        known = self._any_host or name in self._names or name.endswith(".localhost") or is_address(name)
        if known and len(self._passed) < 100:
            self._passed.add(header)
        return known


def host_name(header: str) -> str:
    """`[::1]:8000` -> `::1`, `localhost:8000` -> `localhost`."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def own_names() -> set[str]:
    """What this machine calls itself."""
    return {socket.gethostname().lower()}
