from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.engine.schedulers.batching import batching, services
from tritonlab.core.inference.infer_request import InferenceRequest, RequestState
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import CancelledError, ModelError, UnavailableError
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.dynamic_batch_scheduler import DynamicBatchScheduler
from tritonlab.testing import MS, FakeInstance, FakeTimer, MockClock, RecordingInstrument, collect

DELAY = 500 * MS


def request(batch: int, request_id: str) -> InferenceRequest:
    made = InferenceRequest("m", {}, request_id=request_id)
    made.batch_size = batch
    return made


class Bench:
    """A scheduler with fake instances, and time that stands still."""

    def __init__(self, config: BatchConfig, instances: int = 1) -> None:
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        self.events = RecordingInstrument()
        instruments = Instruments()
        instruments.add(self.events)
        self.scheduler = DynamicBatchScheduler(
            "m", 1, config, services(self.clock, self.timer, instruments=instruments)
        )
        self.instances = [FakeInstance(f"m_0_{i}") for i in range(instances)]
        for instance in self.instances:
            self.scheduler.instance_ready(instance)
        self.instance = self.instances[0] if self.instances else FakeInstance()
        self.responses: dict[str, list[InferenceResponse]] = {}
        self.requests: dict[str, InferenceRequest] = {}

    def send(self, *names: str, batch: int = 1) -> None:
        for name in names:
            made = request(batch, name)
            self.requests[name] = made
            self.responses[name] = collect(made)
            self.scheduler.enqueue(made)

    def executed(self, instance: FakeInstance | None = None) -> list[list[str]]:
        return [[r.request_id for r in payload.requests] for payload in (instance or self.instance).payloads]

    @property
    def reasons(self) -> list[str]:
        return [event[4] for event in self.events.named("batch_formed")]


def test_an_idle_instance_gets_the_request_on_the_callers_thread() -> None:
    bench = Bench(BatchConfig(0))
    bench.send("a")
    assert bench.executed() == [["a"]]
    assert bench.requests["a"].state is RequestState.EXECUTING


def test_what_arrives_meanwhile_forms_the_next_batch() -> None:  # rule 5.5.3: 1, then 8, then 1 of ten requests
    bench = Bench(batching())
    bench.send(*"abcdefghij")
    sizes = []
    while bench.instance.payloads:
        sizes.append(bench.instance.finish(bench.scheduler).size)
    assert sizes == [1, 8, 1]
    assert all(responses[0].final for responses in bench.responses.values())


def test_the_next_batch_executes_before_the_last_responses_go_out() -> None:
    bench = Bench(BatchConfig(0))
    bench.send("a", "b")
    executed: list[list[list[str]]] = []
    bench.requests["a"].on_response = lambda request, response: executed.append(bench.executed())
    bench.instance.finish(bench.scheduler)
    assert executed == [[["b"]]]


