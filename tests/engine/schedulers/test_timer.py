from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tritonlab.core.clock import SystemClock
from tritonlab.engine.schedulers.timer import Timer


@pytest.fixture
def timer() -> Iterator[Timer]:
    timer = Timer(SystemClock())
    yield timer
    timer.close()


def test_functions_are_called_in_the_order_of_their_time(timer: Timer) -> None:
    now = SystemClock.now()
    called: list[str] = []
    done = threading.Event()
    timer.call_at(now + 1_000_000_000, lambda: (called.append("late"), done.set()))
    timer.call_at(now + 1_000_000, lambda: called.append("soon"))  # nearer than what it waits for
    assert done.wait(60)
    assert called == ["soon", "late"]
    assert SystemClock.now() >= now + 1_000_000_000


def test_a_time_that_never_comes_keeps_no_other_waiting(timer: Timer) -> None:
    """No thread can wait for so long at a time."""
    done = threading.Event()
    timer.call_at(1 << 84, lambda: None)
    assert timer._thread is not None
    timer._thread.join(0.1)
    timer.call_at(0, done.set)
    assert done.wait(5)


def test_what_is_due_is_called_at_once(timer: Timer) -> None:
    done = threading.Event()
    timer.call_at(0, done.set)
    assert done.wait(60)


def test_a_function_that_raises_does_not_stop_the_others(timer: Timer, caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    timer.call_at(0, lambda: 1 / 0)
    timer.call_at(1, done.set)
    assert done.wait(60)
    assert "a timer's function raised" in caplog.text


def test_nothing_is_called_after_close() -> None:
    timer = Timer(SystemClock())
    called: list[int] = []
    timer.call_at(SystemClock.now() + 3_600_000_000_000, lambda: called.append(1))
    timer.close()
    timer.call_at(0, lambda: called.append(2))
    assert timer._thread is not None
    timer._thread.join(60)
    assert not timer._thread.is_alive()
    assert called == []
