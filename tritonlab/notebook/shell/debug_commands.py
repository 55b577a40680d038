"""These commands debug a model: they type to the one that is paused at `breakpoint()`."""

from __future__ import annotations

from ...instances.debug_session import DebugSession
from ...server.api.server import Server
from ..authoring.errors import OptionError


def debug(server: Server, name: str | None) -> None:
    """Types to a paused model until it goes on; without a name, to the one that is paused first."""
    debugger = server.debugger
    paused = [session for session in debugger.sessions(name) if session.live]
    if not paused:
        which = f"model '{name}' is not" if name is not None else "no model is"
        raise OptionError(f"{which} paused; call breakpoint() in its cell and send it a request")
    session: DebugSession | None = paused[0]
    while session is not None:
        debugger.follow(session)
        session = debugger.next_pause(session.instance)
