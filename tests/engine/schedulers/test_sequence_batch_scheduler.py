from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.schedulers.batching import services
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest, RequestEvent, RequestState
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import CancelledError, InvalidArgumentError, ModelError, UnavailableError
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.sequence_batch_scheduler import SequenceBatchScheduler
from tritonlab.engine.schedulers.sequence_config import SequenceConfig
from tritonlab.engine.schedulers.sequence_inputs import SequenceInputs
from tritonlab.testing import MS, FakeInstance, FakeTimer, MockClock, RecordingInstrument, collect

IDLE = 1000 * MS
DELAY = 100 * MS
START, END = 1, 2
INPUTS = SequenceInputs(
    parse_pbtxt(
        'max_batch_size: 4 sequence_batching { control_input { name: "START" control '
        "{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } }",
        "config.pbtxt",
    ),
    Path("/none"),
)


def direct(slots: int = 4, **more: object) -> SequenceConfig:
    return SequenceConfig(slots=slots, max_idle=IDLE, **more)  # type: ignore[arg-type]


def oldest(slots: int = 4, delay: int = 0, preferred: tuple[int, ...] = (4,), **more: object) -> SequenceConfig:
    batch = BatchConfig(4, True, preferred, delay)
    return SequenceConfig(slots=slots, direct=False, max_idle=IDLE, batch=batch, **more)  # type: ignore[arg-type]


class Bench:
    """A scheduler with fake instances, and time that stands still. A request's name is `<sequence><letter>`."""

    def __init__(self, config: SequenceConfig, instances: int = 1) -> None:
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        self.events = RecordingInstrument()
        self.stats = InferStats()
        self.warnings: list[str] = []
        instruments = Instruments()
        instruments.add(self.events)
        warn = self.warnings.append
        shared = services(self.clock, self.timer, instruments=instruments, stats=self.stats, warn=warn)
        self.scheduler = SequenceBatchScheduler("m", 1, config, INPUTS, shared)
        self.instances = [FakeInstance(f"m_0_{i}") for i in range(instances)]
        for instance in self.instances:
            self.scheduler.instance_ready(instance)
        self.responses: dict[str, list[InferenceResponse]] = {}
        self.requests: dict[str, InferenceRequest] = {}
        self._serials = itertools.count(1)

    def send(self, *names: str, timeout_ms: int = 0, ident: int | None = None) -> None:
        """Send requests: `1a` starts sequence 1, `1z` ends it, `1!` is all of it; other letters are between."""
        for name in names:
            flags = {"a": START, "z": END, "!": START | END}.get(name[1], 0)
            made = InferenceRequest(
                "m",
                {},
                correlation_id=int(name[0]) if ident is None else ident,
                flags=flags,
                request_id=name,
                timeout=timeout_ms * 1000,
            )
            made.serial = next(self._serials)
            self.requests[name] = made
            self.responses[name] = collect(made)
            self.scheduler.enqueue(made)

    def executed(self, instance: int = 0) -> list[list[str]]:
        """Return the calls that run; a dot is a null request."""
        payloads = self.instances[instance].payloads
        return [["." if r.null else r.request_id for r in payload.requests] for payload in payloads]

    def finish(self, instance: int = 0, again: str = "") -> None:
        """End the oldest call; the requests named in `again` are rescheduled."""
        fake = self.instances[instance]
        for request in fake.payloads[0].requests:
            if request.request_id and request.request_id in again:
                request.advance(RequestEvent.RESCHEDULE)
                assert self.scheduler.reschedule(request)
        payload = fake.payloads.pop(0)
        self.scheduler.instance_idle(fake)
        for request in payload.requests:
            if request.state is RequestState.EXECUTING and request.request_id not in again.split():
                request.respond(InferenceResponse(request.model_name, 1, request.request_id))

    def calls(self, instance: int = 0) -> list[list[str]]:
        """Run until nothing is left and return the calls."""
        executed = []
        while self.instances[instance].payloads:
            executed += self.executed(instance)
            self.finish(instance)
        return executed

    def error(self, name: str) -> str:
        (response,) = self.responses[name]
        assert response.final
        assert response.error is not None
        return f"{type(response.error).__name__}: {response.error.message}"


