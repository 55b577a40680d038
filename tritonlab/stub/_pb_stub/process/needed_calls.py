"""The BLS calls whose answers the running `execute` needs to continue, as far as stacks and asyncio show them, so that
the server can find calls that wait for themselves (rule 4.4.1).

The main thread may wait in a call itself, or for a thread, a future or a coroutine that waits in one. The result is
certain: waits with a time limit, for any one of several, or for events, queues and locks are left out. The server
queries it only when calls might wait for one another.

Python does not report the waits of a thread or a task. So this module, and no other, reads internals of the standard
library: the arguments of `join`, `result`, `wait` and `run_until_complete` in the frames of threads, the work item of a
ThreadPoolExecutor's worker, the future that a task awaits, and the futures that `gather` has gathered. A Python in
which one of these has another form shows less: calls that wait for one another are then not found, and wait as on
Triton.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import concurrent.futures.thread
import threading
from typing import AbstractSet, Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..api import awaited_calls, own_threads
from ..api.infer_request import InferenceRequest
from ..wire.message_bodies import NeededCall, Needs

#: INFER id and number of its responses
WaitedCall = Tuple[int, int]

_JOIN = threading.Thread.join.__code__
_RESULT = concurrent.futures.Future.result.__code__
_WAIT = concurrent.futures.wait.__code__
_RUN_UNTIL_COMPLETE = asyncio.BaseEventLoop.run_until_complete.__code__
#: The function of a ThreadPoolExecutor's worker: it runs one item, which has the future.
_RUN_WORK = getattr(getattr(getattr(concurrent.futures.thread, "_WorkItem", None), "run", None), "__code__", None)


class AwaitedCoroutine:
    """The coroutine of an `async def execute`, as a task of `loop`, which runs on the thread `thread`. Other threads
    get its result from `future`."""

    __slots__ = ("_task", "_thread", "future")

    def __init__(self, coroutine: Any, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self.future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._task: Optional[asyncio.Task[Any]] = None  # until the loop starts it
        self._thread = thread
        loop.call_soon_threadsafe(self._start, coroutine, loop)

    def _start(self, coroutine: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(coroutine)
        self._task.add_done_callback(self._done)

    def _done(self, task: Any) -> None:
        try:
            error = task.exception()
        except asyncio.CancelledError as cancelled:
            # without this frame, which leads to `future`: it would hold itself, and with it the coroutine's requests
            passed_on = cancelled.with_traceback(cancelled.__traceback__ and cancelled.__traceback__.tb_next)
            self.future.set_exception(passed_on)
            return
        if error is None:
            self.future.set_result(task.result())
        else:
            self.future.set_exception(error)

    def threads(self) -> Set[int]:
        """Return the threads it needs: those behind its awaits, and its loop's, which other code on it may delay."""
        return {self._thread, *threads_awaited_by(self._task)}


def needed_calls(
    thread: int, waiting: Mapping[int, WaitedCall], awaited: Optional[AwaitedCoroutine] = None
) -> Tuple[Set[WaitedCall], Set[int]]:
    """Return the calls that must be answered before `thread` continues, and the threads on the way to them. `waiting`
    has the call in which each thread waits.
    """
    frames = own_threads.frames_of_others()
    calls: Set[WaitedCall] = set()
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
    """Return the threads that a thread with this innermost frame waits for."""
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
    """Return the threads that must act before the future is done."""
    if awaited is not None and future is awaited.future:
        return awaited.threads()
    return {ident for ident, frame in frames.items() if _runs(frame, future)}


def _runs(frame: Any, future: Any) -> bool:
    while frame is not None:
        if frame.f_code is _RUN_WORK:
            item = frame.f_locals.get("self")
            return item is not None and getattr(item, "future", None) is future
        frame = frame.f_back
    return False


def threads_awaited_by(task: Any) -> Set[int]:
    """Return the threads whose calls must end before `task` continues. May be called from any thread, at any time.

    Only certain waits count: for a future awaited by name, through other tasks, or through `asyncio.gather`.
    """
    future = getattr(task, "_fut_waiter", None)
    return set() if future is None else _threads_of(future)


def _threads_of(future: Any) -> Set[int]:
    if future.done():
        return set()
    call = awaited_calls.call_of(future)
    if call is not None:
        return {call.thread} if call.thread else set()
    if isinstance(future, asyncio.Task):
        return threads_awaited_by(future)
    running = [child for child in getattr(future, "_children", ()) if not child.done()]
    # gather needs all of them unless one raises, which a call does not
    if len(running) == 1 or all(awaited_calls.call_of(child) is not None for child in running):
        return {thread for child in running for thread in _threads_of(child)}
    return set()


class RunningExecute:
    """The running `execute` of the main thread, if any, and the BLS calls that threads wait for."""

    def __init__(self) -> None:
        #: its requests; None between two executions
        self.requests: Optional[List[InferenceRequest]] = None
        #: its coroutine, if the main thread waits for one
        self.coroutine: Optional[AwaitedCoroutine] = None
        #: INFER id and number of responses so far of the calls that threads wait for, by thread
        self.calls: Dict[int, WaitedCall] = {}
        self._main = threading.get_ident()

    def wait_kind(self) -> int:
        """Return the meaning of a wait of this thread for `execute`; see INFER in the COMMANDS table."""
        requests = self.requests
        return 0 if requests is None or threading.get_ident() != self._main else self._kind(requests, frozenset())

    def needs(self) -> Needs:
        """Return the answer to WAITS. May be called from any thread."""
        requests = self.requests
        if requests is None:
            return Needs(0, [])
        calls, threads = needed_calls(self._main, self.calls.copy(), self.coroutine)
        return Needs(self._kind(requests, threads), [NeededCall(*call) for call in sorted(calls)])

    def _kind(self, requests: Sequence[InferenceRequest], waiting: AbstractSet[int]) -> int:
        """Return 2 if only the result of `execute` could answer its requests while these threads wait, else 1."""
        for request in requests:
            if request._sender is not None:
                break
        else:
            return 2
        # the main thread is the waiting one, and the stub's own threads never answer a request
        never = {self._main, *own_threads.own(), *waiting}
        return 1 if any(thread.ident not in never for thread in threading.enumerate()) else 2
