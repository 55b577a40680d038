"""The dynamic batcher, seen by a model that answers with the batch it was executed in."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tests.models import executes

from .clients import PLAIN, Client, Options
from .gates import GATE, held, open_gate, queued
from .models import CPU, config, model
from .rules import rule
from .scripts import eventually

#: Each response says: the sum of the batch dimensions in its call, how many requests that were, the call's number.
#: A first element of 1 in IN holds the instance until the test lets it go, so that what arrives meanwhile queues up.
REPORTING = GATE + executes(
    """
    self.calls += 1
    arrays = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
    pass_gate(self.directory, ["hold" for array in arrays if array.flat[0] == 1])
    seen = np.array([sum(array.shape[0] for array in arrays), len(requests), self.calls], dtype=np.int32)
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("SEEN", np.tile(seen, (array.shape[0], 1)))])
        for array in arrays
    ]
    """,
    initialize="""
    self.calls = 0
    self.directory = args["model_repository"]
    """,
)


def batching(scheduler: str, inputs: str = "IN INT32 -1", *more: str) -> Any:
    return model(REPORTING, config(inputs, "SEEN INT32 3", "max_batch_size: 8", scheduler, CPU, *more))


MODELS = {
    "none": batching(""),
    "at_once": batching("dynamic_batching { }"),
    "preferred": batching("dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 500000 }"),
    "delayed": batching("dynamic_batching { max_queue_delay_microseconds: 500000 }"),
    "optional": batching(
        "dynamic_batching { max_queue_delay_microseconds: 500000 }", "IN INT32 -1;MORE INT32 1 optional"
    ),
    "ragged": model(
        REPORTING,
        config(
            "", "SEEN INT32 3", 'input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] allow_ragged_batch: true }',
            "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 500000 }", CPU,
        ),
    ),
    "bounded": batching("dynamic_batching { default_queue_policy { max_queue_size: 2 } }"),
    "short_patience": batching(
        "dynamic_batching { default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 100000 } }"
    ),
    "ranked": batching("dynamic_batching { priority_levels: 3 default_priority_level: 2 preferred_batch_size: 1 }"),
    "batcher_of_none": model(
        REPORTING.replace("array.shape[0]", "1"), config("IN INT32 -1", "SEEN INT32 -1", "dynamic_batching { }", CPU)
    ),
}  # fmt: skip


def tensor(batch: int, width: int = 1, hold: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    return {"IN": np.full((batch, width), int(hold), dtype=np.int32)}


def send(client: Client, name: str, *requests: dict[str, np.ndarray[Any, Any]]) -> list[tuple[int, int]]:
    """Send all at once, in this order, and return (sum of the batch, requests in it) of the call each was executed
    in."""
    answers = client.in_order(name, [(inputs, PLAIN) for inputs in requests])
    assert [a.error for a in answers] == [""] * len(answers)
    return [(int(a.outputs["SEEN"][0][0]), int(a.outputs["SEEN"][0][1])) for a in answers]


def queue_up(client: Client, name: str, *requests: tuple[dict[str, np.ndarray[Any, Any]], Options]) -> list[list[int]]:
    """Send all at once, in this order, while the instance is busy, and return what the answers say; the first is
    that of the call that kept it busy."""
    with held(client, name, tensor(1, hold=True)) as first, ThreadPoolExecutor(1) as pool:
        answers = pool.submit(client.in_order, name, requests)
        eventually(lambda: queued(client, name) == len(requests))
        open_gate(client, name, "hold")
        found = [first.answer.result(30), *answers.result(30)]
    assert [answer.error for answer in found] == [""] * len(found)
    return [answer.outputs["SEEN"][0].tolist() for answer in found]


def behind(client: Client, name: str, *requests: dict[str, np.ndarray[Any, Any]]) -> list[tuple[int, int]]:
    """Return (sum of the batch, requests in it) of the call each of the requests was executed in, after one that was
    busy."""
    first, *rest = queue_up(client, name, *[(r, PLAIN) for r in requests])
    assert first[:2] == [1, 1]
    return [(batch, count) for batch, count, _ in rest]


@rule("5.5.1")
def test_without_a_batcher_each_request_is_executed_alone(client: Client) -> None:
    assert send(client, "none", *[tensor(1)] * 5) == [(1, 1)] * 5


@rule("5.5.2", "5.5.3")
def test_without_a_delay_what_queued_up_meanwhile_forms_the_next_batch(client: Client) -> None:
    assert behind(client, "at_once", *[tensor(1)] * 9) == [(8, 8)] * 8 + [(1, 1)]
    assert send(client, "at_once", tensor(1)) == [(1, 1)]


@rule("5.5.2")
def test_the_batch_dimensions_count_and_no_request_is_split(client: Client) -> None:
    assert behind(client, "at_once", tensor(3), tensor(4), tensor(2)) == [(7, 2), (7, 2), (2, 1)]


@rule("5.5.4")
def test_a_preferred_size_fires_at_once_and_the_rest_waits_for_the_delay(client: Client) -> None:
    assert send(client, "preferred", *[tensor(1)] * 3) == [(3, 3)] * 3
    assert send(client, "preferred", *[tensor(1)] * 4) == [(4, 4)] * 4
    # Triton's batch of four may still take a fifth while it waits to be fetched: one of ten times, and more if busy
    expected = [(4, 4)] * 4 + [(2, 2)] * 2
    tries = 1 if client.side == "lab" else 30
    assert any(send(client, "preferred", *[tensor(1)] * 6) == expected for _ in range(tries))
    assert send(client, "preferred", tensor(3), tensor(3)) == [(3, 1)] * 2
    assert send(client, "preferred", tensor(8), tensor(1)) == [(8, 1), (1, 1)]
    assert send(client, "preferred", tensor(5)) == [(5, 1)]


@rule("5.5.4")
def test_without_a_preferred_size_the_maximum_is_the_one(client: Client) -> None:
    assert send(client, "delayed", *[tensor(1)] * 8) == [(8, 8)] * 8
    assert send(client, "delayed", tensor(5), tensor(5)) == [(5, 1)] * 2


@rule("5.5.5")
def test_requests_of_different_shapes_are_not_batched_together(client: Client) -> None:
    assert send(client, "delayed", tensor(1, 2), tensor(1, 2), tensor(1, 3)) == [(2, 2), (2, 2), (1, 1)]


@rule("5.5.5")
def test_ragged_requests_are(client: Client) -> None:
    assert send(client, "ragged", tensor(1, 2), tensor(1, 2), tensor(1, 3)) == [(3, 3)] * 3


@rule("5.5.6")
def test_only_requests_with_the_same_optional_inputs_are_batched(client: Client) -> None:
    more = {**tensor(1), "MORE": np.zeros((1, 1), dtype=np.int32)}
    assert send(client, "optional", tensor(1), tensor(1), more, more) == [(2, 2)] * 4
    assert send(client, "optional", tensor(1), more, tensor(1), more) == [(1, 1)] * 4


@rule("5.5.9")
def test_a_full_queue_refuses_at_once(client: Client) -> None:
    with held(client, "bounded", tensor(1, hold=True)) as first:
        pending = [client.submit("bounded", tensor(1)) for _ in range(6)]
        eventually(lambda: sum(p.answer.done() for p in pending) >= 3)
    answers = [p.answer.result(30) for p in (first, *pending)]
    refused = [a for a in answers if a.error]
    assert {(a.code, a.error) for a in refused} == {
        ("UNAVAILABLE", "[request id: <id_unknown>] Exceeds maximum queue size")
    }
    assert len(refused) >= 3


@rule("5.5.9", "5.5.10")
def test_a_request_that_waited_too_long_is_refused(client: Client) -> None:
    with held(client, "short_patience", tensor(1, hold=True)) as first:
        late = client.submit("short_patience", tensor(1))
        eventually(lambda: queued(client, "short_patience") == 1)
        time.sleep(0.2)
        assert not late.answer.done()  # nobody looks at the queue while the only instance is busy
    answer = late.answer.result(30)
    assert (answer.code, answer.error) == ("UNAVAILABLE", "Request timeout expired")
    assert first.answer.result(30).error == ""


@rule("5.5.8")
def test_higher_priorities_drain_first(client: Client) -> None:
    first, *calls = [call for _, _, call in queue_up(
        client, "ranked", *[(tensor(1), Options(priority=p)) for p in (3, 0, 1, 9, 2, 1)]
    )]  # fmt: skip
    # 0 and 9 mean the default, 2; within a level the order is that of arrival
    assert [call - first for call in calls] == [6, 3, 1, 4, 5, 2]


@rule("5.5.12", "5.3.3")
def test_a_batcher_without_a_batch_dimension_executes_alone(client: Client) -> None:
    pending = [client.submit("batcher_of_none", {"IN": np.zeros(1, dtype=np.int32)}) for _ in range(4)]
    assert [p.answer.result(30).outputs["SEEN"][0][1] for p in pending] == [1] * 4