@pytest.fixture(params=[direct, oldest], ids=["direct", "oldest"])
def strategy(request: pytest.FixtureRequest) -> Callable[..., SequenceConfig]:
    found: Callable[..., SequenceConfig] = request.param
    return found


# -- both strategies


def test_an_idle_instance_gets_the_request_on_the_callers_thread(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a")
    assert bench.executed() == [["1a"]]
    assert bench.requests["1a"].inputs["START"].numpy().tolist() == [[1]]  # rule 5.6.5


def test_requests_of_a_sequence_run_one_by_one_in_order(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a", "1b", "1c", "1z")
    assert bench.calls() == [["1a"], ["1b"], ["1c"], ["1z"]]


def test_sequences_share_a_batch(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a", "2a", "3a", "1b")
    assert bench.calls() == [["1a"], ["2a", "3a", "1b"] if not bench.scheduler.config.direct else ["1b", "2a", "3a"]]


def test_a_sequence_stays_with_its_instance(strategy: Callable[..., SequenceConfig]) -> None:  # rule 5.6.2
    bench = Bench(strategy(), instances=2)
    bench.send("1a", "2a")
    assert (bench.executed(0), bench.executed(1)) == ([["1a"]], [["2a"]])
    bench.finish(1)
    bench.send("1b")
    assert bench.executed(1) == []  # idle, but not its own
    bench.finish(0)
    assert bench.executed(0) == [["1b"]]


def test_backlogged_sequences_run_when_others_end(strategy: Callable[..., SequenceConfig]) -> None:  # rule 5.6.3
    bench = Bench(strategy(slots=1))
    bench.send("1a", "2a", "3a", "2z", "1z", "3z")
    assert bench.calls() == [["1a"], ["1z"], ["2a"], ["2z"], ["3a"], ["3z"]]
    assert repr(bench.scheduler).endswith("| 0 of 1 slots | 0 backlogged | 0 queued | 0 busy]>")


def test_a_backlogged_sequence_is_refused_in_time(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(slots=1))
    bench.send("1a")
    bench.send("2a", "2b", timeout_ms=300)
    bench.timer.advance(300 * MS - 1)
    assert bench.responses["2a"] == []
    bench.timer.advance(1)
    for name in ("2a", "2b"):
        assert bench.error(name) == "UnavailableError: timeout of the corresponding sequence has been expired"
    assert bench.stats.failures()["REJECTED"] == 2


def test_an_idle_sequence_makes_room(strategy: Callable[..., SequenceConfig]) -> None:  # rule 5.6.4
    bench = Bench(strategy(slots=1))
    bench.send("1a", "2a")
    bench.finish()
    bench.timer.advance(IDLE - 1)
    assert bench.executed() == []
    bench.timer.advance(1)
    assert bench.executed() == [["2a"]]
    with pytest.raises(InvalidArgumentError, match="sequence 1 to model 'm' must specify the START flag"):
        bench.send("1b")


def test_each_deadline_is_scheduled_once(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    for _ in range(5):
        bench.send("1a")
        bench.finish()
        bench.clock.advance(MS)
    assert len(bench.timer.deadlines) == 1
    bench.timer.advance(10 * IDLE)
    assert bench.timer.deadlines == []


def test_an_early_deadline_leaves_no_trace(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(slots=1))
    bench.send("1a")
    bench.finish()
    bench.send("2a", timeout_ms=10)
    for _ in range(20):
        bench.timer.advance(IDLE // 4)
        bench.send("1a")
        bench.finish()
    assert len(bench.timer.deadlines) == 1


def test_a_conflict_is_a_warning(strategy: Callable[..., SequenceConfig]) -> None:  # rule 5.6.2
    bench = Bench(strategy())
    bench.send("1a", "1a")
    assert bench.warnings == [
        "sequence 1 for model 'm' has a conflict. The previous sequence did not end before this sequence start. "
        "Previous sequence will be terminated early."
    ]
    assert bench.calls() == [["1a"], ["1a"]]


def test_cancelling_a_waiting_request_ends_its_sequence(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a", "1b", "1c", "1d", "2a")
    bench.requests["1c"].cancel()
    assert sorted(name for call in bench.calls() for name in call if name != ".") == ["1a", "1b", "2a"]
    assert bench.error("1c") == bench.error("1d") == "CancelledError: "
    assert bench.stats.failures()["CANCELED"] == 2
    with pytest.raises(InvalidArgumentError):
        bench.send("1e")


def test_a_request_that_executes_is_not_cancelled_by_the_scheduler(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a", "1b")
    bench.requests["1a"].cancel()
    assert bench.calls() == [["1a"], ["1b"]]


def test_a_cancelled_start_is_not_left_out_of_its_sequence(strategy: Callable[..., SequenceConfig]) -> None:
    # with the oldest strategy Triton would go on with 2b
    bench = Bench(strategy())
    bench.send("1a", "2a", "2b", "3!", "4a")
    bench.requests["2a"].cancel()
    bench.requests["3!"].cancel()
    assert [[name for name in call if name != "."] for call in bench.calls()] == [["1a"], ["4a"]]
    assert bench.error("2a") == bench.error("2b") == bench.error("3!") == "CancelledError: "


def test_after_stop_new_requests_are_refused(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.scheduler.stop()
    text = "Server is stopping, scheduler for model has stopped accepting new inference requests"
    with pytest.raises(UnavailableError, match=re.escape(text)):
        bench.send("1a")
    assert bench.requests["1a"].state is RequestState.INITIALIZED


def test_a_stopped_scheduler_lets_go_of_its_instances(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a")
    bench.finish()
    bench.scheduler.stop()
    assert bench.timer.deadlines != []  # the timer knows the scheduler for a while yet
    assert "0 of 0 slots" in repr(bench.scheduler)
    bench.scheduler.instance_idle(bench.instances[0])
    bench.timer.advance(2 * IDLE)
    assert bench.timer.deadlines == []


def test_stop_does_not_wait_for_sequences_that_can_only_wait(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(slots=1))
    bench.send("1a", "2a", "2b")
    bench.finish()
    assert bench.executed() == []  # 1 has not ended, so 2 waits
    execute = bench.instances[0].execute

    def run(payload: object) -> None:
        execute(payload)  # type: ignore[arg-type]
        bench.finish()

    bench.instances[0].execute = run  # type: ignore[method-assign, assignment]
    bench.scheduler.stop()
    assert [len(bench.responses[name]) for name in ("1a", "2a", "2b")] == [1, 1, 1]


def test_a_stub_that_dies_ends_the_sequences_it_knew(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a", "2a", "1b", "3a")
    (instance,) = bench.instances
    assert not bench.scheduler.instance_away(instance)
    assert bench.error("1b") == "ModelError: The sequence's state was lost when a stub process of model 'm' ended."
    instance.payloads.clear()
    bench.scheduler.instance_idle(instance)
    assert bench.executed() == [["2a", "3a"] if not bench.scheduler.config.direct else [".", "2a", "3a"]]
    with pytest.raises(InvalidArgumentError):
        bench.send("1c")


def test_the_last_instance_takes_the_waiting_requests_with_it(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(slots=1))
    bench.send("1a", "1b", "2a")
    bench.scheduler.instance_gone(bench.instances[0], ModelError("Stub process 'm_0_0' is not healthy."))
    assert bench.error("1b") == bench.error("2a") == "ModelError: Stub process 'm_0_0' is not healthy."
    with pytest.raises(ModelError, match="is not healthy"):
        bench.send("3a")


def test_hooks_see_the_queue_and_the_batch_without_null_requests() -> None:
    bench = Bench(direct())
    bench.send("1a", "2a")
    bench.finish()
    assert [r.request_id for r, _ in bench.events.named("request_queued")] == ["1a", "2a"]
    formed = [([r.request_id for r in e[2]], e[3], e[4]) for e in bench.events.named("batch_formed")]
    assert formed == [(["1a"], 1, "no delay"), (["2a"], 2, "no delay")]


# -- direct


def test_idle_slots_below_are_filled_with_null_requests() -> None:  # rule 5.6.7
    bench = Bench(direct())
    bench.send("1a", "2a", "3a", "3b")
    assert bench.calls() == [["1a"], [".", "2a", "3a"], [".", ".", "3b"]]


def test_null_requests_that_the_model_cannot_tell_are_warned_of_once() -> None:
    bench = Bench(direct())
    bench.send("1a")
    bench.calls()
    assert bench.warnings == []  # no slot was empty
    bench.send("2a", "1b", "2b", "2c")
    bench.calls()
    (warning,) = bench.warnings
    assert (
        warning.startswith("Triton fills empty slots: the model gets requests that no client sent")
        and "SEQUENCE_READY" in warning
    )


def test_null_requests_that_a_control_tells_are_not_warned_of() -> None:
    text = (
        "max_batch_size: 4 sequence_batching { control_input [ { name: 'READY' control [ "
        "{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] } ] }"
    )
    assert SequenceInputs(parse_pbtxt(text, "config.pbtxt"), Path("/")).tells_null_requests
    assert not INPUTS.tells_null_requests


def test_null_requests_are_counted_in_the_payload() -> None:
    bench = Bench(direct())
    bench.send("1a", "2a", "3a")
    bench.finish()
    (payload,) = bench.instances[0].payloads
    assert (payload.size, payload.nulls) == (3, 1)


def test_a_batch_waits_for_enough_slots_or_for_the_delay() -> None:  # rule 5.6.7
    bench = Bench(direct(minimum_ready=3.0, delay=DELAY))
    bench.send("1a", "2a")
    assert bench.executed() == []
    bench.send("3a")
    assert bench.executed() == [["1a", "2a", "3a"]]
    bench.finish()
    bench.send("2b")
    bench.timer.advance(DELAY)
    assert bench.executed() == [[".", "2b"]]


# -- oldest


def test_candidates_go_by_the_rules_of_the_dynamic_batcher() -> None:  # rule 5.6.8
    bench = Bench(oldest(delay=DELAY, preferred=(2,)))
    bench.send("1a")
    assert bench.executed() == []
    bench.send("2a")
    assert bench.executed() == [["1a", "2a"]]
    bench.send("1b")
    bench.finish()
    assert bench.executed() == []
    bench.timer.advance(DELAY)
    assert bench.executed() == [["1b"]]


def test_the_delay_counts_from_when_the_request_became_a_candidate() -> None:  # measured
    bench = Bench(oldest(delay=DELAY, preferred=(2,)))
    bench.send("1a", "1b", "2a")
    bench.timer.advance(DELAY // 2)
    assert bench.executed() == [["1a", "2a"]]
    bench.finish()
    bench.timer.advance(DELAY - 1)
    assert bench.executed() == []
    bench.timer.advance(1)
    assert bench.executed() == [["1b"]]


def test_the_oldest_candidates_go_first() -> None:
    bench = Bench(oldest(slots=8))
    bench.send("1a", "2a", "3a", "4a", "5a", "6a", "1b")
    assert bench.calls() == [["1a"], ["2a", "3a", "4a", "5a"], ["6a", "1b"]]


def test_with_preserved_ordering_candidates_answer_in_their_order() -> None:
    # it shows with decoupled models only: others answer all of a call at once
    bench = Bench(oldest(preserve_ordering=True))
    bench.send("1a", "2a", "3a")
    first, second = (bench.instances[0].payloads[0].requests[0], bench.requests["2a"])
    bench.instances[0].payloads.pop(0)
    bench.scheduler.instance_idle(bench.instances[0])
    second.respond(InferenceResponse("m", 1, "2a"))
    assert bench.responses["2a"] == []
    first.respond(InferenceResponse("m", 1, "1a"))
    assert [len(bench.responses[name]) for name in ("1a", "2a", "3a")] == [1, 1, 0]


def test_an_iterative_request_has_one_turn() -> None:
    bench = Bench(oldest(preserve_ordering=True, iterative=True))
    bench.send("1x", ident=0)
    bench.finish(again="1x")
    bench.finish()
    assert len(bench.responses["1x"]) == 1


# -- iterative


def test_a_rescheduled_request_joins_the_next_batch(strategy: Callable[..., SequenceConfig]) -> None:  # rule 3.9.3
    bench = Bench(strategy(iterative=True))
    bench.send("1x", ident=0)
    bench.send("2x", ident=0)
    bench.finish(again="1x")
    names = ["1x", "2x"] if bench.scheduler.config.direct else ["2x", "1x"]
    assert bench.executed() == [names]
    request = bench.requests["1x"]
    assert (request.correlation_id, request.flags) == (1, 0)  # rule 3.9.2
    assert request.inputs["START"].numpy().tolist() == [[0]]
    bench.finish(again="2x")
    assert bench.executed() == [["2x"] if not bench.scheduler.config.direct else [".", "2x"]]
    bench.finish()
    assert [len(bench.responses[name]) for name in ("1x", "2x")] == [1, 1]
    assert "0 of 4 slots" in repr(bench.scheduler)


def test_a_rescheduled_request_is_in_the_queue_again(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(iterative=True))
    bench.send("1x", ident=0)
    bench.clock.advance(5)
    bench.finish(again="1x")
    assert bench.requests["1x"].queue_start == 5
    assert [now for _, now in bench.events.named("request_queued")] == [0, 5]


def test_a_new_request_waits_until_an_iterative_sequence_is_over(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(slots=1, iterative=True))
    bench.send("1x", ident=0)
    bench.send("2x", ident=0)
    bench.finish(again="1x")
    assert bench.executed() == [["1x"]]
    bench.finish()
    assert bench.executed() == [["2x"]]


def test_what_has_ended_meanwhile_cannot_come_back(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(iterative=True))
    bench.send("1!")
    request = bench.requests["1!"]
    request.advance(RequestEvent.RESCHEDULE)
    with pytest.raises(InvalidArgumentError, match="sequence 1 to model 'm' must specify the START flag"):
        bench.scheduler.reschedule(request)


def test_models_that_are_not_iterative_take_nothing_back(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy())
    bench.send("1a")
    assert not bench.scheduler.reschedule(bench.requests["1a"])  # rule 3.9.5


def test_stop_waits_for_iterations_to_come(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(iterative=True))
    bench.send("1x", ident=0)
    rounds = iter(["1x", "1x", ""])
    execute = bench.instances[0].execute

    def run(payload: object) -> None:
        execute(payload)  # type: ignore[arg-type]
        bench.finish(again=next(rounds))

    bench.instances[0].execute = run  # type: ignore[method-assign, assignment]
    bench.finish(again=next(rounds))
    bench.scheduler.stop()
    assert len(bench.responses["1x"]) == 1


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (direct(2), "<SequenceBatchScheduler m/1 [direct | 2 of 2 slots | 1 backlogged | 2 queued | 1 busy]>"),
        (oldest(2), "<SequenceBatchScheduler m/1 [oldest | 2 of 2 slots | 1 backlogged | 2 queued | 1 busy]>"),
    ],
)
def test_repr_tells_the_state(config: SequenceConfig, text: str) -> None:
    bench = Bench(config)
    bench.send("1a", "2a", "3a")
    assert repr(bench.scheduler) == text
    assert bench.scheduler.pending == 2


def test_cancelled_and_unavailable_are_the_errors_that_count() -> None:
    # a lost stub is counted where the execution failed
    bench = Bench(direct())
    bench.send("1a", "1b")
    bench.scheduler.instance_away(bench.instances[0])
    assert isinstance(bench.responses["1b"][0].error, ModelError)
    assert not isinstance(bench.responses["1b"][0].error, CancelledError)
    assert sum(bench.stats.failures().values()) == 0


def test_waiting_requests_are_listed_and_stay(strategy: Callable[..., SequenceConfig]) -> None:
    bench = Bench(strategy(slots=1))
    bench.send("1a", "1b", "2a")
    assert sorted(r.request_id for r in bench.scheduler.waiting()) == ["1b", "2a"]
    assert not bench.scheduler.withdraw(bench.requests["1b"])
    assert bench.scheduler.pending == 2
