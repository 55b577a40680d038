from __future__ import annotations

import signal
import threading

import pytest

from tritonlab.ipc.link import interrupts
from tritonlab.ipc.link.interrupts import interruptible, shielded


@pytest.fixture(autouse=True, params=["private", "public"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use `signal` also in place of the private module it is made of."""
    if request.param == "public":
        monkeypatch.setattr(interrupts, "_handler_of", signal.getsignal)
        monkeypatch.setattr(interrupts, "_set_handler", signal.signal)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_arguments_and_result_pass() -> None:
    assert shielded(divmod, 7, 2) == (3, 1)
    assert shielded(sorted, [1, 2], reverse=True) == [2, 1]


def test_an_interrupt_waits_for_the_end() -> None:
    done: list[int] = []

    def step() -> None:
        interrupt()
        done.append(1)

    with pytest.raises(KeyboardInterrupt):
        shielded(step)
    assert done == [1]
    with pytest.raises(KeyboardInterrupt):
        interrupt()  # the handler of before is back


def test_several_interrupts_are_one() -> None:
    def step() -> None:
        interrupt()
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        shielded(step)


def test_shields_within_shields() -> None:
    done: list[str] = []

    def inner() -> None:
        interrupt()
        done.append("inner")

    def outer() -> None:
        shielded(inner)
        done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        shielded(outer)
    assert done == ["inner", "outer"]


def test_an_error_passes() -> None:
    with pytest.raises(ZeroDivisionError):
        shielded(divmod, 1, 0)
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_handler_of_ones_own_is_called_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        shielded(interrupt)
        assert received == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        shielded(interrupt)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_never_interrupted_and_change_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    handlers: list[object] = []
    thread = threading.Thread(target=lambda: shielded(lambda: handlers.append(signal.getsignal(signal.SIGINT))))
    thread.start()
    thread.join()
    assert handlers == [before]


def test_a_wait_can_be_interrupted_within_a_shield() -> None:
    done: list[str] = []

    def wait() -> None:
        interrupt()
        done.append("wait")

    def step() -> None:
        try:
            interruptible(wait)
        finally:
            interrupt()  # held back, as the wait is over
            done.append("step")

    with pytest.raises(KeyboardInterrupt):
        shielded(step)
    assert done == ["step"]
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_what_came_before_a_wait_ends_it() -> None:
    waited: list[int] = []

    def step() -> None:
        interrupt()
        interruptible(waited.append, 1)

    with pytest.raises(KeyboardInterrupt):
        shielded(step)
    assert waited == []


def test_a_wait_goes_on_after_a_handler_that_raises_nothing() -> None:
    received: list[int] = []

    def wait() -> str:
        interrupt()
        interrupt()
        return "done"

    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        assert shielded(interruptible, wait) == "done"
    finally:
        signal.signal(signal.SIGINT, before)
    assert received == [signal.SIGINT] * 2


def test_without_a_shield_a_wait_is_a_call() -> None:
    assert interruptible(divmod, 7, 2) == (3, 1)
    with pytest.raises(KeyboardInterrupt):
        interruptible(interrupt)
