from __future__ import annotations

import threading

import pytest

from tritonlab.stub._pb_stub.api import own_threads


def test_a_thread_is_known_while_it_runs() -> None:
    begun, over = threading.Semaphore(0), threading.Event()

    def wait(text: str) -> None:
        begun.release()
        over.wait(60)

    before = own_threads.own()
    ours = own_threads.start("ours", wait, "x")
    theirs = own_threads.start("theirs", wait, "y", runs_authors=True)
    for _ in range(2):
        assert begun.acquire(timeout=60)
    assert own_threads.own() - before == {ours.ident, theirs.ident}
    assert own_threads.without_authors() - before == {ours.ident}
    assert ours.daemon
    assert ours.name == "ours"
    over.set()
    for thread in (ours, theirs):
        thread.join(60)
    assert own_threads.own() - before == set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_raises_is_forgotten_too() -> None:
    before = own_threads.own()

    def leave() -> None:
        raise SystemExit

    leaver = own_threads.start("leaves", leave)
    leaver.join(60)
    assert not leaver.is_alive()
    assert own_threads.own() - before == set()
