from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tritonlab.stub._pb_stub.api import awaited_calls
from tritonlab.stub._pb_stub.process.needed_calls import threads_awaited_by


class Calls:
    """Calls that last until the test is over, on threads of the loop's executor."""

    def __init__(self) -> None:
        self.threads: dict[int, str] = {}
        self.begun = threading.Semaphore(0)
        self.over = threading.Event()

    def start(self, name: str) -> asyncio.Future[Any]:
        return awaited_calls.start(lambda decoupled: self._run(name), False)

    def ended(self) -> asyncio.Future[Any]:
        return awaited_calls.start(lambda decoupled: None, False)

    def _run(self, name: str) -> str:
        self.threads[threading.get_ident()] = name
        self.begun.release()
        self.over.wait(60)
        return name


async def own_task(calls: Calls) -> Any:
    return await asyncio.ensure_future(direct(calls))


async def direct(calls: Calls) -> Any:
    return await calls.start("a")


async def nested(calls: Calls) -> Any:
    return await direct(calls)


async def gathered(calls: Calls) -> Any:
    return await asyncio.gather(calls.start("a"), calls.start("b"))


async def gathered_with_task(calls: Calls) -> Any:
    return await asyncio.gather(calls.start("a"), asyncio.sleep(10))


async def gathered_one_left(calls: Calls) -> Any:
    done = calls.ended()
    await done
    return await asyncio.gather(done, own_task(calls))


async def first_of(calls: Calls) -> Any:
    return await asyncio.wait([calls.start("a"), calls.start("b")], return_when=asyncio.FIRST_COMPLETED)


async def elsewhere(calls: Calls) -> Any:
    calls.start("a")
    await asyncio.sleep(10)


async def plain_executor(calls: Calls) -> Any:
    await asyncio.get_running_loop().run_in_executor(None, calls._run, "a")


@pytest.mark.parametrize(
    ("coroutine", "expected"),
    [
        (direct, {"a"}),
        (nested, {"a"}),
        (own_task, {"a"}),
        (gathered, {"a", "b"}),
        (gathered_one_left, {"a"}),
        (gathered_with_task, set()),  # the other might raise, and end it
        (first_of, set()),
        (elsewhere, set()),
        (plain_executor, set()),
    ],
)
def test_what_a_task_certainly_waits_for(
    coroutine: Callable[[Calls], Coroutine[Any, Any, Any]], expected: set[str]
) -> None:
    calls = Calls()

    async def look() -> set[str]:
        task = asyncio.ensure_future(coroutine(calls))
        running = 2 if coroutine in (gathered, first_of) else 1
        while len(calls.threads) < running:
            await asyncio.to_thread(calls.begun.acquire, timeout=60)
        await asyncio.sleep(0)
        found = {calls.threads[thread] for thread in threads_awaited_by(task)}
        calls.over.set()
        task.cancel()
        await asyncio.wait([task])
        return found

    assert asyncio.run(look()) == expected


def test_a_task_that_does_not_wait() -> None:
    async def look() -> set[int]:
        return threads_awaited_by(asyncio.current_task())

    assert asyncio.run(look()) == set()
    assert threads_awaited_by(None) == set()


def test_it_gives_what_the_call_gives_or_raises() -> None:
    async def both() -> tuple[bool, BaseException | None]:
        def fails(decoupled: bool) -> None:
            raise ValueError(decoupled)

        failure = awaited_calls.start(fails, True)
        await asyncio.wait([failure])
        return await awaited_calls.start(lambda decoupled: decoupled, True), failure.exception()

    value, error = asyncio.run(both())
    assert value is True
    assert repr(error) == "ValueError(True)"


def test_it_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        awaited_calls.start(lambda decoupled: None, False)
