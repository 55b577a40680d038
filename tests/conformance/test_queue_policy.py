"""Priorities, queue policies and preserved ordering of the dynamic batcher, seen by a model that answers with its
batches."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from .clients import Answer, Client, Options, Pending
from .gates import GATE, held, open_gate, started, submit_next
from .models import CPU, config, model
from .rules import rule
from .scripts import eventually

#: Each response says, as JSON: the call's number and the ids of the requests in it. A request named `hold…` keeps the
#: instance until the test lets it go.
NAMING = (
    GATE
    + """
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.directory = args["model_repository"]
        self.calls = 0

    def execute(self, requests):
        self.calls += 1
        names = [request.request_id() for request in requests]
        pass_gate(self.directory, names)
        text = json.dumps([self.calls, names]).encode()
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            out = np.full(array.shape[:1] + (1,) * (array.ndim - 1), text, dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
        return responses
"""
)

TWO = "instance_group { kind: KIND_CPU count: 2 }"
LEVELS = "priority_levels: 3 default_priority_level: 2"


def batching(batcher: str, *more: str, batch: int = 8, instances: str = CPU) -> Any:
    limit = f"max_batch_size: {batch}" if batch else ""
    return model(NAMING, config("IN INT32 1", "OUT STRING 1", limit, f"dynamic_batching {{ {batcher} }}", instances))


def policy(text: str, more: str = "") -> str:
    return f"{more} default_queue_policy {{ {text} }}"


def refusing(milliseconds: int, more: str = "") -> str:
    return f"timeout_action: REJECT default_timeout_microseconds: {milliseconds * 1000} {more}"


def delaying(milliseconds: int, more: str = "") -> str:
    return f"timeout_action: DELAY default_timeout_microseconds: {milliseconds * 1000} {more}"


MODELS = {
    "ranked": batching(LEVELS),
    "ranked_late": batching(f"{LEVELS} preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 500000"),
    "ranked_sizes": batching(
        policy("max_queue_size: 3", f"{LEVELS} preferred_batch_size: [ 1 ]")
        + " priority_queue_policy { key: 1 value { max_queue_size: 1 " + refusing(1000) + " } }"
    ),
    "refusing": batching(policy(refusing(1000, "allow_timeout_override: true"))),
    "firm": batching(policy(refusing(2000))),
    "patient": batching(policy("timeout_action: REJECT allow_timeout_override: true")),
    "impatient": batching(policy("timeout_action: REJECT default_timeout_microseconds: 5")),
    "impatient_levels": batching(
        LEVELS + " priority_queue_policy { key: 1 value { timeout_action: REJECT default_timeout_microseconds: 1 } }"
    ),
    "impatient_unbatched": batching(policy("timeout_action: REJECT default_timeout_microseconds: 5"), batch=0),
    "delaying_at_once": batching(policy("timeout_action: DELAY default_timeout_microseconds: 1")),
    "refusing_late": batching(policy(refusing(200), "max_queue_delay_microseconds: 10000000")),
    "delaying": batching(policy(delaying(150))),
    "delaying_levels": batching(
        policy("", LEVELS) + " priority_queue_policy { key: 1 value { " + delaying(100) + " } }"
    ),
    "ordered": batching("preserve_ordering: true preferred_batch_size: [ 1 ]", batch=1, instances=TWO),
    "unordered": batching("preferred_batch_size: [ 1 ]", batch=1, instances=TWO),
    "ordered_refusing": batching(policy(refusing(150), "preserve_ordering: true"), batch=1, instances=TWO),
    "unbatched": batching(policy(refusing(1000, "max_queue_size: 2")), batch=0),
    "long": batching(policy(refusing(10**13))),
    "endless": batching(policy(f"default_timeout_microseconds: {2**64 - 1} allow_timeout_override: true")),
    "endless_delaying": batching(policy(f"timeout_action: DELAY default_timeout_microseconds: {2**63}")),
    "endless_wait": batching(f"max_queue_delay_microseconds: {2**64 - 1}"),
    "wrapped_wait": batching(f"max_queue_delay_microseconds: {2**63}"),
    "unbatched_patient": batching(policy(refusing(30000)), batch=0),
    "cancelling": batching("max_queue_delay_microseconds: 1000000"),
}  # fmt: skip
EXPIRED = "UNAVAILABLE", "Request timeout expired"


def full(name: str) -> tuple[str, str]:
    return "UNAVAILABLE", f"[request id: {name}] Exceeds maximum queue size"


def _inputs(name: str, batch: int = 1) -> dict[str, Any]:
    return {"IN": np.zeros(1 if "unbatched" in name else (batch, 1), dtype=np.int32)}


def send(client: Client, name: str, ident: str, priority: int = 0, timeout_ms: int = 0, batch: int = 1) -> Pending:
    options = Options(request_id=ident, priority=priority, timeout=timeout_ms * 1000)
    return submit_next(client, name, _inputs(name, batch), options, ident)


@contextmanager
def hold(client: Client, name: str, ident: str = "hold") -> Iterator[Pending]:
    """Keep an instance busy."""
    with held(client, name, _inputs(name), Options(request_id=ident), ident) as pending:
        yield pending


def call_of(answer: Answer) -> list[Any]:
    """Return [call, ids in it] of an answer."""
    assert answer.error == "", answer
    return list(json.loads(answer.outputs["OUT"].reshape(-1)[0]))


def outcome(pending: Pending) -> Any:
    """Return the ids in the call, or (code, text)."""
    answer = pending.answer.result(30)
    return (answer.code, answer.error) if answer.code else call_of(answer)[1]


def rejected(client: Client, name: str) -> int:
    """Return how many requests were counted as refused; Triton counts one after it has answered."""
    line = next(
        line
        for line in client.metrics().splitlines()
        if line.startswith("nv_inference_request_failure{") and f'"{name}"' in line and '"REJECTED"' in line
    )
    return int(float(line.rpartition(" ")[2]))


# -- priorities


@rule("5.5.8")
def test_a_batch_takes_the_highest_levels_first(client: Client) -> None:
    with hold(client, "ranked"):
        levels = {"c": 3, "b": 0, "a": 1, "x": 9, "a2": 1}
        pending = [send(client, "ranked", ident, priority=level) for ident, level in levels.items()]
    assert [outcome(p) for p in pending] == [["a", "a2", "b", "x", "c"]] * 5


@rule("5.5.8", "5.5.4")
def test_the_oldest_request_decides_when_the_delay_is_over(client: Client) -> None:
    sent_at = time.monotonic()
    pending = [send(client, "ranked_late", ident, priority=level) for ident, level in (("c", 3), ("a", 1))]
    assert [outcome(p) for p in pending] == [["a", "c"]] * 2
    assert time.monotonic() - sent_at >= 0.5
    late = send(client, "ranked_late", "low", priority=3, batch=3)
    assert outcome(send(client, "ranked_late", "high", priority=1, batch=2)) == ["high"]
    assert outcome(late) == ["low"]


@rule("5.5.9")
def test_each_level_has_its_own_policy(client: Client) -> None:
    counted = rejected(client, "ranked_sizes")
    with hold(client, "ranked_sizes"):
        high = [send(client, "ranked_sizes", f"a{i}", priority=1) for i in range(3)]
        low = [send(client, "ranked_sizes", f"b{i}") for i in range(5)]
        time.sleep(1.1)  # the time of the first is up
    assert [outcome(p) for p in high] == [EXPIRED, full("a1"), full("a2")]
    assert [outcome(p) for p in low] == [["b0"], ["b1"], ["b2"], full("b3"), full("b4")]
    eventually(lambda: rejected(client, "ranked_sizes") > counted)
    assert rejected(client, "ranked_sizes") == counted + 1  # a full queue refuses without counting


# -- timeouts


@rule("5.5.9")
def test_requests_that_waited_too_long_are_refused(client: Client) -> None:
    counted = rejected(client, "refusing")
    with hold(client, "refusing"):
        late = [
            send(client, "refusing", "default"),
            send(client, "refusing", "shorter", timeout_ms=100),
            send(client, "refusing", "longer", timeout_ms=5000),
        ]
        time.sleep(1.1)
        young = send(client, "refusing", "young")
    assert [outcome(p) for p in late] == [EXPIRED] * 3
    assert outcome(young) == ["young"]
    eventually(lambda: rejected(client, "refusing") == counted + 3)


@rule("5.5.9")
def test_a_requests_own_timeout_counts_only_where_it_may_and_shortens(client: Client) -> None:
    for name in ("firm", "patient"):  # no override; no default to shorten
        with hold(client, name):
            own = send(client, name, "own", timeout_ms=100)
            time.sleep(0.3)
        assert outcome(own) == ["own"]


@rule("5.5.9", "5.5.10")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("impatient", {}),
        ("impatient_unbatched", {}),
        ("impatient_levels", {"priority": 1}),
        ("refusing", {"timeout": 5}),
        ("refusing", {"timeout": 1}),
    ],
)
def test_a_timeout_shorter_than_the_way_to_the_model_is_over_before_it(
    client: Client, name: str, options: dict[str, int]
) -> None:
    def refused(number: int) -> bool:
        answer = client.infer(name, _inputs(name), request_id=str(number), **options)
        return (answer.code, answer.error) == EXPIRED

    counted = rejected(client, name)
    for number in range(5):
        # Triton's batcher may be awake, and take the request within 5 us.
        assert any(refused(number) for _ in range(1 if client.side == "lab" else 5))
    eventually(lambda: rejected(client, name) == counted + 5)


@rule("5.5.9")
def test_a_timeout_that_64_bits_do_not_hold_is_over_at_once(client: Client) -> None:
    answer = client.infer("endless", _inputs("endless"))
    assert (answer.code, answer.error) == EXPIRED
    for name, timeout in (("endless", 30_000_000), ("endless_delaying", 0), ("long", 0)):
        assert call_of(client.infer(name, _inputs(name), request_id="x", timeout=timeout))[1] == ["x"]


@rule("5.5.4")
def test_a_delay_that_64_bits_do_not_hold_is_a_shorter_one(client: Client) -> None:
    assert outcome(send(client, "wrapped_wait", "a")) == ["a"]
    waiting = send(client, "endless_wait", "b", batch=4)
    assert outcome(send(client, "endless_wait", "c", batch=4)) == ["b", "c"]
    assert outcome(waiting) == ["b", "c"]


@rule("5.5.9")
@pytest.mark.parametrize(("name", "options"), [("delaying_at_once", {}), ("firm", {"timeout": 1})])
def test_one_that_only_delays_or_does_not_count_does_not_end_it(
    client: Client, name: str, options: dict[str, int]
) -> None:
    for number in range(5):
        answer = client.infer(name, _inputs(name), request_id=str(number), **options)
        assert call_of(answer)[1] == [str(number)]


@rule("5.5.9", "5.5.10")
def test_while_a_batch_waits_for_its_delay_timeouts_are_kept(client: Client) -> None:
    sent_at = time.monotonic()
    assert outcome(send(client, "refusing_late", "late")) == EXPIRED
    assert 0.2 <= time.monotonic() - sent_at < 9


@rule("5.5.9")
def test_delayed_requests_go_behind_all_others(client: Client) -> None:
    def once() -> list[Any]:
        with hold(client, "delaying"):
            late = [send(client, "delaying", ident) for ident in ("a", "b")]
            time.sleep(0.3)
            young = send(client, "delaying", "c")
        return [outcome(p) for p in (*late, young)]

    # Triton may have put the first two into a batch before their time was up.
    assert any(once() == [["c", "a", "b"]] * 3 for _ in range(1 if client.side == "lab" else 30))


@rule("5.5.8", "5.5.9")
def test_but_stay_before_lower_levels(client: Client) -> None:
    with hold(client, "delaying_levels"):
        pending = [send(client, "delaying_levels", ident, priority=level) for ident, level in (("a", 1), ("b", 2))]
        time.sleep(0.2)
    assert [outcome(p) for p in pending] == [["a", "b"]] * 2


@rule("5.5.12", "5.5.9")
def test_without_a_batch_dimension_policies_hold_too(client: Client) -> None:
    send(client, "unbatched", "warm").answer.result(30)
    with hold(client, "unbatched") as busy:
        pending = []
        for ident in ("a", "b", "c", "d"):
            pending.append(send(client, "unbatched", ident))
            time.sleep(0.02)  # else they may come in another order
        time.sleep(1.1)
    outcomes = [outcome(p) for p in pending]
    assert outcomes[-1] == full("d")
    # Triton may have one that waits in the instance's own queue, where no policy reaches it.
    assert [o for o in outcomes[:3] if o not in (EXPIRED, full("c"), ["a"])] == []
    assert EXPIRED in outcomes
    assert outcome(busy) == ["hold"]


# -- order


@rule("5.5.7")
def test_without_preserved_ordering_the_faster_answer_first(client: Client) -> None:
    with hold(client, "unordered") as slow:
        pending = [send(client, "unordered", ident) for ident in "abc"]
        assert [outcome(p) for p in pending] == [["a"], ["b"], ["c"]]
        assert not slow.answer.done()
    assert outcome(slow) == ["hold"]


@rule("5.5.7")
def test_with_it_answers_wait_for_those_before_them(client: Client) -> None:
    with hold(client, "ordered") as slow:
        pending = [send(client, "ordered", ident) for ident in "abc"]
        eventually(lambda: "c" in started(client, "ordered"))  # by the other instance, after a and b
        assert not any(p.answer.done() for p in pending)
    assert [outcome(p) for p in (slow, *pending)] == [["hold"], ["a"], ["b"], ["c"]]


@rule("5.5.7", "5.5.9")
def test_refusals_do_not_wait_for_their_turn(client: Client) -> None:
    send(client, "ordered_refusing", "warm").answer.result(30)
    with hold(client, "ordered_refusing") as slow:
        with hold(client, "ordered_refusing", "hold-less") as less:
            late = [send(client, "ordered_refusing", f"late{i}") for i in range(3)]
            time.sleep(0.3)
            open_gate(client, "ordered_refusing", "hold-less")
            assert EXPIRED in [outcome(late[0]), outcome(late[-1])]
        assert not slow.answer.done()
    assert [outcome(p) for p in (slow, less)] == [["hold"], ["hold-less"]]


# -- cancellation


@rule("3.10.2")
def test_a_cancelled_request_is_left_out_of_the_batch(client: Client) -> None:
    pending = [send(client, "cancelling", ident) for ident in ("a", "b", "c")]
    pending[1].cancel()
    assert pending[1].answer.result(30).code == "CANCELLED"
    assert [outcome(pending[i]) for i in (0, 2)] == [["a", "c"]] * 2


@rule("3.10.2", "5.5.2")
def test_nor_does_one_that_would_not_have_fitted_close_the_batch(client: Client) -> None:
    with hold(client, "ranked"):
        fits = [send(client, "ranked", "a", batch=3)]
        send(client, "ranked", "b", batch=8).cancel()
        fits.append(send(client, "ranked", "c", batch=3))
    assert [outcome(p) for p in fits] == [["a", "c"]] * 2


@rule("3.10.2", "5.5.12")
def test_without_a_batch_dimension_a_cancelled_request_is_left_out_too(client: Client) -> None:
    with hold(client, "unbatched_patient"):
        first = send(client, "unbatched_patient", "a")
        send(client, "unbatched_patient", "b").cancel()
        last = send(client, "unbatched_patient", "c")
    assert [outcome(p) for p in (first, last)] == [["a"], ["c"]]
    assert "b" not in started(client, "unbatched_patient")
