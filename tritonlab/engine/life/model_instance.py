"""One instance of a model, from the start of its first stub to the end of its last."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial

from ...core.inference.delivery import deliver_error
from ...core.inference.infer_request import InferenceRequest
from ...core.metrics.infer_stats import InferStats
from ...core.status import ModelError, TritonError, UnavailableError
from ...ipc.link.stub_link import StubLink
from ..calls.stub_messages import StubMessages
from ..debugging.debug_session import DebugSessions
from ..execution.execution import Death, StubExecutor
from ..execution.execution_record import ExecutionRecord
from ..execution.payload import Payload
from ..execution.rate_limiter import RateLimiter
from .instance_plan import BoundEvents, InstanceEvents, InstancePlan, InstanceServices
from .instance_state import InstanceEvent, InstanceLife, InstanceState
from .model_stub import ModelStub
from .stub_replacement import StubReplacement
from .warmup import WarmupRun

_EXITED = "Server exited before the request completed"


class ModelInstance:
    """An instance that runs payloads, one at a time, in its own stub, and in a new stub after that one dies.

    Guarantees: the scheduler calls `execute` only between `idle` and the next `idle`. Every request of a payload gets a
    final response in any case.
    """

    def __init__(
        self,
        plan: InstancePlan,
        services: InstanceServices[ModelInstance],
        stats: InferStats,
        events: InstanceEvents[ModelInstance],
    ) -> None:
        self.plan = plan
        self._life = InstanceLife()
        self._services = services
        self._events = BoundEvents(self, events)
        version, instruments = plan.source.version, services.instruments
        self._record = ExecutionRecord(
            instance=plan.label, version=version, stats=stats, clock=services.clock, instruments=instruments
        )
        self.replacement = StubReplacement(
            instance=self, life=self._life, events=self._events, clock=services.clock, later=services.later
        )
        #: the names of the models called by its BLS calls
        self.called: set[str] = set()
        #: the sessions of debuggers in its stub, kept by `debugger.Debugger`
        self.debugged = DebugSessions(plan.label, self.say, self.wait_for_another, self.wake_reader)
        #: gives it its turns if executions share resources
        self.limiter: RateLimiter | None = None
        #: the warmup executed before it is READY
        self.warmup: WarmupRun | None = None
        self._batches = itertools.count(1)
        # the lock of `life` guards the next two
        #: the executor of the current stub, or of the last one
        self._executor: StubExecutor | None = None
        #: the executor for payloads: the same one while the instance is READY, else None
        self._serving: StubExecutor | None = None

    # -- its current work

    @property
    def state(self) -> InstanceState:
        return self._life.state

    @property
    def name(self) -> str:
        return self.plan.label

    @property
    def stub(self) -> ModelStub | None:
        """The current stub, or the last one; None before the first."""
        return self._executor.stub if self._executor is not None else None

    @property
    def pid(self) -> int | None:
        return self._executor.stub.process.pid if self._executor is not None else None

    @property
    def inflight(self) -> Mapping[int, InferenceRequest]:
        """The requests that may still get responses, by handle."""
        return self._executor.inflight if self._executor is not None else {}

    @property
    def payload(self) -> Payload | None:
        """The payload that is executed now, None if there is none."""
        return self._executor.payload if self._executor is not None else None

    @property
    def batch_id(self) -> int:
        """The number of the running `execute` call, 0 if none runs."""
        return self._executor.batch_id if self._executor is not None else 0

    def executes(self, request: InferenceRequest) -> bool:
        """Return whether the running `execute` call has the request and has not yet answered it."""
        return self._executor is not None and self._executor.executes(request)

    def awaited(self) -> str:
        """Return a text for people on the waits that delay the end of the instance."""
        stub, name, count = self.stub, self.name, len(self.inflight)
        if count:
            return f"{count} unanswered request{'s' * (count > 1)} of '{name}' (pid {self.pid}){self.debugged.words}"
        if self._life.stopped:
            return f"the finalize of '{name}' (pid {self.pid})" if stub is not None and not stub.link.lost else ""
        return f"the start of '{name}' (pid {self.pid})" if self.state is InstanceState.RESTARTING else ""

    def __repr__(self) -> str:
        return (
            f"<ModelInstance {self.plan.name} [{self.state.value} | {len(self.inflight)} in flight | pid {self.pid}]>"
        )

    # -- start

    def start(self, stub: ModelStub | None = None) -> None:
        """Import and initialize the model, in `stub` if given; blocks. Raises ModelError with Triton's text."""
        plan = self.plan
        if self._life.stopped:
            raise self._stopped_while_starting()
        try:
            stub = stub or ModelStub(self._services.pool, plan.source, plan.name, self._services.log)
            executor = self._adopt(stub)
            stub.await_import()
            stub.initialize(plan.args, plan.outputs, plan.decoupled, self._services.failures.capacity > 0)
            if plan.warmup is not None:
                clock, stats = self._services.clock, self._record.stats
                self.warmup = WarmupRun(
                    plan.warmup, instance=plan.name, clock=clock, stats=stats, send=executor.send, died=stub.died
                )
                self.warmup.run()
        except BaseException:
            self._life.give_up()
            if stub is not None:
                stub.kill()
            raise
        finally:
            self.warmup = None
        with self._life.lock:
            stopped = self._life.stopped
            if not stopped:
                self._life.advance(InstanceEvent.INITIALIZED)
                self._serving = executor
        if stopped:
            stub.kill()
            return
        stub.link.on_lost = lambda reason: self._on_lost(executor)
        if stub.link.lost:
            self._on_lost(executor)

    def _adopt(self, stub: ModelStub) -> StubExecutor:
        """Make the stub the instance's own."""
        services = self._services
        stub.debugger, stub.label = services.debugger, self.plan.label
        executor = StubExecutor(
            stub,
            self.plan,
            services=services,
            events=self._events,
            record=self._record,
            numbers=self._batches,
            on_lost=self._on_lost,
        )
        with self._life.lock:
            self._executor = executor
            if self._life.stopped:
                raise self._stopped_while_starting()
        StubMessages(executor, self.plan, services, partial(services.on_call, self)).handle_all_links()
        stub.on_end = partial(services.on_link_end, stub.link)
        return executor

    def _stopped_while_starting(self) -> UnavailableError:
        return UnavailableError(f"'{self.plan.name}' was stopped while it started")

    # -- payloads

    def execute(self, payload: Payload) -> None:
        """Make the stub execute the batch. Never blocks; errors reach the requests, not the caller."""
        executor = self._serving
        if executor is not None and executor.send(payload):
            return
        with self._life.lock:
            # between two starts it is FAILED for a moment; during a pause nothing is held
            restarts = self.state in (InstanceState.RESTARTING, InstanceState.FAILED)
            if restarts and self.replacement.hold(payload):
                return
            replaced = self.state is InstanceState.READY
        if replaced:
            self.execute(payload)
        else:
            self.refuse(payload, ModelError(f"Stub process '{self.plan.name}' is not healthy."))

    def refuse(self, payload: Payload, error: TritonError) -> None:
        """End the requests of a payload that reached no stub with `error`."""
        services = self._services
        for request in payload.requests:
            deliver_error(
                request, self.plan.source.version, error=error, instruments=services.instruments, clock=services.clock
            )

    # -- calls of other modules

    def wait_for_another(self, waits: bool) -> None:
        """Note whether `execute` waits for another model's answer, or for a line typed to its debugger."""
        if self._executor is not None:
            self._executor.lead.wait_for_another(waits or bool(self.debugged.place))

    def say(self, text: str, level: str = "ERROR") -> None:
        """Add a line to the server's log under the instance's name."""
        if self.stub is not None:
            self.stub.log("server", level, text)

    def wake_reader(self, link: StubLink) -> None:
        """Wake the caller that reads the stub's own link, if `link` belongs to a process that the model forked."""
        if self.stub is not None and link is not self.stub.link:
            self.stub.process.monitor.wake()

    # -- death and restart

    def _on_lost(self, executor: StubExecutor) -> None:
        with self._life.lock:
            if executor is not self._serving:
                return
            self._life.advance(InstanceEvent.DIED)
            self._serving = None
            self.replacement.begin(executor.die())

    def bury(self, death: Death, error: TritonError) -> None:
        """Fail the requests in flight when the stub died."""
        services, source = self._services, self.plan.source
        if (hook := services.instruments.instance_died) is not None:
            reason = self.replacement.last_death
            hook(source.model, source.version, self.plan.label, reason, services.clock.now())
        assert self._executor is not None
        self._executor.bury(death, error)

    # -- end

    def retire(self) -> None:
        """Prepare the instance to leave: after a failed start it is not started again. Blocks until it is READY or
        FAILED and its scheduler is informed.
        """
        self._life.retire()
        self.replacement.join()

    def stop(self) -> None:
        """End the instance: wait for its requests, run `finalize`, end the process. Blocks; use a thread of its own."""
        if (serving := self._serving) is not None:
            serving.inflight.drain()
        with self._life.lock:
            if self._life.stopped:
                return
            healthy, executor = self._serving is not None, self._executor
            self._end()
        if executor is not None:
            executor.close()
            executor.stub.link.on_lost = None
            if healthy:
                executor.stub.finalize()
            else:
                executor.stub.kill()
        self.replacement.end(UnavailableError(_EXITED))

    def _end(self) -> None:
        self._life.advance(InstanceEvent.STOP)
        self._serving = None

    def abort(self) -> None:
        """End the instance at once, even while its `finalize` runs; requests in flight fail."""
        with self._life.lock:
            finalizing, executor = self._life.stopped, self._executor
            if not finalizing:
                self._end()
        if executor is not None:
            executor.stub.link.on_lost = None
            executor.stub.kill()
        if finalizing:
            return
        self.replacement.end(UnavailableError(_EXITED))
        if executor is not None:
            executor.abort(UnavailableError(_EXITED))
