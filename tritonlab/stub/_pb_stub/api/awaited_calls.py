"""The threads that run the `exec` of each `async_exec`, by which `process/needed_calls.py` finds the calls that a task
awaits.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Optional
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
    """Run `function(decoupled)` in the running loop's executor. Raises RuntimeError without a running loop."""
    call = AwaitedCall()
    future = asyncio.get_running_loop().run_in_executor(None, call.run, function, decoupled)
    _calls[future] = call
    return future


def call_of(future: Any) -> Optional[AwaitedCall]:
    """Return the call behind `future`; None if it is another future."""
    return _calls.get(future)
