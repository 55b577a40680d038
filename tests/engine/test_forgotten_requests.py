"""Requests that their model can no longer end, in a real stub (rules 3.2.1, 3.2.2, 3.7.2)."""

from __future__ import annotations

from unittest.mock import ANY

import numpy as np
import pytest

from tests.models import executes
from tests.serving import DECOUPLED, SCRIPTED, SCRIPTED_CONFIG, Lab, Script, eventually
from tritonlab.core.status import CancelledError, InternalError, ModelError

TEXT = (
    "Failed to process the request(s) for model '{}', message: The request and its response sender were dropped "
    "{}without the final flag, so nothing could end the request. Call response_sender.send("
    "flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL) when the last response was sent."
)


@pytest.fixture
def flow(lab: Lab) -> Script:
    return lab.script("flow", SCRIPTED_CONFIG + DECOUPLED)


def outcomes(script: Script, code: str) -> list[object]:
    """Return for each response its `OUT`, or the text of its error."""
    return [
        r.error.message if r.error else r.outputs["OUT"].numpy().tolist()
        for r in script.responses(code)  # an empty final is not among them
    ]


#: what decoupled models do with a request before they forget it, and what its client had got by then
FORGOTTEN = {
    "nothing at all": ("pass", []),
    "a sender, unused": ("request.get_response_sender()", []),
    "a response, no final": ("request.get_response_sender().send(answer(OUT=np.float32([1])))", [[1.0]]),
    "kept and dropped by a thread": (
        "kept = [request]\nthreading.Timer(0.02, kept.clear).start()",
        [],
    ),
    "a thread that fails": (
        "def work(sender):\n"
        "    sender.send(answer(OUT=np.float32([2])))\n"
        "    raise SystemExit\n"
        "threading.Thread(target=work, args=(request.get_response_sender(),)).start()",
        [[2.0]],
    ),
    "the sender outlives the request": (
        "response = answer(OUT=np.float32([3]))\n"
        "threading.Timer(0.02, request.get_response_sender().send, (response,)).start()",
        [[3.0]],
    ),
    "taken out of the list": ("requests.pop()", []),
    "in a cycle": (
        "import gc\n"
        "cycle = [request.get_response_sender()]\n"
        "cycle.append(cycle)\n"
        "threading.Timer(0.02, gc.collect).start()",
        [],
    ),
}


@pytest.mark.parametrize("case", FORGOTTEN)
def test_a_decoupled_request_that_is_forgotten_fails_at_once(flow: Script, case: str) -> None:
    code, before = FORGOTTEN[case]
    *sent, last = outcomes(flow, code)
    assert sent == before
    assert last == TEXT.format("flow_0_0", "after a response, but " if before else "")
    assert flow.instance.inflight == {}


def test_what_the_failing_thread_printed_comes_with_it(flow: Script) -> None:
    code = "threading.Thread(target=lambda sender: [].pop(), args=(request.get_response_sender(),)).start()"
    (response,) = flow.responses(code)
    assert isinstance(response.error, ModelError)
    assert response.error.log[-1] == "IndexError: pop from empty list"


#: decoupled models that end their requests: nothing may be added
ENDED = {
    "no response": ("request.get_response_sender().send(flags=1)", []),
    "one": ("request.get_response_sender().send(answer(OUT=np.float32([1])), 1)", [[1.0]]),
    "two steps": (
        "s = request.get_response_sender(); s.send(answer(OUT=np.float32([1]))); s.send(flags=1)",
        [[1.0]],
    ),
    "after execute returned": (
        "threading.Timer(0.02, request.get_response_sender().send, (answer(OUT=np.float32([1])), 1)).start()",
        [[1.0]],
    ),
    "taken out of the list": ("requests.pop().get_response_sender().send(answer(OUT=np.float32([1])), 1)", [[1.0]]),
    "an exception": ("raise ValueError('x')", [ANY]),
    "a value returned": ("return []", [ANY]),
}


@pytest.mark.parametrize("case", ENDED)
def test_a_decoupled_request_that_ended_gets_nothing_more(flow: Script, case: str) -> None:
    code, expected = ENDED[case]
    assert outcomes(flow, code) == expected
    # what would come later comes before the answer to another request
    assert outcomes(flow, "request.get_response_sender().send(answer(OUT=np.float32([9])), 1)") == [[9.0]]


def test_a_default_mode_sender_without_final_fails_at_once(script: Script) -> None:
    assert outcomes(script, "request.get_response_sender(); return [None]") == [TEXT.format("script_0_0", "")]
    error = script.responses("request.get_response_sender().send(answer(OUT=np.float32([1]))); return [None]")[-1].error
    assert isinstance(error, InternalError)
    assert error.message == TEXT.format("script_0_0", "after a response, but ")


def test_a_default_mode_sender_may_answer_after_execute_returned(script: Script) -> None:
    code = "threading.Timer(0.02, request.get_response_sender().send, (answer(OUT=np.float32([4])), 1)).start()"
    assert outcomes(script, code + "; return [None]") == [[4.0]]


