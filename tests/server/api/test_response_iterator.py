from __future__ import annotations

import threading
from collections.abc import Callable

from tritonlab.core.infer_request import InferenceRequest
from tritonlab.core.infer_response import InferenceResponse
from tritonlab.server.api.response_iterator import ResponseIterator


class Executor:
    """Leads until `done`, doing what the test says instead of reading a link."""

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
    assert executor.led.wait(5)
    request.respond(InferenceResponse(request_id="r"))
    waiting.join(5)
    assert [response.request_id for response in got] == ["r"]
