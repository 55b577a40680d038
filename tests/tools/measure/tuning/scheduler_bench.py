from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tests.engine.schedulers.batching import services
from tritonlab.core.config.model_config import ModelConfig, parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import TritonError
from tritonlab.engine.execution.payload import Payload
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.dynamic_batch_scheduler import DynamicBatchScheduler
from tritonlab.engine.schedulers.policy_queue import QueuePolicies
from tritonlab.record.model_record import EVENTS, ModelRecord
from tritonlab.record.recorder import Recorder
from tritonlab.testing import FakeInstance, FakeTimer, MockClock


class Sent(NamedTuple):
    """A request that comes `after` nanoseconds after the one before. `timeout`: its own, microseconds. With `cancels`
    the client of the oldest request that waits cancels it just before.
    """

    after: int
    size: int = 1
    columns: int = 2
    priority: int = 0
    timeout: int = 0
    cancels: bool = False


def config_of(text: str) -> ModelConfig:
    return parse_pbtxt(f'name: "m" {text}', "config.pbtxt")


class Bench:
    """The real scheduler with fake instances that are busy for as long as `took(size)` says, and a recorder. A batch
    reaches its instance `way` nanoseconds after it was decided.

    What happens at one nanosecond happens in the order that `replay` documents.
    """

    def __init__(
        self,
        config: ModelConfig,
        instances: int,
        took: Callable[[int], int],
        way: int = 0,
        events: int = EVENTS,
        name: str = "m",
    ) -> None:
        self.clock = MockClock(1_000)
        self.timer = FakeTimer(self.clock)
        instruments = Instruments()
        self.recorder = Recorder(events)
        instruments.add(self.recorder)
        hook = instruments.batch_executed
        assert hook is not None
        self._hook = hook
        rules, policies = BatchConfig.from_config(config), QueuePolicies.from_config(config)
        self.scheduler = DynamicBatchScheduler(
            "m", 1, rules, services(self.clock, self.timer, instruments=instruments), policies=policies
        )
        self._took = took
        self._way = way
        self._busy: list[tuple[int, int, FakeInstance]] = []
        self._order = itertools.count()
        self.refused = 0
        for number in range(instances):
            instance = FakeInstance(f"{name}_0_{number}")
            instance.execute = self._executing(instance)  # type: ignore[method-assign]
            self.scheduler.instance_ready(instance)

    @property
    def record(self) -> ModelRecord:
        return self.recorder.recording.model("m")

    def run(self, sent: Sequence[Sent]) -> None:
        at = self.clock.now()
        for number, one in enumerate(sent):
            at += one.after
            tied = self._until(at)
            if one.cancels and one.after and not tied:  # at one nanosecond nobody can tell what was first
                for waiting in self.scheduler.waiting()[:1]:
                    waiting.cancel()
            array = np.zeros((one.size, one.columns), np.int8)
            fields = {"priority": one.priority, "timeout": one.timeout}
            request = InferenceRequest("m", {"X": Tensor.from_numpy(array)}, **fields)
            request.serial, request.batch_size, request.request_start = number + 1, one.size, at
            request.shape_key = one.columns  # as the rules of a model with fixed dims say
            try:
                self.scheduler.enqueue(request)
            except TritonError:
                self.refused += 1
        while self._busy or self.timer.deadlines:
            self._until(min([*self.timer.deadlines[:1], *(free for free, _, _ in self._busy[:1])]) + 1)

    def _until(self, at: int) -> bool:
        """Let time pass up to `at`; what comes then comes after the executions that end then, before the delays.
        Return whether one ended at that very time.
        """
        tied = False
        while True:
            free = self._busy[0][0] if self._busy else at + 1
            due = self.timer.deadlines[0] if self.timer.deadlines else at
            now = min(free, due, at)
            if free == now:
                tied |= now == at
                self._to(now)
                _, _, instance = heapq.heappop(self._busy)
                self._finish(instance)
            elif now < at:
                self.timer.advance(now - self.clock.now())
            else:
                self._to(at)
                return tied

    def _to(self, now: int) -> None:
        self.clock.advance(now - self.clock.now())

    def _executing(self, instance: FakeInstance) -> Callable[[Payload], None]:
        def execute(payload: Payload) -> None:
            instance.payloads.append(payload)
            if self._way:
                heapq.heappush(self._busy, (self.clock.now() + self._way, next(self._order), instance))
            else:
                self._begin(instance)

        return execute

    def _begin(self, instance: FakeInstance) -> None:
        """Begin a batch that is about to go out, as in `StubExecutor`."""
        payload = instance.payloads.pop()
        if payload.late is not None and (late := payload.late(payload.requests)):
            rest = payload.without(late)
            if rest is None:
                self.scheduler.instance_idle(instance)
                return
            payload = rest
        for request in payload.requests:
            request.execute_start = self.clock.now()
        instance.payloads.append(payload)
        free = self.clock.now() + self._took(payload.size)
        heapq.heappush(self._busy, (free, next(self._order), instance))

    def _finish(self, instance: FakeInstance) -> None:
        if not instance.payloads[0].requests[0].execute_start:
            self._begin(instance)
            return
        payload = instance.payloads.pop(0)
        took = ExecuteTimes(0, self.clock.now() - payload.requests[0].execute_start, 0)
        where = "m", 1, instance.name, 0
        self._hook(*where, payload.requests, payload.size, payload.reason, took, False, self.clock.now())
        self.scheduler.instance_idle(instance)
