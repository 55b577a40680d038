from __future__ import annotations

import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import InvalidArgumentError, ModelError
from tritonlab.engine.execution.rate_limiter import RateLimiter, make_rate_limiter
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
        scheduler = DynamicBatchScheduler(
            name, 1, batch, self.clock, Instruments(), self.timer, stats=InferStats(), limiter=self.limiter
        )
        self._start(name, scheduler, groups)

    def sequences(self, name: str, *groups: object, direct: bool) -> None:
        config = SequenceConfig(slots=4, direct=direct, batch=DYNAMIC)
        inputs = SequenceInputs(parse_pbtxt("max_batch_size: 4", "config.pbtxt"), None)  # type: ignore[arg-type]
        stats = InferStats()
        scheduler = SequenceBatchScheduler(
            name, 1, config, inputs, self.clock, Instruments(), self.timer, stats, print, self.limiter
        )
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


def test_there_is_as_much_as_the_instance_that_asks_for_most() -> None:
    bench = Bench()
    bench.model("a", asking("R 2"))
    bench.model("b", asking("R 1"))
    bench.model("c", asking("R 3"))
    for name in "abc":
        bench.send(name, name)
    assert bench.running() == {"a0": ["a"], "b0": ["b"]}  # 2 + 1 of 3
    bench.finish("a0")
    assert bench.running() == {"b0": ["b"]}  # c has nothing while it waits, and a part of it would not help
    bench.finish("b0")
    assert bench.running() == {"c0": ["c"]}


def test_what_needs_no_resource_runs_at_once() -> None:
    bench = Bench()
    bench.model("a", asking("R 1"))
    bench.model("free", asking())
    bench.send("a", "1")
    bench.send("free", "2")
    assert bench.running() == {"a0": ["1"], "free0": ["2"]}


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


def test_the_largest_demand_leaves_with_its_instance() -> None:
    bench = Bench()
    bench.model("small", asking("R 1"))
    bench.model("large", asking("R 3"))
    bench.model("other", asking("R 1"))
    bench.send("small", "1")
    bench.send("other", "2")
    assert bench.running() == {"small0": ["1"], "other0": ["2"]}
    bench.finish("small0")
    bench.finish("other0")
    bench.limiter.unregister(bench.instances["large0"])
    bench.send("small", "3")
    bench.send("other", "4")
    assert bench.running() == {"small0": ["3"]}


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


def test_the_first_that_waits_is_not_overtaken() -> None:
    bench = Bench()
    bench.model("a", asking("R 1"))
    bench.model("big", asking("R 3"))
    bench.model("b", asking("R 1"))
    bench.send("b", "before")
    bench.finish("b0")
    bench.send("a", "1")
    bench.send("big", "2")
    bench.send("b", "3")  # would fit, but has executed more often than the one that waits
    assert bench.running() == {"a0": ["1"]}
    bench.finish("a0")
    assert bench.running() == {"big0": ["2"]}
    bench.finish("big0")
    assert bench.running() == {"b0": ["3"]}


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
