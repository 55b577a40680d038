"""The notebook's own ports, as far as a program that is sent to them needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...clients.snippets import Address


class OpenPorts(Protocol):
    """The part of `Endpoints` that names the notebook's own server."""

    @property
    def http(self) -> str: ...

    @property
    def grpc(self) -> str: ...

    @property
    def headers(self) -> dict[str, str]: ...

    @property
    def header_file(self) -> str: ...


#: The ports that are open, None if there are none.
Ports = Callable[[], OpenPorts | None]


def open_address(ports: Ports) -> Address | None:
    """Return where a program finds the notebook's own server, None if no port is open."""
    found, usual = ports(), Address()
    return None if found is None else Address(found.http or usual.http, found.grpc or usual.grpc, found.header_file)
