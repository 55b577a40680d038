"""Sentences about `Server.draining`: the versions that no longer serve and have not ended."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

#: The seconds in which a version may end without a notice: every reload ends one, and mostly at once.
_USUAL = 1.0


def lasting(found: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return those that take longer to end than usual."""
    now = time.time()
    return [each for each in found if now - each["since"] >= _USUAL]


def draining_text(found: Mapping[str, Any]) -> str:
    """Return one sentence about them, with how to end them."""
    since = time.strftime("%H:%M:%S", time.localtime(found["since"]))
    waits = f" waits for {found['awaits']}" if found["awaits"] else " ends"
    text = f"'{found['model']}' version {found['version']}, out of service since {since},{waits}."
    if found["ends_in"] is not None:
        text += f" It is killed in {math.ceil(found['ends_in'])} s;"
    return f"{text} %triton kill {found['model']} ends it now."
