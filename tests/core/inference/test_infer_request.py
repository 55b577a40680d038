from __future__ import annotations

import inspect
from typing import Any

import pytest

from tritonlab.core.inference.infer_request import (
    SETTINGS,
    TRANSITIONS,
    InferenceRequest,
    RequestEvent,
    RequestSpec,
    RequestState,
)
from tritonlab.core.inference.infer_response import InferenceResponse


def request(**more: object) -> InferenceRequest:
    return InferenceRequest("m", {}, **more)  # type: ignore[arg-type]


def test_what_a_sender_states_is_what_a_request_is_made_of() -> None:
    assert sorted(RequestSpec.__slots__) == sorted(inspect.signature(InferenceRequest).parameters)
    assert set(RequestSpec.__annotations__) == set(RequestSpec.__slots__)
    assert not set(RequestSpec.__slots__) & set(InferenceRequest.__slots__)
    assert set(RequestSpec.to_dict(request())) == set(RequestSpec.__slots__) - {"on_response"}


@pytest.mark.parametrize("state", list(RequestState))
@pytest.mark.parametrize("event", list(RequestEvent))
def test_only_the_table_moves_a_request(state: RequestState, event: RequestEvent) -> None:
    moved = request()
    moved.state = state
    if (state, event) in TRANSITIONS:
        moved.advance(event)
        assert moved.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError):
            moved.advance(event)
        assert moved.state is state


def test_released_is_the_end_and_reached_from_everywhere() -> None:
    """A request may be refused before it was queued, dropped from the queue, or answered."""
    assert not [event for state, event in TRANSITIONS if state is RequestState.RELEASED]
    released = {state for (state, event) in TRANSITIONS if event is RequestEvent.RELEASE}
    assert released == set(RequestState) - {RequestState.RELEASED}


def test_a_rescheduled_request_waits_again() -> None:
    """Rule 3.9.1."""
    moved = request()
    for event in (RequestEvent.ENQUEUE, RequestEvent.EXECUTE, RequestEvent.RESCHEDULE, RequestEvent.EXECUTE):
        moved.advance(event)
    assert moved.state is RequestState.EXECUTING


def test_only_the_final_response_releases() -> None:
    got: list[tuple[InferenceResponse, RequestState]] = []
    answered = request(on_response=lambda request, response: got.append((response, request.state)))
    answered.advance(RequestEvent.EXECUTE)
    first, last = InferenceResponse(final=False), InferenceResponse()
    answered.respond(first)
    answered.respond(last)
    assert got == [(first, RequestState.EXECUTING), (last, RequestState.RELEASED)]
    with pytest.raises(KeyError):
        answered.respond(InferenceResponse())


def test_nobody_has_to_listen() -> None:
    silent = request()
    silent.respond(InferenceResponse())
    assert silent.state is RequestState.RELEASED


def test_prefix() -> None:
    """Rule 5.4.1."""
    assert request().prefix == "[request id: <id_unknown>] "
    assert request(request_id="a b").prefix == "[request id: a b] "


def test_cancel_is_a_wish() -> None:
    wished = request()
    wished.cancel()
    assert wished.cancelled
    assert wished.state is RequestState.INITIALIZED


def test_repr_shows_the_state() -> None:
    numbered = request(request_id="7")
    numbered.batch_size = 4
    assert repr(numbered) == "<InferenceRequest m id='7' [initialized | batch 4]>"


def test_callbacks_that_are_pushed_hand_on_to_those_below() -> None:
    callbacks: list[str] = []
    request = InferenceRequest("m", {}, on_response=lambda request, response: callbacks.append("client"))
    client = request.on_response

    def push(name: str) -> None:
        below = request.push(lambda request, response: (callbacks.append(name), below and below(request, response)))  # type: ignore[arg-type, return-value, func-returns-value]

    push("cache")
    push("order")
    request.respond(InferenceResponse(final=False))
    assert callbacks == ["order", "cache", "client"]
    request.pop()
    request.respond(InferenceResponse(final=False))
    assert callbacks[3:] == ["cache", "client"]
    request.pop()
    assert request.on_response is client
    push("cache")
    request.respond(InferenceResponse())
    assert callbacks[5:] == ["cache", "client"]
    assert (request.on_response, request._callbacks_below) == (None, None)


def test_settings_make_the_same_request_to_another_model() -> None:
    fields: dict[str, Any] = {"request_id": "a", "correlation_id": 7, "flags": 1, "priority": 2, "timeout": 9}
    request = InferenceRequest("one", {}, **fields, parameters={"p": 1}, requested_outputs=["y"])
    assert InferenceRequest("other", {}, **request.settings()).settings() == request.settings()
    assert request.settings() == {**fields, "parameters": {"p": 1}, "requested_outputs": ["y"]}
    besides = {"model_name", "model_version", "inputs", "on_response"}
    assert {*SETTINGS} == {*RequestSpec.__slots__} - besides
