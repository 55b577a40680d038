"""The HTTP, gRPC and metrics ports of a notebook's server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...exchanges.snippets import Address

if TYPE_CHECKING:
    from ...frontends.endpoints import Endpoints
    from ...server.api.server import Server

#: Returns the ports that are open, None if there are none.
Ports = Callable[[], "Endpoints | None"]


def _serving() -> Any:
    from . import serving  # with gRPC and the HTTP server

    return serving


class NotebookPorts:
    """The ports, opened and closed from any thread."""

    def __init__(self, server: Server) -> None:
        #: the open ports, if any
        self.endpoints: Endpoints | None = None
        self._server = server
        self._lock = threading.RLock()  # held while ports are opened or closed

    def open(self, arguments: Sequence[str] = (), **options: Any) -> Endpoints:
        """Open ports in the place of the open ones; a call without any argument may keep those as they are.

        `arguments`: flags of `%triton serve`. `options`: fields of `EndpointOptions` and `AccessRules`. Raises
        OptionError or UnknownOption, and then the open ports stay; TritonError for a port that cannot be opened.
        """
        with self._lock:
            if self.endpoints is None or arguments or options:
                self.endpoints = _serving().open_endpoints(self._server, arguments, self.close, **options)
            return self.endpoints

    def flags(self) -> list[str]:
        """Return the flags that `open` accepts."""
        found: list[str] = _serving().flags()
        return found

    def close(self) -> None:
        """Close the ports; models stay loaded."""
        with self._lock:
            if self.endpoints is not None:
                self.endpoints.stop()
                self.endpoints = None


def open_address(ports: Ports) -> Address | None:
    """Return the address of the notebook's own server for a program; None if no port is open."""
    found, usual = ports(), Address()
    return None if found is None else Address(found.http or usual.http, found.grpc or usual.grpc, found.header_file)
