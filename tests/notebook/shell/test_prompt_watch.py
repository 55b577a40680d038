"""When a debugger's prompt counts as seen by nobody; the browser's tests have it with real windows."""

from __future__ import annotations

import pytest

from tritonlab.notebook.shell import prompt_watch
from tritonlab.notebook.shell.prompt_watch import PromptWatch


class Clock:
    """A stand-in for the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(prompt_watch, "time", clock)
    monkeypatch.setattr(PromptWatch, "_watch", lambda self, over: None)  # no thread
    return clock


def test_a_box_that_was_visible_and_is_not_any_more_is_gone(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        watch.seen(True)
        for _ in range(9):
            clock.now += 0.5
            watch.seen(False)
        assert watch._nobody_sees_it(1)
        assert not watch._nobody_sees_it(0)


def test_a_box_that_went_before_it_was_seen_is_gone(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        watch.seen(False, asked=False)  # the question for the line is still on its way
        for _ in range(9):
            clock.now += 0.5
            watch.seen(False, asked=True)
        assert watch._nobody_sees_it(1)


def test_a_window_of_a_front_end_without_the_prompt_ends_nothing(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        for _ in range(99):
            clock.now += 0.5
            watch.seen(False, asked=False)
        assert not watch._nobody_sees_it(1)


def test_windows_that_have_not_answered_yet_may_only_be_slow(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        clock.now += 10
        assert not watch._nobody_sees_it(1)
        watch.seen(True)
        assert not watch._nobody_sees_it(1)
    with watch:  # the next prompt, after a box that was seen
        clock.now += 10
        assert not watch._nobody_sees_it(1)
        clock.now += 11
        assert watch._nobody_sees_it(1)
