"""Sentences about slow ends: of versions that no longer serve, and of requests without an answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....core.quoting import magic_line

if TYPE_CHECKING:
    from ....server.api.server import Server

#: The seconds in which a version may end without a notice: every reload ends one, mostly at once.
_ENDS_WITHIN = 1.0

#: Seconds without a sign of life after which a request is reported.
USUAL = 10.0


def lasting(found: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the versions that take longer to end than usual."""
    now = time.time()
    return [each for each in found if now - each["since"] >= _ENDS_WITHIN]


def draining_text(found: Mapping[str, Any]) -> str:
    """Return one sentence about these versions, with how to end them."""
    since = time.strftime("%H:%M:%S", time.localtime(found["since"]))
    waits = f" waits for {found['awaits']}" if found["awaits"] else " ends"
    text = f"'{found['model']}' version {found['version']}, out of service since {since},{waits}."
    if found["ends_in"] is not None:
        text += f" It is killed in {math.ceil(found['ends_in'])} s;"
    return f"{text} {magic_line('%triton', 'kill', found['model'])} ends it now."


def can_hang(since: float) -> bool:
    """Return whether a version can hold requests for long; `since`: the wall clock seconds when it began to serve."""
    return time.time() - since >= USUAL


def hanging_texts(server: Server, name: str = "") -> dict[str, str]:
    """Return a sentence for each model, or for the model `name`, whose processes hold requests for long, with how to
    end them. Requests of a model paused by a debugger wait for a person, and are left out.
    """
    held: dict[str, list[Mapping[str, Any]]] = {}
    for request in server.requests(name):
        if request["instance"] and request["waited"] >= USUAL:
            held.setdefault(request["model"], []).append(request)
    if not held:
        return {}
    gone = {each["model"] for each in server.draining(name)}  # another sentence reports these
    return {
        model: _text(model, requests)
        for model, requests in held.items()
        if model not in gone and not server.debugger.words(model)
    }


def cancelled_text(request: Mapping[str, Any]) -> str:
    """Return why a cancelled request goes on, and how to end it; "" for any other request."""
    if not request["cancelled"] or request["state"] != "executing" or not request["instance"]:
        return ""
    model = request["model"]
    kill = magic_line("%triton", "kill", model)
    return (
        f"Python code cannot be cancelled: it goes on until it looks at request.is_cancelled(). Killing the process of "
        f"{model} ends it and the requests beside it, and another process takes over ({kill})."
    )


def kill_pressed(server: Server, name: str) -> list[dict[str, Any]]:
    """Kill the draining version or hanging process for which the button was shown, or end the request cancelled in
    vain; it may be gone already.
    """
    in_vain = any(each["model"] == name and cancelled_text(each) for each in server.requests())
    return server.kill(name, serving=in_vain or name in hanging_texts(server, name))


def _text(model: str, requests: Sequence[Mapping[str, Any]]) -> str:
    ages = [request["waited"] for request in requests]
    count = "1 request has" if len(ages) == 1 else f"{len(ages)} requests have"
    instances = ", ".join(sorted({f"{each['instance']} (process {each['pid']})" for each in requests}))
    return (
        f"{count} been in flight for {_duration(max(ages))}, with {instances}. Python code cannot be cancelled: "
        f"{magic_line('%triton', 'kill', model)} ends it, and another process takes over; "
        f"{magic_line('%triton', 'why', model)} says where it is."
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
