"""The responses to a request, for a waiting thread and for asyncio.

Unlike tritonlab's own iterators these also return the empty final response of a decoupled model, because programs
written for NVIDIA's package expect it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from ...core.inference.infer_request import InferenceRequest as CoreRequest
from ...core.inference.infer_response import InferenceResponse as CoreResponse
from ...core.inference.infer_response import ParameterValue
from ...server.api.response_iterator import ResponseIterator as CoreIterator
from .._c.triton_bindings import InvalidArgumentError, TritonError
from ._request import InferenceRequest
from ._running import ModelHandle
from ._tensor import Tensor


@dataclass
class InferenceResponse:
    """One response: outputs or an error, and whether it was the last. `model` is a handle on the version that
    responded. `classification_label` is never set, as in NVIDIA's package.
    """

    model: ModelHandle
    request_id: str | None = None
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    error: TritonError | None = None
    classification_label: str | None = None
    final: bool = False

    @staticmethod
    def _from_core(request: InferenceRequest, response: CoreResponse) -> InferenceResponse:
        """Make a response. Raises InvalidArgumentError if outputs cannot be in the memory that the request names."""
        model = request.model
        if not response.empty:
            model = model._answering(response.model_version)
        result = InferenceResponse(model, response.request_id, dict(response.parameters), final=response.final)
        error = response.error
        if error is not None:
            error.args += (result,)  # for the handler of the error
            result.error = error
            return result
        result.outputs = {name: Tensor._from_core(tensor) for name, tensor in response.outputs.items()}
        device = request.output_memory_type
        if device is not None:
            try:
                result.outputs = {name: tensor.to_device(device) for name, tensor in result.outputs.items()}
            except TritonError as why:
                raise InvalidArgumentError(f"Memory type {device} not supported: {why.message}") from why
        return result

    @staticmethod
    def _to_queue(request: InferenceRequest, response: CoreResponse) -> InferenceResponse:
        """Do the same as `_from_core`, without exceptions: an error becomes the response's error."""
        try:
            return InferenceResponse._from_core(request, response)
        except InvalidArgumentError as error:
            return InferenceResponse(request.model, response.request_id, error=error, final=response.final)


class ResponseIterator(Iterator[InferenceResponse]):
    """The responses of one request; the final one is last, and may be empty. Made by `Model.infer`."""

    def __init__(
        self,
        model: ModelHandle,
        request: CoreRequest,
        inference_request: InferenceRequest,
        raise_on_error: bool = False,
    ) -> None:
        self._request = request
        self._raise = raise_on_error
        self._done = False
        self._source: Iterator[InferenceResponse]
        users = inference_request.response_queue
        if users is None:
            arriving = CoreIterator(request, False, True, waits_for=model._server.core.explain)
            # not a generator: its frame would hold the last response, and with it the stub's memory
            self._source = map(functools.partial(InferenceResponse._from_core, inference_request), arriving)
            return
        if not isinstance(users, (queue.SimpleQueue, queue.Queue)):
            raise InvalidArgumentError("queue.SimpleQueue must be used for response iterator")
        own: queue.SimpleQueue[InferenceResponse] = queue.SimpleQueue()
        self._source = iter(own.get, None)

        def on_response(core: CoreRequest, response: CoreResponse) -> None:
            made = InferenceResponse._to_queue(inference_request, response)
            own.put(made)
            users.put(made)

        request.on_response = on_response

    def __next__(self) -> InferenceResponse:
        if self._done:
            raise StopIteration
        response = next(self._source)
        self._done = response.final
        if response.error is not None and self._raise:
            raise response.error
        return response

    def cancel(self) -> None:
        """Request the cancellation of the request. The model decides which responses still come."""
        self._request.cancel()


class AsyncResponseIterator(AsyncIterator[InferenceResponse]):
    """ResponseIterator for asyncio. Made by `Model.async_infer`. Any loop may read it; with a `response_queue` it must
    be the loop that was running when it was made, or `loop`.
    """

    def __init__(
        self,
        model: ModelHandle,
        request: CoreRequest,
        inference_request: InferenceRequest,
        raise_on_error: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._request = request
        self._inference_request = inference_request
        self._raise = raise_on_error
        self._done = False
        self._arrived: deque[CoreResponse | InferenceResponse] = deque()
        #: the reader that waits for the next response, and its loop
        self._awaited: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        users = inference_request.response_queue
        if users is None:
            request.on_response = lambda core, response: self._add(response)
            return
        if not isinstance(users, asyncio.Queue):
            raise InvalidArgumentError("asyncio.Queue must be used for async response iterator")
        home = loop or asyncio.get_running_loop()

        def hand_out(response: CoreResponse) -> None:
            made = InferenceResponse._to_queue(inference_request, response)
            users.put_nowait(made)
            self._add(made)

        def on_response(core: CoreRequest, response: CoreResponse) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed, so there is no reader left
                home.call_soon_threadsafe(hand_out, response)

        request.on_response = on_response

    def _add(self, response: CoreResponse | InferenceResponse) -> None:
        self._arrived.append(response)
        awaited = self._awaited  # read after the line above: the reader checks in the opposite order
        if awaited is not None:
            loop, future = awaited
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, future)

    async def __anext__(self) -> InferenceResponse:
        if self._done:
            raise StopAsyncIteration
        while not self._arrived:
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            self._awaited = loop, future
            if self._arrived:
                break
            await future
        self._awaited = None
        arrived = self._arrived.popleft()
        self._done = arrived.final
        response = arrived
        if isinstance(arrived, CoreResponse):
            response = InferenceResponse._from_core(self._inference_request, arrived)
        assert isinstance(response, InferenceResponse)
        if response.error is not None and self._raise:
            raise response.error
        return response

    def cancel(self) -> None:
        """Request the cancellation of the request. The model decides which responses still come."""
        self._request.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
