"""This module shows what happens while requests are under way: each answer, a clock, and where a stuck request is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

_FRAME_SECONDS = 1 / 20
#: Seconds after which the stacks are shown, and seconds after which they are asked for again.
STUCK_SECONDS = 5
_AGAIN_SECONDS = 2


class UnderWay(Protocol):
    """Names the part of `Sending` that is followed."""

    @property
    def waited(self) -> float: ...

    def wait(self, timeout: float | None = None) -> bool: ...

    def take_changes(self) -> bool: ...

    def why(self) -> str: ...


def follow(sending: UnderWay, show: Callable[[str], None], wanted: Callable[[], bool]) -> None:
    """Calls `show` for every change, every second, and at the end, as long as `wanted` returns True. Once the requests
    take long, what is shown also says why.
    """
    second, asked, why = 0, 0.0, ""
    while not sending.wait(_FRAME_SECONDS):
        if not wanted():
            return
        waited = sending.waited
        changed = sending.take_changes()
        if waited >= STUCK_SECONDS and waited >= asked + _AGAIN_SECONDS:
            asked, why = waited, sending.why()
            changed = True
        if changed or int(waited) > second:
            second = int(waited)
            show(why)
    if wanted():
        show("")
