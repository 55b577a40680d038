from __future__ import annotations

import itertools
from collections import Counter
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.schedulers.batching import services
from tests.machines import NUMBERS, choose
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import InvalidArgumentError, ModelError
from tritonlab.engine.execution.rate_limiter import GLOBAL, RateLimiter, make_rate_limiter
from tritonlab.engine.life.instance_plan import InstanceEvents
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.dynamic_batch_scheduler import DynamicBatchScheduler
from tritonlab.engine.schedulers.scheduler import Scheduler
from tritonlab.engine.schedulers.sequence_batch_scheduler import SequenceBatchScheduler
from tritonlab.engine.schedulers.sequence_config import SequenceConfig
from tritonlab.engine.schedulers.sequence_inputs import SequenceInputs
from tritonlab.testing import MS, FakeInstance, FakeTimer, MockClock

DYNAMIC = BatchConfig(max_batch_size=4, dynamic=True, preferred=(4,))


def asking(resources: str = "", priority: int = 0) -> object:
    """Return the rate_limiter of an instance group: `R 2; G 1 global`."""
    texts = []
    for resource in filter(None, (r.strip() for r in resources.split(";"))):
        name, count, *rest = resource.split()
        texts.append(f'resources {{ name: "{name}" count: {count} {"global: true" if rest else ""} }}')
    text = f"instance_group {{ rate_limiter {{ {' '.join(texts)} priority: {priority} }} }}"
    return parse_pbtxt(text, "config.pbtxt").instance_group[0].rate_limiter


class Bench:
    """Models of one or more instances behind one limiter. Tests choose the ids of requests."""

    def __init__(self, **limits: int | dict[int, int]) -> None:
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        self.limiter = RateLimiter(limits)
        self.schedulers: dict[str, Scheduler] = {}
        self.instances: dict[str, FakeInstance] = {}
        self.events: dict[str, InstanceEvents] = {}

    def model(self, name: str, *groups: object, batch: BatchConfig = DYNAMIC) -> None:
        """Start instances `name0`, `name1`, … on device 0, one per group."""
        shared = services(self.clock, self.timer, limiter=self.limiter)
        scheduler = DynamicBatchScheduler(name, 1, batch, shared)
        self._start(name, scheduler, groups)

    def sequences(self, name: str, *groups: object, direct: bool) -> None:
        config = SequenceConfig(slots=4, direct=direct, batch=DYNAMIC)
        inputs = SequenceInputs(parse_pbtxt("max_batch_size: 4", "config.pbtxt"), None)  # type: ignore[arg-type]
        shared = services(self.clock, self.timer, limiter=self.limiter)
        scheduler = SequenceBatchScheduler(name, 1, config, inputs, shared)
        self._start(name, scheduler, groups)

    def _start(self, name: str, scheduler: Scheduler, groups: tuple[object, ...]) -> None:
        self.schedulers[name] = scheduler
        self.events[name] = self.limiter.events(
            InstanceEvents(
                idle=scheduler.instance_idle,  # type: ignore[arg-type]
                away=scheduler.instance_away,  # type: ignore[arg-type]
                gone=lambda instance: scheduler.instance_gone(instance, ModelError("gone")),  # type: ignore[arg-type]
                ready=scheduler.instance_ready,  # type: ignore[arg-type]
                reschedule=scheduler.reschedule,
            )
        )
        for number, group in enumerate(groups):
            instance = self.instances[f"{name}{number}"] = FakeInstance(f"{name}{number}")
            self.limiter.register(instance, group, 0)
            scheduler.instance_ready(instance)

    def send(self, name: str, *idents: str, sequence: int = 0) -> None:
        for ident in idents:
            made = InferenceRequest(name, {}, request_id=ident, correlation_id=sequence, flags=1 if sequence else 0)
            made.serial = len(idents) + hash(ident)
            self.schedulers[name].enqueue(made)

    def finish(self, name: str) -> None:
        """End the call that runs on the instance."""
        self.instances[name].payloads.pop(0)
        self.events[name[:-1]].idle(self.instances[name])  # type: ignore[arg-type]

    def running(self) -> dict[str, list[str]]:
        """Return the requests in execution by instance."""
        return {
            name: [request.request_id for request in instance.payloads[0].requests]
            for name, instance in self.instances.items()
            if instance.payloads
        }


