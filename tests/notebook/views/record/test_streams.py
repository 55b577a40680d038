from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models import executes
from tests.pictures import read, texts
from tests.record.events import RecorderHooks, make_request
from tests.serving import DECOUPLED, Lab, config, eventually
from tritonlab.core.status import CancelledError
from tritonlab.notebook.views.record.streams import Streams
from tritonlab.record.record_facts import cancel_verdict
from tritonlab.testing import MS

#: Answers until it is cancelled; POLLS false: never looks.
SOURCE = executes(
    """
    for request in requests:
        threading.Thread(target=self.run, args=(request, request.get_response_sender())).start()
    """,
    more="""
    def run(self, request, sender):
        polls = pb_utils.get_input_tensor_by_name(request, "POLLS").as_numpy()[0]
        for i in range(10_000 if polls else 20):
            if polls and sender.is_cancelled():
                break
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("I", np.array([i], np.int32))]))
            time.sleep(0.01)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    """,
    imports="import threading, time",
)


@pytest.fixture
def hooks() -> RecorderHooks:
    hooks = RecorderHooks()
    one, other = make_request(1, at=0, request_id="one"), make_request(2, at=5)
    for request in (one, other):
        hooks.respond(request, at=10, outputs=request.inputs, final=False)
    hooks.respond(one, at=14, outputs=one.inputs, final=False)
    hooks.respond(one, at=20, empty=True)
    hooks.execute(one, start=2, end=21)
    return hooks


def test_the_text_states_the_facts(hooks: RecorderHooks) -> None:
    assert repr(Streams(hooks.recording, "add")).splitlines() == [
        "Streams of add: 1 ended, 1 still open; 3 responses.",
        "  first response  median 10 ms, 95% below 10 ms",
        "  gap             median 4 ms, 95% below 4 ms",
        "  1 ended with an empty final response: a gRPC client sees that end only with "
        "triton_enable_empty_final_response",
        "  request 2: 1 responses, final flag not sent yet",
    ]
    assert repr(Streams(hooks.recording, "other")) == "Streams of other: no stream of responses yet."


def test_the_figure_has_a_mark_for_each_response(hooks: RecorderHooks) -> None:
    svg, legend = read(Streams(hooks.recording, "add").figure())
    assert texts(svg)[:2] == ["one", "request 2"] and texts(svg)[-1].startswith("time of day, ")
    assert (len(list(svg.iter("rect"))), len(list(svg.iter("circle")))) == (3, 1)
    assert legend == [
        "response",
        "final flag without a response",
        "from the request to its end",
        "final flag not sent yet",
    ]
    assert Streams(hooks.recording, "other").figure() == ""


def test_what_came_of_asking_it_to_stop() -> None:
    assert cancel_verdict(0, 0, 0, 0, 9) == ""
    verdict = "Cancelled; is_cancelled() returned True after 2 ms, the sender closed after 5 ms."
    assert cancel_verdict(3, 10 * MS, 12 * MS, 15 * MS, 0) == verdict
    verdict = "Cancelled; never polled: its model does not call is_cancelled(), it still runs after 20 ms."
    assert cancel_verdict(0, 10 * MS, 0, 0, 30 * MS) == verdict
    assert "has not called is_cancelled() since" in cancel_verdict(4, 10 * MS, 0, 0, 30 * MS)


def test_a_request_that_ends_before_its_first_response_has_a_verdict_too() -> None:
    hooks = RecorderHooks()
    request = make_request(4, request_id="four")
    record = hooks.recording.model("add")
    record.cancelling_of(4).asked = 10 * MS
    hooks.respond(request, at=12, error=CancelledError("gone"))
    verdict = "four: Cancelled; never polled: its model does not call is_cancelled(), the sender closed after 2 ms."
    hooks.execute(request, start=1, end=13)
    assert Streams(hooks.recording, "add").cancellations() == [verdict]


def test_an_error_before_the_final_flag_ends_no_stream() -> None:
    hooks = RecorderHooks()
    request = make_request(4, request_id="four")
    record = hooks.recording.model("add")
    hooks.respond(request, at=5, outputs=request.inputs, final=False)
    record.cancelling_of(4).asked = 10 * MS
    hooks.respond(request, at=12, error=CancelledError("gone"), final=False)
    assert list(record.open) == [4]
    hooks.respond(request, at=13, empty=True)
    (ended,) = record.streams.dicts()
    assert (ended["asked"], ended["end"], ended["count"]) == (10 * MS, 13 * MS, 2)


def sent(model: Any, polls: bool, request_id: str) -> Any:
    return model.infer(inputs={"POLLS": np.array([polls])}, request_id=request_id)


def test_a_stream_of_a_model_is_stopped_and_the_time_is_measured(lab: Lab) -> None:
    model = lab.load("streams", SOURCE, config("POLLS BOOL 1", "I INT32 1", DECOUPLED))
    view = model.view("streams")
    polite, rude = sent(model, True, "polite"), sent(model, False, "rude")
    next(polite), next(rude)
    message, _ = view.news()
    requests = {one["id"]: one for one in message["live"]["open"]}
    assert set(requests) == {"polite", "rude"}
    assert requests["polite"]["instance"] == "streams_0_0"
    eventually(lambda: not any(one["executes"] for one in view.live_of(view.record)["open"]))
    assert "final flag not sent yet for" in repr(view)
    for one in requests.values():
        view.on_message({"do": "cancel", "serial": one["serial"]})
    list(polite), list(rude)
    polite_text, rude_text = sorted(view.cancellations())
    assert polite_text.startswith("polite: Cancelled; is_cancelled() returned True after ")
    assert "the sender closed after" in polite_text
    assert rude_text.startswith("rude: Cancelled; never polled: its model does not call is_cancelled(), the sender")
    assert not view.cancel(requests["polite"]["serial"])
    assert view.live_of(view.record) == {"open": []}
    lab.server.unload(model)
