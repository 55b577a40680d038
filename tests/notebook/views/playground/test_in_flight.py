"""Requests that are followed without a wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tritonlab.notebook.views.playground.in_flight import follow


class Scripted:
    """A sending with a script of its clock and changes: (seconds waited, whether a response came) of each frame."""

    def __init__(self, *frames: tuple[float, bool]) -> None:
        self._frames: Iterator[tuple[float, bool]] = iter(frames)
        self.waited = 0.0
        self._changed = False
        self.reports = 0

    def wait(self, timeout: float | None = None) -> bool:
        frame = next(self._frames, None)
        if frame is not None:
            self.waited, self._changed = frame
        return frame is None

    def take_changes(self) -> bool:
        return self._changed

    def why(self) -> str:
        self.reports += 1
        return f"stuck {self.reports}"


def texts_of(sending: Scripted, frames: int = 1000) -> list[str]:
    seen: list[str] = []
    left = iter(range(frames))
    follow(sending, seen.append, lambda: next(left, None) is not None)
    return seen


def test_each_change_and_the_end_are_drawn() -> None:
    assert texts_of(Scripted((0.05, False), (0.1, True), (0.15, False), (0.2, True))) == ["", "", ""]
    assert texts_of(Scripted()) == [""]


def test_the_clock_ticks_each_second() -> None:
    frames = [(tick / 20, False) for tick in range(1, 62)]
    assert texts_of(Scripted(*frames)) == ["", "", "", ""]


def test_a_stuck_request_says_why_again_and_again() -> None:
    sending = Scripted(*[(tick / 20, False) for tick in range(1, 8 * 20)])
    assert texts_of(sending) == ["", "", "", "", "stuck 1", "stuck 1", "stuck 2", ""]
    assert sending.reports == 2


@pytest.mark.parametrize("frames", [0, 1, 3])
def test_what_is_not_wanted_any_more_is_not_drawn(frames: int) -> None:
    sending = Scripted(*[(0.1, True)] * 10)
    assert len(texts_of(sending, frames)) == frames
