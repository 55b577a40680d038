"""The notebook's own ports, as far as a program that is sent to them needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...clients.snippets import Address

if TYPE_CHECKING:
    from ...frontends.endpoints import Endpoints


#: Returns the ports that are open, None if there are none.
Ports = Callable[[], "Endpoints | None"]


def open_address(ports: Ports) -> Address | None:
    """Return where a program finds the notebook's own server, None if no port is open."""
    found, usual = ports(), Address()
    return None if found is None else Address(found.http or usual.http, found.grpc or usual.grpc, found.header_file)