def test_off_is_no_limiter_at_all() -> None:
    assert make_rate_limiter("off", {"R": 1}) is None
    assert isinstance(make_rate_limiter("execution_count", None), RateLimiter)
    with pytest.raises(InvalidArgumentError, match="unknown rate limit mode 'count'"):
        make_rate_limiter("count", None)


# -- resources


def test_a_resource_of_a_device_is_not_that_of_another() -> None:
    limiter = RateLimiter({})
    first, second, shared = object(), object(), object()
    limiter.register(first, asking("R 1; G 1 global"), 0)
    limiter.register(second, asking("R 1"), 1)
    limiter.register(shared, asking("G 1 global"), 1)
    assert limiter.admit(first, print)
    assert limiter.admit(second, print)
    assert not limiter.admit(shared, print)
    assert repr(limiter) == "<RateLimiter [G 1/1, R@0 1/1, R@1 1/1 | 1 waiting]>"


@pytest.mark.parametrize(
    ("limits", "group", "text"),
    [
        ({"R": 2}, "R 3", 'Resource count for "R" is limited to 2 '),
        ({"R": 2}, "R 3 global", 'Resource count for "R" is limited to 2 '),
        ({"R": {0: 2, 1: 9}}, "R 3", 'Resource count for "R" is limited to 2 '),
        ({"R": {1: 9}}, "R 3", 'Resource count for "R" is limited to 0 '),
        ({"R": 2}, "r 3", 'Resource count for "r" is limited to 0 '),  # what has no limit is not there: measured
        ({}, "R 3; R 3 global", 'Resource "R" is present as both global and device-specific resource in the model '),
    ],
)
def test_an_instance_that_could_never_execute_is_refused(limits: dict[str, int], group: str, text: str) -> None:
    limiter = RateLimiter(limits)
    with pytest.raises(InvalidArgumentError) as refused:
        limiter.register(object(), asking(group), 0)
    assert refused.value.message.startswith(text)
    if "limited" in text:
        assert refused.value.message.endswith(
            "which will prevent scheduling of one or more model instances, the minimum required count is 3"
        )
    limiter.register(object(), asking("R 0"), 0)  # the refused one left nothing behind


def test_a_name_is_of_all_devices_or_of_each() -> None:
    limiter = RateLimiter({})
    limiter.register(object(), asking("R 1"), 0)
    with pytest.raises(InvalidArgumentError, match="both global and device-specific"):
        limiter.register(object(), asking("R 1 global"), 0)


