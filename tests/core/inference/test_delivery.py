from __future__ import annotations

import pytest

from tritonlab.core.inference.delivery import deliver, deliver_error
from tritonlab.core.inference.infer_request import InferenceRequest, RequestState
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import CancelledError
from tritonlab.testing import MockClock, RecordingInstrument


def test_a_request_that_fails_ends_with_its_hooks() -> None:
    instruments, events, clock = Instruments(), RecordingInstrument(), MockClock(8)
    on_response = lambda request, response: events.events.append(("answered",))  # noqa: E731
    deliver_error(InferenceRequest("m", {}, on_response=on_response), 3, CancelledError("gone"), instruments, clock)
    instruments.add(events)
    error = CancelledError("gone")
    other = InferenceRequest("m", {}, request_id="r", on_response=on_response)
    deliver_error(other, 3, error, instruments, clock)
    hooks = ["answered", "response_sent", "request_failed", "answered", "request_released"]
    assert [event[0] for event in events.events] == hooks
    ((sent, response, now),) = events.named("response_sent")
    assert (sent, response.model_version, response.request_id, response.final, now) == (other, 3, "r", True, 8)
    assert response.error.message == "gone"
    assert response.error is not error


def test_only_the_final_response_ends_the_request() -> None:
    instruments, events, clock = Instruments(), RecordingInstrument(), MockClock(5)
    instruments.add(events)
    finals: list[bool] = []
    request = InferenceRequest("m", {}, on_response=lambda request, response: finals.append(response.final))
    deliver(request, InferenceResponse(final=False), instruments, clock)
    assert (request.responded, request.state) == (5, RequestState.INITIALIZED)
    deliver(request, InferenceResponse(), instruments, clock)
    assert (finals, request.state) == ([False, True], RequestState.RELEASED)
    each = ["response_sent", "stream_response"]
    assert [event[0] for event in events.events] == [*each, *each, "request_released"]
    assert request.on_response is None  # it would keep what it leads to


def test_a_callback_that_raises_is_logged_and_the_request_ends(caplog: pytest.LogCaptureFixture) -> None:
    instruments, events = Instruments(), RecordingInstrument()
    instruments.add(events)
    request = InferenceRequest("m", {}, on_response=lambda request, response: 1 / 0)  # type: ignore[arg-type, return-value]
    deliver(request, InferenceResponse(), instruments, MockClock())
    assert "the response callback of <InferenceRequest m" in caplog.text
    assert len(events.named("request_released")) == 1


def test_the_only_response_of_a_request_is_no_stream() -> None:
    instruments, events = Instruments(), RecordingInstrument()
    instruments.add(events)
    deliver(InferenceRequest("m", {}), InferenceResponse(), instruments, MockClock())
    assert events.named("stream_response") == events.named("request_failed") == []
    deliver(InferenceRequest("m", {}), InferenceResponse(empty=True), instruments, MockClock())
    assert len(events.named("stream_response")) == 1
