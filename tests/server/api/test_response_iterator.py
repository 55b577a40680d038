from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError
from tritonlab.server.api.response_iterator import AsyncResponseIterator, ResponseIterator


class Executor:
    """An executor that leads until `done`, and does what the test wants instead of reading a link."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        self._steps = iter(steps)
        self.led = threading.Event()

    def lead(self, done: Callable[[], bool]) -> bool:
        while not done():
            next(self._steps)()
        self.led.set()
        return True


def test_the_caller_leads_until_its_response_is_there() -> None:
    request = InferenceRequest("m", {})
    iterator = ResponseIterator(request, raise_on_error=True)
    request.executor = Executor(lambda: None, lambda: request.respond(InferenceResponse(request_id="r")))
    assert next(iterator).request_id == "r"
    assert list(iterator) == []


def test_a_request_that_went_back_into_a_queue_is_not_led_for() -> None:
    # another thread may end it there, and nothing would come on the link
    request = InferenceRequest("m", {})
    iterator = ResponseIterator(request, raise_on_error=True)

    def reschedule() -> None:
        request.executor = None

    executor = Executor(reschedule)
    request.executor = executor
    got: list[InferenceResponse] = []
    waiting = threading.Thread(target=lambda: got.append(next(iterator)), daemon=True)
    waiting.start()
    assert executor.led.wait(60)
    request.respond(InferenceResponse(request_id="r"))
    waiting.join(60)
    assert [response.request_id for response in got] == ["r"]


def test_to_cancel_the_task_that_waits_cancels_the_request() -> None:
    request = InferenceRequest("m", {})

    async def wait() -> None:
        iterator = AsyncResponseIterator(request, raise_on_error=True)
        task = asyncio.ensure_future(anext(iterator))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(wait())
    assert request.cancelled


def test_repr_shows_what_is_there_to_take() -> None:
    request = InferenceRequest("m", {})
    iterator = ResponseIterator(request, raise_on_error=True)
    assert repr(iterator) == "<ResponseIterator m [waits for the model]>"
    outputs = {"OUT": Tensor.from_numpy(np.array([1, 2], np.int8))}
    first = InferenceResponse("m", 1, "id", outputs, {"k": 1}, final=False)
    assert repr(first) == "<InferenceResponse m/1 id='id' OUT=<Tensor INT8 [2] [1, 2]> parameters={'k': 1}>"
    request.respond(first)
    assert repr(iterator) == f"<ResponseIterator m [1 response to take: {first!r}]>"
    for _ in range(3):
        request.respond(InferenceResponse("m", 1, error=InternalError("bad"), final=False))
    assert repr(iterator).count("<InferenceResponse m/1 error=bad>") == 2
    assert ">, …]>" in repr(iterator) and "[4 responses to take" in repr(iterator)
    request.respond(InferenceResponse("m", 1, empty=True))
    assert repr(InferenceResponse("m", 1, empty=True)) == "<InferenceResponse m/1 empty [final]>"
    next(iterator)
    ended = ResponseIterator(InferenceRequest("m", {}), raise_on_error=True)
    ended.request.respond(InferenceResponse("m", 1))
    assert list(ended) != []
    assert repr(ended) == "<ResponseIterator m [ended]>"