class RateLimiterMachine(RuleBasedStateMachine):
    """A limiter beside a model of it. An instance has all its resources or none; the first of those that wait, by its
    executions times its priority, goes before all others, whatever would fit; without limits there is as much of each
    resource as one instance needs at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()
        self.groups: dict[int, tuple[dict[tuple[str, int], int], int]] = {}  # needs and priority of each instance
        self.executions: Counter[int] = Counter()
        self.waiting: list[int] = []
        self.running: set[int] = set()
        self.idle_by_now: set[int] = set()  # those that wait and have nothing to execute any more
        self.turns: list[int] = []  # those that the limiter has called

    @initialize(limits=st.sampled_from([{}, {"R": 2, "G": 3}, {"R": {0: 3, GLOBAL: 1}, "G": 2}]))
    def begin(self, limits: dict[str, int | dict[int, int]]) -> None:
        self.limits, self.limiter = limits, RateLimiter(limits)

    def amount(self, resource: tuple[str, int]) -> int:
        if not self.limits:
            return max(needs.get(resource, 0) for needs, _ in self.groups.values())
        limit = self.limits[resource[0]]
        return limit if isinstance(limit, int) else limit.get(resource[1], limit[GLOBAL])

    def missing(self, one: int) -> set[tuple[str, int]]:
        used = {r: sum(self.groups[other][0].get(r, 0) for other in self.running) for r in self.groups[one][0]}
        return {r for r, count in self.groups[one][0].items() if used[r] + count > self.amount(r)}

    def first(self, waiting: list[int]) -> int:
        return min(waiting, key=lambda one: (self.executions[one] + 1) * self.groups[one][1])

    def run(self, one: int) -> None:
        self.running.add(one)
        self.executions[one] += 1

    def request_turn(self, one: int) -> None:
        others = [other for other in self.waiting if other != one]
        goes = self.first([*others, one]) == one and not self.missing(one)
        assert self.limiter.admit(one, partial(self.retry, one)) is goes
        self.idle_by_now.discard(one)
        if goes:
            self.waiting = others
            self.run(one)
        elif one not in self.waiting:
            self.waiting.append(one)

    def retry(self, one: int) -> None:
        self.turns.append(one)
        if one not in self.idle_by_now:
            assert self.limiter.admit(one, partial(self.retry, one))

    def expect_turns(self) -> None:
        """Compare the turns that were given with those that there are resources for."""
        expected = []
        while self.waiting and not self.missing(one := self.first(self.waiting)):
            expected.append(one)
            self.waiting.remove(one)
            if one not in self.idle_by_now:
                self.run(one)
            self.idle_by_now.discard(one)
        assert self.turns == expected
        self.turns.clear()

    @rule(r=st.integers(0, 3), g=st.integers(0, 3), device=st.integers(0, 1), priority=st.integers(0, 3))
    def register(self, r: int, g: int, device: int, priority: int) -> None:
        one, needs = next(self.numbers), {("R", device): r, ("G", GLOBAL): g}
        group = asking("; ".join([f"R {r}"] * bool(r) + [f"G {g} global"] * bool(g)), priority)
        needs = {resource: count for resource, count in needs.items() if count}
        if self.limits and any(count > self.amount(resource) for resource, count in needs.items()):
            with pytest.raises(InvalidArgumentError, match="which will prevent scheduling"):
                self.limiter.register(one, group, device)
        else:
            self.limiter.register(one, group, device)
            self.groups[one] = (needs, max(priority, 1))

    @precondition(lambda self: self.groups.keys() - self.running)
    @rule(number=NUMBERS)
    def execute(self, number: int) -> None:
        self.request_turn(choose(number, self.groups.keys() - self.running))

    @precondition(lambda self: self.running)
    @rule(number=NUMBERS, more=st.booleans())
    def finish(self, number: int, more: bool) -> None:
        one = choose(number, self.running)
        self.limiter.release(one)
        self.running.remove(one)
        if more:
            self.request_turn(one)
        self.limiter.serve()
        self.expect_turns()

    @precondition(lambda self: self.waiting)
    @rule(number=NUMBERS)
    def withdraw(self, number: int) -> None:
        self.idle_by_now.add(choose(number, self.waiting))

    @precondition(lambda self: self.groups)
    @rule(number=NUMBERS)
    def unregister(self, number: int) -> None:
        one = choose(number, self.groups)
        self.waiting = [other for other in self.waiting if other != one]
        del self.groups[one]
        self.running.discard(one)
        self.idle_by_now.discard(one)
        self.limiter.unregister(one)
        self.expect_turns()

    @invariant()
    def each_says_what_it_waits_for(self) -> None:
        for one in self.groups:
            wait = self.limiter.wait_of(one)
            assert (wait is not None) == (one in self.waiting)
            if wait is not None:
                missing = self.missing(self.first(self.waiting))
                holders = {other for other in self.running if missing & self.groups[other][0].keys()}
                assert (wait.first, wait.resources) == (self.first(self.waiting), sorted({name for name, _ in missing}))
                assert set(wait.holders) == holders


TestRateLimiterMachine = RateLimiterMachine.TestCase
TestRateLimiterMachine.settings = settings(max_examples=60)


# -- turns


def test_what_waits_is_batched_when_its_turn_comes() -> None:  # measured on 2.51
    bench = Bench()
    bench.model("busy", asking("R 1"))
    bench.model("m", asking("R 1"))
    bench.send("busy", "hold")
    bench.send("m", "1", "2", "3", "4", "5")
    bench.finish("busy0")
    assert bench.running() == {"m0": ["1", "2", "3", "4"]}
    bench.finish("m0")
    assert bench.running() == {"m0": ["5"]}


def test_a_batch_that_waits_for_its_delay_holds_nothing() -> None:
    bench = Bench()
    bench.model("slow", asking("R 1"), batch=BatchConfig(4, True, (4,), 100 * MS))
    bench.model("quick", asking("R 1"))
    bench.send("slow", "1")
    bench.send("quick", "2")
    assert bench.running() == {"quick0": ["2"]}
    bench.timer.advance(100 * MS)
    bench.finish("quick0")
    assert bench.running() == {"slow0": ["1"]}


def test_one_that_executed_less_often_goes_before_it() -> None:  # measured on 2.51
    bench = Bench()
    bench.model("a", asking("R 1"))
    bench.model("big", asking("R 3"))
    bench.model("b", asking("R 1"))
    bench.send("big", "before")
    bench.finish("big0")
    bench.send("a", "1")
    bench.send("big", "2")
    bench.send("b", "3")
    assert bench.running() == {"a0": ["1"], "b0": ["3"]}


def test_priority_three_is_a_third_of_the_executions() -> None:
    bench = Bench()
    bench.model("m", asking(priority=0), asking(priority=3))
    counts = {"m0": 0, "m1": 0}
    for number in range(40):
        bench.send("m", str(number))
        (instance,) = bench.running()
        counts[instance] += 1
        bench.finish(instance)
    assert counts == {"m0": 30, "m1": 10}


def test_a_turn_that_nobody_needs_any_more_goes_to_the_next() -> None:
    bench = Bench()
    for name in "abc":
        bench.model(name, asking("R 1"))
    bench.send("a", "1")
    bench.send("b", "2")
    bench.send("c", "3")
    (waiting,) = bench.schedulers["b"].waiting()
    assert bench.schedulers["b"].withdraw(waiting)
    bench.finish("a0")
    assert bench.running() == {"c0": ["3"]}


def test_the_resources_of_a_dead_stub_are_free() -> None:
    bench = Bench()
    bench.model("a", asking("R 1"))
    bench.model("b", asking("R 1"))
    bench.send("a", "1")
    bench.send("b", "2")
    bench.instances["a0"].payloads.clear()
    assert bench.events["a"].away(bench.instances["a0"]) is False  # type: ignore[arg-type]
    assert bench.running() == {"b0": ["2"]}
    bench.send("a", "3")
    bench.events["a"].idle(bench.instances["a0"])  # type: ignore[arg-type]
    assert bench.running() == {"b0": ["2"]}
    bench.events["b"].away(bench.instances["b0"])  # type: ignore[arg-type]
    bench.events["b"].gone(bench.instances["b0"])  # type: ignore[arg-type]
    assert bench.running()["a0"] == ["3"]


@pytest.mark.parametrize("direct", [True, False])
def test_sequences_wait_for_resources_too(direct: bool) -> None:
    bench = Bench()
    bench.model("busy", asking("R 1"))
    bench.sequences("m", asking("R 1"), asking("R 1"), direct=direct)
    bench.send("busy", "hold")
    for sequence in (1, 2, 3):
        bench.send("m", str(sequence), sequence=sequence)
    assert bench.running() == {"busy0": ["hold"]}
    bench.finish("busy0")
    assert bench.running() == {"m0": ["1"]}
    bench.finish("m0")
    assert bench.running() == {"m1": ["2", "3"]}
