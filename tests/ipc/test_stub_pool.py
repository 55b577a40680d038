from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.serving import alive, eventually
from tritonlab.ipc import stub_pool
from tritonlab.ipc.interpreter import Interpreter
from tritonlab.ipc.link_reader import LinkReader
from tritonlab.ipc.stub_launcher import StubProcess
from tritonlab.ipc.stub_pool import StubPool


@pytest.fixture
def pool(link_reader: LinkReader, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubPool]:
    monkeypatch.setattr(stub_pool, "_REFILL_AFTER", 0.0)
    pool = StubPool(link_reader, size=2)
    yield pool
    pool.close()


@pytest.fixture
def started() -> Callable[[], list[psutil.Process]]:
    """The processes of the test: servers of the whole session may have some of their own."""
    before = psutil.Process().children()
    return lambda: [child for child in psutil.Process().children() if child not in before]


@pytest.fixture
def taken() -> Iterator[list[StubProcess]]:
    """Stubs that a test has acquired; they are ended after it."""
    stubs: list[StubProcess] = []
    yield stubs
    for stub in stubs:
        stub.kill()


def test_nothing_is_warm_before_it_is_asked_for(started: Callable[[], list[psutil.Process]], pool: StubPool) -> None:
    assert repr(pool) == "<StubPool [0 of 2 warm]>"
    assert started() == []


def test_a_warm_stub_is_handed_out_once_and_replaced(pool: StubPool, taken: list[StubProcess]) -> None:
    assert pool.wait_warm()
    assert repr(pool) == "<StubPool [2 of 2 warm]>"
    warm = {stub.pid for stub in pool._warm}
    taken += [pool.acquire(), pool.acquire()]
    assert {stub.pid for stub in taken} == warm
    assert pool.wait_warm()
    assert not warm & {stub.pid for stub in pool._warm}


def test_without_a_warm_one_a_stub_is_started(pool: StubPool, taken: list[StubProcess]) -> None:
    taken.append(pool.acquire())
    taken[0].await_hello()
    assert alive(taken[0].pid)


def test_another_interpreter_is_never_warm(pool: StubPool, taken: list[StubProcess]) -> None:
    assert pool.wait_warm()
    warm = {stub.pid for stub in pool._warm}
    taken.append(pool.acquire(Interpreter(os.path.realpath(sys.executable))))
    assert taken[0].pid not in warm


def test_a_warm_stub_that_died_is_not_handed_out(pool: StubPool, taken: list[StubProcess]) -> None:
    assert pool.wait_warm()
    dead = pool._warm[0]
    os.kill(dead.pid, signal.SIGKILL)
    eventually(lambda: dead.link.lost)
    taken.append(pool.acquire())
    taken[0].await_hello()
    assert taken[0] is not dead
    eventually(lambda: dead.child.returncode is not None)


def test_a_stub_of_another_environment_is_not_handed_out(
    pool: StubPool, taken: list[StubProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.wait_warm()
    stale = {stub.pid for stub in pool._warm}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("UNRELATED", "1")
    taken.append(pool.acquire())
    assert taken[0].pid not in stale
    eventually(lambda: not any(alive(pid) for pid in stale))


def test_variables_that_a_warm_stub_takes_over_later_do_not_matter(
    pool: StubPool, taken: list[StubProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.wait_warm()
    warm = {stub.pid for stub in pool._warm}
    monkeypatch.setenv("UNRELATED", "1")
    taken.append(pool.acquire())
    assert taken[0].pid in warm


def test_threads_that_acquire_at_once_get_different_stubs(pool: StubPool, taken: list[StubProcess]) -> None:
    assert pool.wait_warm()
    threads = [threading.Thread(target=lambda: taken.append(pool.acquire())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len({stub.pid for stub in taken}) == 4


def test_close_ends_every_stub_also_one_that_is_just_starting(
    started: Callable[[], list[psutil.Process]], link_reader: LinkReader
) -> None:
    for _ in range(3):
        pool = StubPool(link_reader, size=2)
        pool.prewarm()
        pool.close()
        pool.close()
        pool.prewarm()
        assert repr(pool) == "<StubPool [0 of 2 warm]>"
    eventually(lambda: started() == [])


def test_a_pool_of_none(started: Callable[[], list[psutil.Process]], link_reader: LinkReader) -> None:
    pool = StubPool(link_reader, size=0)
    pool.prewarm()
    assert pool.wait_warm(0)
    assert started() == []
    pool.close()