def test_a_delayed_batch_leaves_when_the_time_has_come() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b")
    bench.timer.advance(DELAY // 2)
    bench.send("c")
    bench.timer.advance(DELAY // 2 - 1)
    assert bench.executed() == []
    bench.timer.advance(1)
    assert bench.executed() == [["a", "b", "c"]]
    assert bench.reasons == ["delay"]


def test_a_delayed_batch_leaves_early_when_it_is_full() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b", "c")
    assert bench.executed() == []
    bench.send("d")
    assert bench.executed() == [["a", "b", "c", "d"]]
    bench.timer.advance(2 * DELAY)  # the deadline of a batch that has left does no harm
    assert bench.executed() == [["a", "b", "c", "d"]]


def test_a_delay_that_ends_while_all_are_busy_is_made_up_for() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b", "c", "d", "e")
    bench.timer.advance(2 * DELAY)
    assert bench.executed() == [["a", "b", "c", "d"]]
    bench.instance.finish(bench.scheduler)
    assert bench.executed() == [["e"]]


def test_each_deadline_is_scheduled_once() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b", "c")
    assert bench.timer.deadlines == [DELAY]


def test_several_instances_share_the_queue() -> None:  # rule 5.10.1
    bench = Bench(batching(2), instances=2)
    bench.send("a", "b", "c", "d", "e")
    first, second = bench.instances
    assert bench.executed(first) == [["a"]]
    assert bench.executed(second) == [["b"]]
    second.finish(bench.scheduler)
    assert bench.executed(second) == [["c", "d"]]


@pytest.mark.parametrize("config", [batching(), BatchConfig(8, keeps_cancelled=True)], ids=["dynamic", "default"])
def test_cancelled_requests(config: BatchConfig) -> None:  # rule 3.10.2
    bench = Bench(config)
    bench.send("a", "b", "c")
    bench.requests["b"].cancel()
    bench.instance.finish(bench.scheduler)
    if config.dynamic:
        (response,) = bench.responses["b"]
        assert isinstance(response.error, CancelledError)
        assert response.final
        assert bench.executed() == [["c"]]
        assert bench.requests["b"].state is RequestState.RELEASED
        assert bench.events.named("response_sent") == [(bench.requests["b"], response, bench.clock.now())]
        assert bench.events.named("request_released") == [(bench.requests["b"], bench.clock.now())]
    else:  # a model without a scheduler queue executes it all the same
        assert bench.executed() == [["b"]]
        assert bench.responses["b"] == []


def test_what_was_cancelled_does_not_reach_the_next_stub_of_an_instance() -> None:
    bench = Bench(BatchConfig(8, keeps_cancelled=True))
    bench.send("a", "b", "c")
    bench.requests["b"].cancel()
    bench.scheduler.instance_away(bench.instance)
    (response,) = bench.responses["b"]
    assert isinstance(response.error, CancelledError) and bench.scheduler.waiting() == [bench.requests["c"]]
    bench.scheduler.instance_idle(bench.instance)
    assert bench.executed()[-1] == ["c"]


def test_a_request_that_executes_is_not_cancelled_by_the_scheduler() -> None:
    bench = Bench(batching())
    bench.send("a")
    bench.requests["a"].cancel()
    bench.send("b")
    assert bench.executed() == [["a"]]
    assert bench.responses["a"] == []


def test_after_stop_new_requests_are_refused() -> None:
    bench = Bench(BatchConfig(0))
    bench.scheduler.stop()
    text = "Server is stopping, scheduler for model has stopped accepting new inference requests"
    with pytest.raises(UnavailableError, match=re.escape(text)):
        bench.send("a")
    assert bench.requests["a"].state is RequestState.INITIALIZED  # so it may go to the version that took over


def test_the_last_instance_takes_the_waiting_requests_with_it() -> None:
    bench = Bench(BatchConfig(0), instances=2)
    bench.send("a", "b", "c")
    gone = ModelError("Stub process 'm_0_0' is not healthy.", reason="signal SIGSEGV")
    bench.scheduler.instance_gone(bench.instances[0], gone)
    assert bench.responses["c"] == []  # the other instance will take it
    bench.scheduler.instance_gone(bench.instances[1], gone)
    (response,) = bench.responses["c"]
    assert isinstance(response.error, ModelError)
    assert (response.error.message, response.error.reason) == (gone.message, gone.reason)
    assert response.error is not gone  # each request has its own
    with pytest.raises(ModelError) as raised:
        bench.send("d")
    assert raised.value.message == "Stub process 'm_0_0' is not healthy."
    assert raised.value.reason == "signal SIGSEGV"
    assert raised.value is not gone  # an exception that is raised twice would show the first caller's frames


def test_an_instance_that_is_gone_gets_nothing() -> None:
    bench = Bench(BatchConfig(0), instances=2)
    bench.scheduler.instance_gone(bench.instances[0], ModelError("gone"))
    bench.send("a", "b")
    assert bench.executed(bench.instances[0]) == []
    assert bench.executed(bench.instances[1]) == [["a"]]


def test_hooks_see_the_queue_and_the_batch() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.clock.advance(7)
    bench.send("a", "b", "c", "d")
    assert [(r.request_id, now) for r, now in bench.events.named("request_queued")] == [(n, 7) for n in "abcd"]
    ((model, version, requests, size, reason, now),) = bench.events.named("batch_formed")
    assert (model, version, [r.request_id for r in requests]) == ("m", 1, list("abcd"))
    assert (size, reason, now) == (4, "preferred", 7)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda bench: bench.send("a"), "<DynamicBatchScheduler m/1 [0 queued | 1 busy | delay 100us]>"),
        (lambda bench: bench.send("a", "b", "c"), "<DynamicBatchScheduler m/1 [2 queued | 1 busy | delay 100us]>"),
        (lambda bench: None, "<DynamicBatchScheduler m/1 [0 queued | 0 busy | delay 100us]>"),
    ],
)
def test_repr_tells_the_state(act: Callable[[Bench], None], text: str) -> None:
    bench = Bench(batching(1, delay=100_000))
    act(bench)
    assert repr(bench.scheduler) == text


def test_a_request_that_waits_can_be_taken_out() -> None:
    bench = Bench(BatchConfig())
    bench.send("a", "b", "c")
    waiting = [r.request_id for r in bench.scheduler.waiting()]
    assert waiting == ["b", "c"]
    assert bench.scheduler.withdraw(bench.requests["b"])
    assert not bench.scheduler.withdraw(bench.requests["b"])
    assert not bench.scheduler.withdraw(bench.requests["a"])  # it executes
    assert bench.responses["b"] == []  # the one that took it out answers it
    assert [r.request_id for r in bench.scheduler.waiting()] == ["c"]


def test_an_idle_instance_leaves_at_once() -> None:
    bench = Bench(BatchConfig(0), instances=2)
    left: list[str] = []
    bench.scheduler.instance_leaves(bench.instance, lambda: left.append("left"))
    assert left == ["left"]
    bench.send("a", "b")
    assert (bench.executed(), bench.executed(bench.instances[1])) == ([], [["a"]])


def test_an_instance_that_executes_leaves_after_that() -> None:
    bench = Bench(BatchConfig(0))
    left: list[str] = []
    bench.send("a", "b")
    bench.scheduler.instance_leaves(bench.instance, lambda: left.append("left"))
    assert left == []
    bench.instance.finish(bench.scheduler)
    assert (left, bench.executed()) == (["left"], [])
    bench.scheduler.instance_gone(bench.instance, ModelError("the last one left"))
    assert str(bench.responses["b"][0].error) == "the last one left"


def test_an_instance_that_leaves_and_dies_has_left() -> None:
    bench = Bench(BatchConfig(0), instances=2)
    left: list[str] = []
    bench.send("a")
    bench.scheduler.instance_leaves(bench.instance, lambda: left.append("left"))
    assert not bench.scheduler.instance_away(bench.instance)
    assert left == []  # it may come back
    bench.scheduler.instance_gone(bench.instance, ModelError("gone"))
    assert left == ["left"]
    bench.scheduler.instance_leaves(bench.instance, lambda: left.append("again"))  # nobody would tell of it
    assert left == ["left", "again"]