def test_a_sender_that_was_fetched_but_not_needed_is_no_harm(script: Script) -> None:
    assert outcomes(script, "request.get_response_sender(); return [answer(OUT=np.float32([5]))]") == [[5.0]]


@pytest.mark.parametrize(
    "change", ["requests.pop()", "requests.append(request)", "requests[0] = 5", "requests[:] = [None]"]
)
def test_a_changed_list_of_requests_is_refused(script: Script, change: str) -> None:
    """Triton's server crashes, or answers the wrong request."""
    restarts = script.instance.replacement.count
    (text,) = outcomes(script, f"{change}\nreturn [answer(OUT=np.float32([1]))] * len(requests)")
    assert text == (
        "Failed to process the request(s) for model 'script_0_0', message: The execute function changed the list of "
        "its requests. Work on a copy of it."
    )
    assert outcomes(script, "return [answer(OUT=np.float32([1]))]") == [[1.0]]
    assert script.instance.replacement.count == restarts


def test_a_list_that_is_emptied_while_senders_answer(script: Script) -> None:
    code = "while requests: requests.pop().get_response_sender().send(answer(OUT=np.float32([3])), 1)"
    assert outcomes(script, code) == [[3.0]]


def test_one_forgotten_request_of_a_batch_fails_alone(lab: Lab) -> None:
    model = lab.load(
        "halves",
        executes("""\
for request in requests:
    value = request.inputs()[0].as_numpy()
    if value[0, 0] > 0:
        out = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)])
        request.get_response_sender().send(out, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""),
        'backend: "python" max_batch_size: 4 model_transaction_policy { decoupled: true }'
        "dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 5000000 }"
        'input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }'
        "instance_group { kind: KIND_CPU }",
    )
    streams = [model.infer(inputs={"IN": np.full((1, 1), v, np.float32)}, raise_on_error=False) for v in (1, -1, 2, -2)]
    errors = [[r.error.message if r.error else "" for r in stream] for stream in streams]
    assert errors == [[""], [TEXT.format("halves_0_0", "")]] * 2
    lab.server.unload(model)


def test_a_coroutine_that_ends_without_the_final_fails_its_request(lab: Lab) -> None:
    model = lab.load(
        "coroutine",
        """
import asyncio

class TritonPythonModel:
    async def execute(self, requests):
        sender = requests[0].get_response_sender()
        await asyncio.sleep(0.02)
        if requests[0].request_id() == "final":
            sender.send(flags=1)
""",
        'backend: "python" instance_group { kind: KIND_CPU }' + DECOUPLED,
    )
    assert [r.error for r in model.infer(request_id="final", raise_on_error=False)] == []
    (response,) = model.infer(raise_on_error=False)
    assert response.error is not None
    assert response.error.message == TEXT.format("coroutine_0_0", "")
    lab.server.unload(model)


def test_an_older_sender_of_a_rescheduled_request_owes_nothing(lab: Lab) -> None:
    """A model that keeps its requests by sequence drops the former delivery while the next one is in execution."""
    model = lab.load(
        "again",
        """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.kept = {}
        self.rounds = 0

    def execute(self, requests):
        for request in requests:
            self.kept[request.correlation_id()] = (request, request.get_response_sender())
            self.rounds += 1
            if self.rounds < 3:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            else:
                out = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([self.rounds]))])
                request.get_response_sender().send(out, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""",
        'backend: "python" sequence_batching { iterative_sequence: true }'
        'output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } instance_group { kind: KIND_CPU }' + DECOUPLED,
    )
    (response,) = model.infer(raise_on_error=False)
    assert response.error is None
    assert response.outputs["OUT"].numpy() == [3.0]
    lab.server.unload(model)


#: what a coroutine does with its request before it gives up what its client has given up
ENDINGS = {
    "nothing": "",
    "keeps the request": "self.kept['request'] = requests[0]",
    "keeps the exception": "keep = True",
}


@pytest.mark.parametrize("case", ENDINGS)
def test_a_coroutine_that_ends_with_its_cancelled_request_ends_it_at_once(lab: Lab, case: str) -> None:
    """It needs no garbage collection: an unload waited for one, for ever if the model had nothing else to do."""
    source = "import asyncio, gc\n" + SCRIPTED.replace("    def execute", "    async def execute").replace(
        '"def script', '"async def script'
    ).replace("return scope", "return await scope")
    model = lab.load("gives_up", source, SCRIPTED_CONFIG + DECOUPLED)
    waiting = Script(model).infer(
        "gc.disable()\n"
        f"keep = False\n{ENDINGS[case]}\n"
        "while not requests[0].is_cancelled(): await asyncio.sleep(0.001)\n"
        "error = asyncio.CancelledError('given up')\n"
        "if keep: self.kept['error'] = error\n"
        "raise error",
        raise_on_error=False,
    )
    waiting.cancel()
    (response,) = waiting
    assert isinstance(response.error, CancelledError)
    assert response.error.message == "Request cancelled"
    assert eventually(lambda: Script(model).instance.inflight == {})
