from __future__ import annotations

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.engine.schedulers.response_order import ResponseOrder


class Clients:
    """Requests whose responses are noted, in the order in which they reach a client."""

    def __init__(self, *names: str) -> None:
        self.order = ResponseOrder()
        self.responses: list[str] = []
        self.requests = {name: InferenceRequest("m", {}, request_id=name) for name in names}
        for request in self.requests.values():
            request.on_response = lambda request, response: self.responses.append(
                request.request_id + ("." if response.final else "")
            )
            self.order.admit(request)

    def respond(self, name: str, final: bool = True) -> None:
        self.requests[name].respond(InferenceResponse("m", 1, name, final=final))


def test_responses_leave_in_the_order_of_the_requests() -> None:  # rule 5.5.7
    clients = Clients("a", "b", "c")
    clients.respond("c")
    clients.respond("b")
    assert clients.responses == []
    clients.respond("a")
    assert clients.responses == ["a.", "b.", "c."]
    assert len(clients.order) == 0


def test_the_first_of_them_need_not_wait_for_its_last() -> None:
    clients = Clients("a", "b")
    clients.respond("b", final=False)
    clients.respond("a", final=False)
    assert clients.responses == ["a"]
    clients.respond("a")
    assert clients.responses == ["a", "a.", "b"]
    clients.respond("b")
    assert clients.responses == ["a", "a.", "b", "b."]


def test_a_request_that_is_not_executed_answers_at_once_and_holds_nobody_up() -> None:  # measured
    clients = Clients("a", "b", "c", "d")
    clients.respond("b")
    clients.order.leave(clients.requests["c"])
    clients.respond("c")
    assert clients.responses == ["c."]
    clients.order.leave(clients.requests["a"])
    assert clients.responses == ["c.", "b."]
    clients.respond("d")
    assert clients.responses == ["c.", "b.", "d."]


def test_what_a_client_starts_from_its_callback_comes_after() -> None:
    clients = Clients("a", "b")
    noted = clients.requests["a"].on_response
    first = ResponseOrder()
    request = InferenceRequest("m", {}, request_id="x")

    def answer_b(request: InferenceRequest, response: InferenceResponse) -> None:
        clients.responses.append("x")
        clients.respond("b")

    request.on_response = answer_b
    first.admit(request)
    request.respond(InferenceResponse())
    assert clients.responses == ["x"]
    assert noted is not None
    clients.respond("a")
    assert clients.responses == ["x", "a.", "b."]


def test_a_client_that_raises_does_not_keep_the_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    clients = Clients()
    responses: list[str] = []
    requests = [InferenceRequest("m", {}, request_id=name) for name in "ab"]
    requests[0].on_response = lambda request, response: 1 / 0
    requests[1].on_response = lambda request, response: responses.append(request.request_id)
    for request in requests:
        clients.order.admit(request)
    for request in reversed(requests):
        request.respond(InferenceResponse())
    assert responses == ["b"]
    assert "the response callback of" in caplog.text


def test_requests_without_a_client_pass() -> None:
    order = ResponseOrder()
    request = InferenceRequest("m", {})
    order.admit(request)
    request.respond(InferenceResponse())
    assert len(order) == 0
