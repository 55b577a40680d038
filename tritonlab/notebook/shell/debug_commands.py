"""These commands debug a model: one types to a model that is paused, one looks at the last exception of a model."""

from __future__ import annotations

from ...server.api.debugging import follow_pauses
from ...server.api.server import Server
from ..authoring.errors import OptionError


def debug(server: Server, name: str | None) -> None:
    """Types to a paused model until it goes on; without a name, to the one that paused first."""
    if name is None:
        follow_pauses(server.debugger, None)
    else:
        server.model(name).debug()


def postmortem(server: Server, name: str | None) -> None:
    """Types to a debugger that looks at the last exception of a model; without a name, of the one that failed last."""
    if name is None:
        failures = [server.model(each).failures for each, _ in server.models()]
        last = max((each[-1].to_dict() for each in failures if each), key=lambda each: each["time_ns"], default=None)
        if last is None:
            raise OptionError("no model has failed")
        name = last["model"]
    server.model(name).postmortem()
