"""Sequences through real stubs, where the conformance cases cannot look: death, reload, many clients, what is left."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.models import executes
from tests.serving import DECOUPLED, Lab, alive, config, eventually, in_threads, instances
from tritonlab.core.status import InvalidArgumentError, ModelError
from tritonlab.server.api.model import Model

START, END = 1, 2

#: Adds up IN per sequence. 99 kills the stub, 50 is slow.
SUMMING = executes(
    """
    responses = []
    for request in requests:
        ident = request.correlation_id()
        number = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().flat[0]) if ident else 0
        if number == 99:
            os._exit(1)
        time.sleep(0.3 if number == 50 else 0)
        if request.flags() & 1:
            self.sums[ident] = 0
        self.sums[ident] = self.sums.get(ident, 0) + number
        out = pb_utils.Tensor("OUT", np.full((1, 1), self.sums[ident], np.int32))
        responses.append(pb_utils.InferenceResponse([out]))
    return responses
    """,
    initialize="self.sums = {}",
    imports="import os; import time",
)

#: Counts IN down to 0, one iteration a call; answers with how many there were.
COUNTING = executes(
    """
    responses = []
    for request in requests:
        ident = request.correlation_id()
        if request.flags() & 1:
            self.left[ident] = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().flat[0])
            self.done[ident] = 0
        if ident == 0:
            responses.append(pb_utils.InferenceResponse([]))
            continue
        self.left[ident] -= 1
        self.done[ident] += 1
        if self.left[ident] > 0:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            responses.append(None)
        else:
            out = pb_utils.Tensor("OUT", np.full((1, 1), self.done[ident], np.int32))
            responses.append(pb_utils.InferenceResponse([out]))
    return responses
    """,
    initialize="self.left, self.done = {}, {}",
)

#: Answers what is no null request, from its sender.
IGNORING = executes(
    "for request in requests:\n"
    "    if request.correlation_id():\n"
    '        out = pb_utils.Tensor("OUT", np.full((1, 1), len(requests), np.int32))\n'
    "        request.get_response_sender().send(pb_utils.InferenceResponse([out]), flags=1)"
)


def text(strategy: str, *more: str, batch: int = 4, count: int = 1) -> str:
    batching = f"sequence_batching {{ max_sequence_idle_microseconds: 60000000 {strategy} }}"
    return config("IN INT32 1", "OUT INT32 1", f"max_batch_size: {batch}", batching, *more, count=count)


def number(value: int) -> dict[str, Any]:
    return {"IN": np.full((1, 1), value, np.int32)}


def infer(model: Model, ident: int, value: int, flags: int = 0) -> int:
    (response,) = model.infer(inputs=number(value), correlation_id=ident, flags=flags)
    return int(response.outputs["OUT"].numpy()[0, 0])


STRATEGIES = pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 4 }"])


@STRATEGIES
def test_a_dead_stub_ends_the_sequences_it_knew(lab: Lab, strategy: str) -> None:
    model = lab.load("summing", SUMMING, text(strategy))
    assert [infer(model, 1, 5, START), infer(model, 1, 6)] == [5, 11]
    killer = model.infer(inputs=number(50), correlation_id=1, raise_on_error=False)
    queued = [model.infer(inputs=number(v), correlation_id=1, raise_on_error=False) for v in (99, 7)]
    assert next(killer).error is None
    errors = [next(iterator).error for iterator in queued]
    assert all(isinstance(error, ModelError) for error in errors)
    assert str(errors[0]) == "Stub process 'summing_0_0' is not healthy."
    assert str(errors[1]) == "The sequence's state was lost when a stub process of model 'summing' ended."
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        infer(model, 1, 8)  # an answer without the state would be a wrong one
    assert infer(model, 1, 9, START) == 9
    lab.server.unload(model)


def test_many_clients_keep_their_sums_on_several_instances(lab: Lab) -> None:
    model = lab.load("summing", SUMMING, text("oldest { max_candidate_sequences: 3 }", count=2))

    def client(index: int) -> list[int]:
        last = [START] + [0] * 8 + [END]
        return [infer(model, index + 1, index + step, flags) for step, flags in enumerate(last)]

    sums = in_threads(10, client)  # more than there are slots
    expected = [np.cumsum([index + step for step in range(10)]).tolist() for index in range(10)]
    assert sums == expected
    assert all(not instance.inflight for instance in instances(model))
    lab.server.unload(model)


@STRATEGIES
def test_many_iterative_requests_at_once(lab: Lab, strategy: str) -> None:
    model = lab.load("counting", COUNTING, text(f"{strategy} iterative_sequence: true"))
    assert in_threads(12, lambda index: infer(model, 0, index % 5 + 1)) == [index % 5 + 1 for index in range(12)]
    stats = model.statistics()["model_stats"][0]
    assert stats["inference_stats"]["success"]["count"] == sum(index % 5 + 1 for index in range(12))
    assert stats["inference_stats"]["fail"]["count"] == 0  # Triton counts an end of sequence as cancelled
    assert stats["inference_stats"]["queue"]["ns"] >= 0
    lab.server.unload(model)


def test_null_requests_that_a_decoupled_model_ignores_leave_nothing(lab: Lab) -> None:
    model = lab.load("ignoring", IGNORING, text("direct { }", DECOUPLED))
    for ident in (1, 2, 3):
        infer(model, ident, 0, START)
    assert infer(model, 3, 0) == 3
    (instance,) = instances(model)
    assert instance.inflight == {}
    pid = instance.pid
    lab.server.unload(model)  # and does not wait for them
    assert pid is not None
    eventually(lambda: not alive(pid))


def test_a_reload_finishes_what_the_old_version_iterates(lab: Lab) -> None:
    slow = COUNTING.replace(
        "        responses = []\n", "        import time; time.sleep(0.05)\n        responses = []\n"
    )
    model = lab.load("counting", slow, text("direct { } iterative_sequence: true"))
    pending = model.infer(inputs=number(20))
    lab.load("counting", slow.replace("self.done[ident] += 1", "self.done[ident] += 100"), text("direct { }"))
    assert next(pending).outputs["OUT"].numpy()[0, 0] == 20
    assert infer(lab.server.model("counting"), 5, 1, START | END) == 100
    lab.server.unload("counting")


def test_an_unload_does_not_wait_for_idle_sequences(lab: Lab) -> None:
    model = lab.load("summing", SUMMING, text("direct { }", batch=1))
    assert infer(model, 1, 1, START) == 1
    waiting = model.infer(inputs=number(2), correlation_id=2, flags=START)
    done: list[Sequence[int]] = []
    reader = threading.Thread(target=lambda: done.append([next(waiting).outputs["OUT"].numpy()[0, 0]]))
    reader.start()
    lab.server.unload(model)  # sequence 1 could go on for a minute, but nothing more can come
    reader.join(60)
    assert done == [[2]]


def test_a_cancelled_request_between_iterations_ends(lab: Lab) -> None:
    config_text = text(
        "oldest { max_queue_delay_microseconds: 100000 preferred_batch_size: 4 } iterative_sequence: true"
    )
    model = lab.load("counting", COUNTING, config_text)
    pending = model.infer(inputs=number(1000), raise_on_error=False)
    threading.Timer(0.25, pending.cancel).start()
    error = next(pending).error
    assert error is not None
    assert error.code.name == "CANCELLED"
    lab.server.unload(model)
