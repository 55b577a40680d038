from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from tritonlab.stub._pb_stub.api import signal_gate
from tritonlab.stub._pb_stub.api.signal_gate import run_authors, uninterrupted

FIRST, SECOND = signal.SIGUSR1, signal.SIGUSR2


class Late(Exception):
    pass


@pytest.fixture(autouse=True)
def gate() -> Iterator[None]:
    """Open the gate as in a stub; this process's handlers come back afterwards."""
    names = ("signal", "getsignal")
    before = {name: getattr(signal, name) for name in names}
    handlers = {number: signal.getsignal(number) for number in (FIRST, SECOND, signal.SIGINT)}
    signal_gate.install()
    yield
    signal_gate.open()
    for name in names:
        setattr(signal, name, before[name])
    for number, handler in handlers.items():
        signal.signal(number, handler)


def handle(number: int, frame: FrameType | None) -> None:
    raise Late(number)


def test_the_author_sees_no_handler_but_its_own() -> None:
    assert signal.signal(FIRST, handle) is signal.SIG_DFL
    assert signal.getsignal(FIRST) is handle
    assert signal.signal(FIRST, signal.SIG_IGN) is handle
    assert signal.getsignal(FIRST) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(TypeError):
        signal.signal(FIRST, "no handler")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="signal number"):
        signal.signal(10_000, handle)


def test_a_handler_runs_at_once_in_the_author_s_code() -> None:
    signal.signal(FIRST, handle)
    with pytest.raises(Late):
        signal.raise_signal(FIRST)


@pytest.mark.parametrize("number", [FIRST, signal.SIGINT])
def test_a_handler_waits_while_ours_runs(number: int) -> None:
    if number == FIRST:
        signal.signal(number, handle)
    done = []

    @uninterrupted
    def ours() -> None:
        signal.raise_signal(number)
        done.append(1)

    with pytest.raises(Late if number == FIRST else KeyboardInterrupt):
        ours()
    assert done == [1]
    with pytest.raises(Late if number == FIRST else KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_handler_that_waits_runs_once_with_the_author_s_frame() -> None:
    calls: list[tuple[int, Any]] = []
    signal.signal(FIRST, lambda number, frame: calls.append((number, frame)))

    @uninterrupted
    def inner() -> None:
        signal.raise_signal(FIRST)

    @uninterrupted
    def ours() -> str:
        inner()
        signal.raise_signal(FIRST)
        assert not calls
        return "value"

    assert ours() == "value"
    ((number, frame),) = calls
    assert number == FIRST
    assert frame.f_code.co_name == "test_a_handler_that_waits_runs_once_with_the_author_s_frame"


def test_every_handler_runs_though_one_raises() -> None:
    calls: list[int] = []
    signal.signal(FIRST, handle)
    signal.signal(SECOND, lambda number, frame: calls.append(number))

    @uninterrupted
    def ours() -> None:
        signal.raise_signal(FIRST)
        signal.raise_signal(SECOND)

    with pytest.raises(Late):
        ours()
    assert calls == [SECOND]


def test_what_ours_raises_stays_with_what_a_handler_raises() -> None:
    signal.signal(FIRST, handle)

    @uninterrupted
    def ours() -> None:
        signal.raise_signal(FIRST)
        raise KeyError("ours")

    with pytest.raises(Late) as raised:
        ours()
    assert isinstance(raised.value.__context__, KeyError)


def test_handlers_wait_for_the_author_s_code() -> None:
    calls: list[str] = []
    signal.signal(FIRST, lambda number, frame: calls.append("handler"))
    signal_gate.close()
    signal.raise_signal(FIRST)
    assert calls == []
    assert run_authors(calls.append, "author's") is None
    assert calls == ["handler", "author's"]
    signal.raise_signal(FIRST)
    assert len(calls) == 2, "ours runs again"


def test_what_a_handler_raises_takes_the_place_of_the_author_s_code() -> None:
    signal.signal(FIRST, handle)
    signal_gate.close()
    signal.raise_signal(FIRST)
    calls: list[int] = []
    with pytest.raises(Late):
        run_authors(calls.append, 1)
    assert calls == []
    run_authors(calls.append, 2)
    assert calls == [2]


def test_a_handler_that_was_replaced_meanwhile_is_not_called() -> None:
    signal.signal(FIRST, handle)

    @uninterrupted
    def ours() -> None:
        signal.raise_signal(FIRST)
        signal.signal(FIRST, signal.SIG_IGN)

    ours()


def test_calls_of_other_threads_do_not_hold_handlers_up() -> None:
    signal.signal(FIRST, handle)
    inside, over = threading.Event(), threading.Event()

    @uninterrupted
    def ours() -> None:
        inside.set()
        over.wait(60)

    thread = threading.Thread(target=ours)
    thread.start()
    try:
        assert inside.wait(60)
        with pytest.raises(Late):
            signal.raise_signal(FIRST)
    finally:
        over.set()
        thread.join(60)


def test_a_destructor_of_ours_is_not_cut_short() -> None:
    signal.signal(FIRST, handle)
    done: list[int] = []
    scope: dict[str, Any] = {"raise_signal": signal.raise_signal, "number": FIRST, "done": done}
    source = "class Ours:\n    def __del__(self):\n        raise_signal(number)\n        done.append(1)\n"
    exec(compile(source, signal_gate.__file__, "exec"), scope)
    made = scope["Ours"]()
    del made
    assert done == [1]
    with pytest.raises(Late):
        uninterrupted(lambda: None)()


def test_handlers_run_in_a_forked_process() -> None:
    signal.signal(FIRST, lambda number, frame: os._exit(7))

    @uninterrupted
    def ours() -> int:
        child = os.fork()
        if not child:
            signal.raise_signal(FIRST)
            os._exit(1)
        return child

    assert os.waitstatus_to_exitcode(os.waitpid(ours(), 0)[1]) == 7
