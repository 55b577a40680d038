"""Iterators over the responses of one request, for a waiting thread and for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import NoReturn

from ...core.explained import Explained
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.process_bound import ProcessBound
from ...core.status import Code, TritonError
from ...engine.debugging.debugger import Debugger
from ...ipc.link.interrupts import interruptible, shielded

#: The most responses that a repr shows.
_SHOWN = 3


class RequestInterrupted(Explained, KeyboardInterrupt):
    """An interrupt of a thread that waited for a model; the text has the reason of the wait and the model's place."""

    code = Code.CANCELLED


class ResponseIterator(ProcessBound, Iterator[InferenceResponse]):
    """The responses of one request, in order. An empty final response ends the iteration and is not yielded
    (rule 3.7.5).

    An interrupt of `next` cancels the request. The thread that waits in `next` reads the stub's answer itself, if no
    other thread does. `waits_for` returns a request's reason to wait, after an interrupt; `explain` gets each error
    first. `debugger`: the main thread serves its prompts meanwhile.
    """

    _elsewhere = "pickle its responses: list(iterator)"

    def __init__(
        self,
        request: InferenceRequest,
        raise_on_error: bool,
        empty_final: bool = False,
        *,
        waits_for: Callable[[InferenceRequest], str] = lambda request: "",
        explain: Callable[[TritonError], None] = lambda error: None,
        debugger: Debugger | None = None,
    ) -> None:
        self.request = request
        self._waits_for = waits_for
        self._explain = explain
        self._debugger = debugger
        self._raise = raise_on_error
        self._empty_final = empty_final
        self._responses: deque[InferenceResponse] = deque()
        self._sleeper: threading.Lock | None = None
        self._done = False
        request.on_response = self._on_response

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        self._responses.append(response)
        sleeper = self._sleeper
        if sleeper is not None and sleeper.locked():
            try:  # noqa: SIM105 - on the way of a response
                sleeper.release()
            except RuntimeError:
                pass  # a debugger's prompt has done it meanwhile

    def _arrived(self) -> bool:
        """Return whether the wait for the stub is over: a response is here, or the request was queued again (rule 3.9),
        where another thread may fail it.
        """
        return bool(self._responses) or self.request.executor is None

    def __next__(self) -> InferenceResponse:
        responses = self._responses
        while not self._done:
            try:
                if not responses:
                    shielded(self._await_response)
            except KeyboardInterrupt as interrupt:
                self.interrupted(str(interrupt))
            # in this order: an interrupt between the two must not leave an iterator that waits for a response it
            # already had
            self._done = responses[0].final
            response = responses.popleft()
            if response.error is not None:
                self._explain(response.error)
                if self._raise:
                    raise response.error
            if self._empty_final or not response.empty:
                return response
        raise StopIteration

    def _await_response(self) -> None:
        while not self._responses:
            executor = self.request.executor
            if executor is None or not executor.lead(self._arrived):
                self._wait()

    def interrupted(self, why: str = "") -> NoReturn:
        """Cancel the request, and raise RequestInterrupted in place of the KeyboardInterrupt being handled, whose text
        it may use.
        """
        try:
            raise RequestInterrupted(why or self._waits_for(self.request)) from None
        finally:
            self.request.cancel()  # the loop over the responses ends, too

    def _wait(self) -> None:
        """Sleep until a response is here, while another thread reads."""
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleeper = sleeper
        if self._debugger is not None and self._debugger.desk.reads_here():
            self._debugger.sleep(sleeper, lambda: bool(self._responses))
        elif not self._responses:
            interruptible(sleeper.acquire)

    def __repr__(self) -> str:
        there = list(self._responses.copy())
        texts = [*map(repr, there[:_SHOWN]), *(["…"] if len(there) > _SHOWN else [])]
        return _repr(
            iterator=self,
            request=self.request,
            done=self._done,
            count=len(there),
            responses=f": {', '.join(texts)}" if texts else "",
        )

    def cancel(self) -> None:
        """Request cancellation. The model decides about further responses; keep iterating (rule 3.10)."""
        self.request.cancel()


class AsyncResponseIterator(ProcessBound, AsyncIterator[InferenceResponse]):
    """The responses of one request, like ResponseIterator, for `async for`. Cancelling the task that waits for a
    response cancels the request.
    """

    _elsewhere = "pickle its responses: [each async for each in iterator]"

    def __init__(
        self,
        request: InferenceRequest,
        raise_on_error: bool,
        empty_final: bool = False,
        *,
        explain: Callable[[TritonError], None] = lambda error: None,
    ) -> None:
        self.request = request
        self._explain = explain
        self._raise = raise_on_error
        self._empty_final = empty_final
        self._loop = asyncio.get_running_loop()
        self._responses: asyncio.Queue[InferenceResponse] = asyncio.Queue()
        self._done = False
        request.on_response = self._on_response

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        self._loop.call_soon_threadsafe(self._responses.put_nowait, response)

    async def __anext__(self) -> InferenceResponse:
        while not self._done:
            try:
                response = await self._responses.get()
            except asyncio.CancelledError:  # as for a gRPC stream; an interrupt of a cell cancels its task, too
                self.request.cancel()
                raise
            self._done = response.final
            if response.error is not None:
                self._explain(response.error)
                if self._raise:
                    raise response.error
            if self._empty_final or not response.empty:
                return response
        raise StopAsyncIteration

    def __repr__(self) -> str:
        return _repr(iterator=self, request=self.request, done=self._done, count=self._responses.qsize(), responses="")

    def cancel(self) -> None:
        """Request cancellation; keep iterating."""
        self.request.cancel()


def _repr(iterator: object, request: InferenceRequest, done: bool, count: int, responses: str) -> str:
    state = f"{count} response{'s' if count > 1 else ''} to take{responses}" if count else "waits for the model"
    return f"<{type(iterator).__name__} {request.model_name} [{'ended' if done else state}]>"
