"""This module finds the BLS calls without whose answers the running `execute` cannot go on, as far as stacks and
asyncio show it.

The main thread may wait in a call itself, or for a thread, a future or a coroutine that waits in one. What is found
here is certain: waits with a time limit, for any one of several, or for events, queues and locks are left out. Asked
for by the kernel when calls might wait for one another, never in between.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import concurrent.futures.thread
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple

from ..api.awaited_calls import threads_awaited_by

#: INFER id and number of responses it has had
Call = Tuple[int, int]

_JOIN = threading.Thread.join.__code__
_RESULT = concurrent.futures.Future.result.__code__
_WAIT = concurrent.futures.wait.__code__
_RUN_UNTIL_COMPLETE = asyncio.BaseEventLoop.run_until_complete.__code__
_RUN_WORK = concurrent.futures.thread._WorkItem.run.__code__


class AwaitedCoroutine:
    """The coroutine of an `async def execute` as a task of `loop`, which runs on the thread `thread`. `future` has its
    result, for other threads."""

    __slots__ = ("_task", "_thread", "future")

    def __init__(self, coroutine: Any, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self.future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._task: Optional[asyncio.Task[Any]] = None  # until the loop comes to it
        self._thread = thread
        loop.call_soon_threadsafe(self._start, coroutine, loop)

    def _start(self, coroutine: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(coroutine)
        self._task.add_done_callback(self._done)

    def _done(self, task: Any) -> None:
        error: Optional[BaseException]
        try:
            error = task.exception()
        except asyncio.CancelledError as cancelled:
            error = cancelled
        if error is None:
            self.future.set_result(task.result())
        else:
            self.future.set_exception(error)

    def threads(self) -> Set[int]:
        """Those it needs: what it awaits, and its loop's, which may be held up by anything that runs there."""
        return {self._thread, *threads_awaited_by(self._task)}


def needed_calls(
    thread: int, waiting: Mapping[int, Call], awaited: Optional[AwaitedCoroutine] = None
) -> Tuple[Set[Call], Set[int]]:
    """The calls that must be answered before `thread` goes on, and the threads on the way to them. `waiting`: the call
    that each thread waits in."""
    frames = sys._current_frames()
    calls: Set[Call] = set()
    seen: Set[int] = set()
    todo: List[int] = [thread]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in waiting:
            calls.add(waiting[one])
        else:
            todo.extend(_needed_threads(frames.get(one), frames, awaited))
    return calls, seen


def _needed_threads(frame: Any, frames: Dict[int, Any], awaited: Optional[AwaitedCoroutine]) -> Set[int]:
    """The threads that the one with this innermost frame waits for."""
    while frame is not None:
        code = frame.f_code
        if code is _JOIN or code is _RESULT or code is _WAIT:
            found = frame.f_locals
            return _of_wait(code, found, frames, awaited) if found.get("timeout") is None else set()
        if code is _RUN_UNTIL_COMPLETE:
            return threads_awaited_by(frame.f_locals.get("future"))
        frame = frame.f_back
    return set()


def _of_wait(
    code: Any, found: Mapping[str, Any], frames: Dict[int, Any], awaited: Optional[AwaitedCoroutine]
) -> Set[int]:
    if code is _JOIN:
        thread = found.get("self")
        return {thread.ident} if thread is not None and thread.ident else set()
    if code is _RESULT:
        futures = [found.get("self")]
    elif found.get("return_when") == concurrent.futures.ALL_COMPLETED:
        futures = [future for future in found.get("fs", ()) if not future.done()]
    else:
        futures = []
    return {thread for future in futures for thread in _runners(future, frames, awaited)}


def _runners(future: Any, frames: Dict[int, Any], awaited: Optional[AwaitedCoroutine]) -> Set[int]:
    """The threads that have to do something for the future to be done."""
    if awaited is not None and future is awaited.future:
        return awaited.threads()
    return {ident for ident, frame in frames.items() if _runs(frame, future)}


def _runs(frame: Any, future: Any) -> bool:
    while frame is not None:
        if frame.f_code is _RUN_WORK:
            item = frame.f_locals.get("self")
            return item is not None and item.future is future
        frame = frame.f_back
    return False
