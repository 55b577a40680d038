"""This module finds out which BLS calls a coroutine waits for, as far as asyncio shows it.

`async_exec` runs `exec` on a thread of the loop's executor. Here is remembered which future belongs to which thread, so
that from a task that does not move one can tell the calls it needs. Only what is certain counts: a future awaited by
name, through other tasks, or through `asyncio.gather`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Set
from weakref import WeakKeyDictionary


class AwaitedCall:
    """One `exec` on an executor's thread; `thread` is 0 until it has begun."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = 0

    def run(self, function: Callable[[bool], Any], decoupled: bool) -> Any:
        self.thread = threading.get_ident()
        return function(decoupled)


_calls: "WeakKeyDictionary[Any, AwaitedCall]" = WeakKeyDictionary()


def start(function: Callable[[bool], Any], decoupled: bool) -> "asyncio.Future[Any]":
    """Runs `function(decoupled)` in the running loop's executor. Raises RuntimeError without a running loop."""
    call = AwaitedCall()
    future = asyncio.get_running_loop().run_in_executor(None, call.run, function, decoupled)
    _calls[future] = call
    return future


def threads_awaited_by(task: Any) -> Set[int]:
    """The threads whose calls must end before `task` goes on; may be called from any thread, at any time."""
    future = getattr(task, "_fut_waiter", None)
    return set() if future is None else _threads(future)


def _threads(future: Any) -> Set[int]:
    if future.done():
        return set()
    call = _calls.get(future)
    if call is not None:
        return {call.thread} if call.thread else set()
    if isinstance(future, asyncio.Task):
        return threads_awaited_by(future)
    running = [child for child in getattr(future, "_children", ()) if not child.done()]
    # gather needs all of them unless one raises, which a call does not
    if len(running) == 1 or all(child in _calls for child in running):
        return {thread for child in running for thread in _threads(child)}
    return set()
