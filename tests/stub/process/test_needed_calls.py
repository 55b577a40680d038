from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tritonlab.stub._pb_stub.api import awaited_calls
from tritonlab.stub._pb_stub.process import needed_calls as needed_calls_module
from tritonlab.stub._pb_stub.process.needed_calls import AwaitedCoroutine, needed_calls


class World:
    """An `execute` on a thread of its own, and calls that last until the test is over, each on the thread it is made
    on. A call's id is its name's first letter."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[int, int]] = {}
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []

    def call(self, name: str) -> None:
        self.waiting[threading.get_ident()] = (ord(name), 0)
        self.over.wait(60)

    def thread(self, *names: str) -> threading.Thread:
        """Start a thread that makes calls one after the other."""
        made = threading.Thread(target=lambda: [self.call(name) for name in names], daemon=True)
        made.start()
        self.threads.append(made)
        return made

    def run(self, execute: Callable[[], Any]) -> threading.Thread:
        main = threading.Thread(target=execute, daemon=True)
        main.start()
        return main

    def needed(self, main: threading.Thread, awaited: AwaitedCoroutine | None = None) -> str:
        assert main.ident is not None
        calls, _ = needed_calls(main.ident, dict(self.waiting), awaited)
        return "".join(sorted(chr(ident) for ident, _ in calls))


def direct(world: World) -> None:
    world.call("a")


def join(world: World) -> None:
    world.thread("a").join()


def join_of_a_thread_that_joins(world: World) -> None:
    outer = threading.Thread(target=lambda: world.thread("a").join(), daemon=True)
    outer.start()
    outer.join()


def join_with_a_limit(world: World) -> None:
    world.thread("a").join(60)


def not_joined(world: World) -> None:
    world.thread("a")
    world.over.wait(60)


def result(world: World) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(world.call, "a").result()


def result_with_a_limit(world: World) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(world.call, "a").result(60)


def mapped(world: World) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(world.call, "ab"))


def left_open(world: World) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(world.call, "a")


def all_of(world: World) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        concurrent.futures.wait([pool.submit(world.call, name) for name in "ab"])


def any_of(world: World) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(2)
    calls = [pool.submit(world.call, name) for name in "ab"]
    concurrent.futures.wait(calls, return_when=concurrent.futures.FIRST_COMPLETED)


def own_loop(world: World) -> None:
    async def body() -> None:
        await asyncio.gather(*[awaited_calls.start(lambda _, name=name: world.call(name), False) for name in "ab"])

    asyncio.run(body())


def own_loop_blocked(world: World) -> None:
    async def body() -> None:
        world.call("a")

    asyncio.run(body())


@pytest.mark.parametrize(
    ("execute", "calls", "needed"),
    [
        (direct, 1, "a"),
        (join, 1, "a"),
        (join_of_a_thread_that_joins, 1, "a"),
        (join_with_a_limit, 1, ""),
        (not_joined, 1, ""),
        (result, 1, "a"),
        (result_with_a_limit, 1, ""),
        (mapped, 2, "a"),  # in order: the first result is waited for
        (left_open, 1, "a"),
        (all_of, 2, "ab"),
        (any_of, 2, ""),
        (own_loop, 2, "ab"),
        (own_loop_blocked, 1, "a"),
    ],
)
def test_what_the_main_thread_cannot_go_on_without(execute: Callable[[World], None], calls: int, needed: str) -> None:
    world = World()
    main = world.run(lambda: execute(world))
    end = time.monotonic() + 5
    found = ""
    while (len(world.waiting) < calls or found != needed) and time.monotonic() < end:
        time.sleep(0.002)
        found = world.needed(main)
    assert (len(world.waiting), found) == (calls, needed)
    world.over.set()


def test_the_coroutine_of_execute_needs_its_loop() -> None:
    world = World()
    loop = asyncio.new_event_loop()
    runner = threading.Thread(target=loop.run_forever, daemon=True)
    runner.start()
    assert runner.ident is not None

    async def execute() -> None:
        await awaited_calls.start(lambda _: world.call("a"), False)
        world.over.clear()
        world.call("b")

    awaited = AwaitedCoroutine(execute(), loop, runner.ident)
    main = world.run(awaited.future.result)
    while world.needed(main, awaited) != "a":
        time.sleep(0.002)
    world.waiting.clear()
    world.over.set()
    while world.needed(main, awaited) != "b":
        time.sleep(0.002)
    world.over.set()
    main.join(60)
    loop.call_soon_threadsafe(loop.stop)
    runner.join(60)
    loop.close()


def test_a_cancelled_coroutine_leaves_nothing_for_the_collector() -> None:
    """Its frames hold the requests, whose end must not wait for a collection."""

    class Held:
        pass

    async def execute(held: Held) -> None:
        raise asyncio.CancelledError("given up")

    loop = asyncio.new_event_loop()
    held = Held()
    gone = weakref.ref(held)
    gc.disable()
    try:
        awaited = AwaitedCoroutine(execute(held), loop, 0)
        awaited.future.add_done_callback(lambda _: loop.stop())
        loop.run_forever()
        assert isinstance(awaited.future.exception(0), asyncio.CancelledError)
        del held, awaited
        assert gone() is None
    finally:
        gc.enable()
        loop.close()


def test_a_thread_that_is_gone_needs_nothing() -> None:
    assert needed_calls(1, {}) == (set(), {1})


def test_a_python_that_shows_less_finds_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked up in the standard library may be gone in a Python to come: then a call is not found, no more."""
    monkeypatch.setattr(needed_calls_module, "_RUN_WORK", None)
    world = World()
    main = world.run(lambda: result(world))
    while not world.waiting:
        time.sleep(0.002)
    assert world.needed(main) == ""
    world.over.set()
    main.join(60)
    assert needed_calls_module.threads_awaited_by(object()) == set()
