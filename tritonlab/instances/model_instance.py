"""One instance of a model: the batch its stub executes and the responses that come back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from time import perf_counter

from ..core.delivery import deliver_error
from ..core.execute_times import ExecuteTimes
from ..core.infer_request import InferenceRequest, NullRequest, RequestEvent
from ..core.infer_stats import InferStats
from ..core.status import InvalidArgumentError, ModelError, TritonError, UnavailableError
from ..ipc.block_reader import BlockReader
from ..ipc.spin import PATIENCE, SPIN_US, STUB_SPIN_US, AnswerPace
from ..ipc.stub_link import RESCHEDULED, Executed, Log, PackedBatch, Raised, Response, SharedMemoryError, StubLink
from .execution_record import ExecutionRecord
from .inflight_requests import InflightRequests
from .instance_plan import BoundEvents, InstanceEvents, InstancePlan, InstanceServices
from .instance_state import TRANSITIONS, InstanceEvent, InstanceState
from .model_stub import ModelStub
from .payload import Payload
from .response_factory import build_response, failure_of
from .stub_replacement import Death, StubReplacement
from .warmup import Warmup, WarmupRun

_LEVELS = ("INFO", "WARNING", "ERROR", "VERBOSE")
_EXITED = "Server exited before the request completed"


class ModelInstance:
    """Runs payloads, one at a time, in its own stub.

    Guarantees: the scheduler calls `execute` only between `idle` and the next `idle`. Every request of a payload gets a
    final response, come what may: from the model, or the error of a failed call, or of the stub's death.
    """

    def __init__(
        self,
        plan: InstancePlan,
        services: InstanceServices[ModelInstance],
        stats: InferStats,
        events: InstanceEvents[ModelInstance],
    ) -> None:
        self.plan = plan
        self.state = InstanceState.STARTING
        self.inflight = InflightRequests(plan.source.version, services.clock, services.instruments, events.reschedule)
        self._services = services
        version, instruments = plan.source.version, services.instruments
        self._executions = ExecutionRecord(plan.name, version, stats, services.clock, instruments)
        self._events = events
        self._idle: Callable[[ModelInstance], None] = events.idle
        self.replacement = StubReplacement(self, BoundEvents(self, events), services.clock, services.later)
        self._leaving = False
        #: the models that its BLS calls named
        self.called: set[str] = set()
        self._lock = threading.Lock()  # guards state, _stub and _payload
        self._stub: ModelStub | None = None
        self._payload: Payload | None = None
        self._batches = 0
        self._pace = AnswerPace()
        self._quick = True  # the last execution was short enough to poll for its end

    # -- life

    def start(self, stub: ModelStub | None = None) -> None:
        """Imports and initializes the model, in `stub` if one was given; blocking. Raises ModelError with Triton's
        text."""
        plan = self.plan
        if self.stopped:
            raise UnavailableError(f"'{plan.name}' was stopped while it started")
        try:
            stub = stub or ModelStub(self._services.pool, plan.source, plan.name, self._services.log)
            self._adopt(stub)
            stub.link.on_executed(self._on_executed)
            self._serve(stub.link)
            forks = stub.process.forks
            forks.on_link, forks.on_end = self._serve, self._services.on_link_end
            stub.on_end = partial(self._services.on_link_end, stub.link)
            stub.await_import()
            stub.initialize(plan.args, plan.outputs, plan.decoupled)
            if plan.warmup is not None:
                self._warm_up(plan.warmup, stub)
        except BaseException:
            self.give_up()
            if stub is not None:
                stub.kill()
            raise
        with self._lock:
            stopped = self.state is InstanceState.STOPPED
            if not stopped:
                self._advance(InstanceEvent.INITIALIZED)
        if stopped:
            stub.kill()
            return
        stub.link.on_lost = lambda reason, stub=stub: self._on_lost(stub)
        if stub.link.lost:
            self._on_lost(stub)

    def _warm_up(self, warmup: Warmup, stub: ModelStub) -> None:
        """While no scheduler gives this instance anything. Raises TritonError (rule 5.8.4)."""
        run = WarmupRun(
            warmup,
            self.plan.name,
            self._services.clock,
            self._executions.stats,
            self.execute,
            lambda: stub.unhealthy() if stub.link.lost else None,
        )
        batches = self._batches
        try:
            run.run()
        finally:
            self._batches = batches  # a stub that dies again and again without a request starts after pauses
            self._payload = None
            self.inflight.clear()

    def _serve(self, link: StubLink) -> None:
        """Does what comes over the link of the stub, or of a process that it forked."""
        link.on_response(partial(self._on_response, link))
        link.on_log(self._on_log)
        link.on_raised(self._on_raised)
        link.on_calls(partial(self._services.on_call, self, link))

    def _adopt(self, stub: ModelStub) -> None:
        with self._lock:
            self._stub = stub
            if self.state is InstanceState.STOPPED:
                raise UnavailableError(f"'{self.plan.name}' was stopped while it started")
        stub.link.region.on_grow = partial(self._on_grow, "kernel")
        stub.link.stub_region.on_grow = partial(self._on_grow, "stub")

    def _on_grow(self, region: str, size: int, used: int) -> None:
        hook = self._services.instruments.shm
        if hook is not None:
            hook(self.plan.name, region, size, used, self._services.clock.now())

    def _advance(self, event: InstanceEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def give_up(self) -> None:
        """It will not come up (again)."""
        with self._lock:
            if self.state in (InstanceState.STARTING, InstanceState.RESTARTING):
                self._advance(InstanceEvent.GAVE_UP)

    def try_again(self) -> bool:
        """After a pause: whether it starts once more."""
        with self._lock:
            if self.state is not InstanceState.FAILED or self._leaving:
                return False
            self._advance(InstanceEvent.TRY_AGAIN)
            return True

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def stopped(self) -> bool:
        return self.state is InstanceState.STOPPED

    @property
    def pid(self) -> int | None:
        return self._stub.process.pid if self._stub is not None else None

    @property
    def stub(self) -> ModelStub | None:
        return self._stub

    def leave(self, idle: Callable[[], None]) -> None:
        """Its scheduler gets it back no more: `idle` is called when it could."""
        with self._lock:
            self._leaving = True
        self._idle = lambda instance: idle()

    def stop(self) -> None:
        """Ends the instance: waits for its requests, runs `finalize`, ends the process. Blocking; call it on a
        thread of its own."""
        with self._lock:
            self.inflight.drained.clear()
            waiting = bool(self.inflight) and self.state is InstanceState.READY
        if waiting:
            self.inflight.drained.wait()
        with self._lock:
            if self.state is InstanceState.STOPPED:
                return
            healthy = self.state is InstanceState.READY
            self._advance(InstanceEvent.STOP)
            stub = self._stub
        if stub is not None:
            stub.link.on_lost = None
            if healthy:
                stub.finalize()
            else:
                stub.kill()
        self.replacement.end(UnavailableError(_EXITED))

    def abort(self) -> None:
        """Ends the instance at once, also one whose `finalize` runs; requests in flight fail."""
        with self._lock:
            finalizing = self.state is InstanceState.STOPPED
            if not finalizing:
                self._advance(InstanceEvent.STOP)
            stub = self._stub
        if stub is not None:
            stub.link.on_lost = None
            stub.kill()
        if finalizing:
            return
        self._services.spin.leave(id(self))
        self.replacement.end(UnavailableError(_EXITED))
        self.inflight.fail(list(self.inflight.values()), UnavailableError(_EXITED))
        self.inflight.drained.set()

    def awaited(self) -> str:
        """What its end waits for, in words."""
        stub, name = self._stub, self.name
        if self.inflight:
            count = len(self.inflight)
            return f"{count} unanswered request{'s' * (count > 1)} of '{name}' (pid {self.pid})"
        if self.state is InstanceState.STOPPED:
            return f"the finalize of '{name}' (pid {self.pid})" if stub is not None and not stub.link.lost else ""
        return f"the start of '{name}' (pid {self.pid})" if self.state is InstanceState.RESTARTING else ""

    # -- execution

    def execute(self, payload: Payload) -> None:
        """Sends the batch to the stub. Never blocks; errors reach the requests, not the caller. A warm-up's payload
        comes before the instance is READY."""
        services = self._services
        now = services.clock.now()
        stub = self._stub if self.state is InstanceState.READY or payload.stats is not None else None
        packed, error = _pack(payload, stub) if stub is not None else (None, None)
        if payload.late is not None and (late := payload.late(payload.requests)):
            if stub is not None and packed is not None:
                stub.link.drop(packed)
            self._go_on_without(late, payload)
            return
        if not self._begin(payload, stub, now):
            return
        assert stub is not None
        stub.executing_ids = tuple([request.request_id for request in payload.requests])
        services.spin.enter(id(self))
        services.spin.crowd.look(now)
        if services.instruments.execute_started is not None:
            services.instruments.execute_started(self.plan.name, payload.batch_id, payload.requests, now)
        if packed is not None:
            self._keep(payload.requests[0], stub)
            try:
                stub.link.execute(payload.batch_id, packed, STUB_SPIN_US if services.spin.allowed else 0)
            except Exception as failure:  # a field of a type that has no wire form
                error = _unsent(failure)
        if error is not None:  # the instance must not stay busy for it
            self._finish(payload, error, None)
        if stub.link.lost:
            self._on_lost(stub)

    def _keep(self, request: InferenceRequest, stub: ModelStub) -> None:
        """Keeps the answer for this thread, if that waits for it: the stub may have answered before the call that sends
        the batch returns, and the link reader would have been woken for it."""
        if request.waiter and request.waiter == get_ident() and self._quick and self._events.leads and stub.link.hold():
            request.waiter, request.kept = 0, self

    def _begin(self, payload: Payload, stub: ModelStub | None, now: int) -> bool:
        """Makes the payload the one in execution; False if `stub` cannot take it, and something else became of it."""
        executor = self if self._events.leads else None
        with self._lock:
            current = self._stub if self.state is InstanceState.READY or payload.stats is not None else None
            if current is not None and current is stub:
                self._batches += 1
                payload.batch_id = self._batches
                self._payload = payload
                for request in payload.requests:
                    request.advance(RequestEvent.EXECUTE)
                    request.execute_start = now
                    request.executor = executor
                    self.inflight[request.serial] = request
                if payload.nulls:
                    self.inflight.pop(NullRequest.SERIAL, None)  # nobody waits for an answer
                return True
            if self.state is InstanceState.RESTARTING and self.replacement.hold(payload):
                return False
        if current is not None:
            self.execute(payload)  # it was replaced meanwhile
        else:
            self.refuse(payload, ModelError(f"Stub process '{self.plan.name}' is not healthy."))
        return False

    def _go_on_without(self, late: Sequence[InferenceRequest], payload: Payload) -> None:
        """Executes the rest of the payload, if there is any."""
        rest = [request for request in payload.requests if request not in late]
        if rest:
            self.execute(Payload(rest, sum(request.batch_size for request in rest), payload.reason, late=payload.late))
        else:
            self._idle(self)

    def refuse(self, payload: Payload, error: TritonError) -> None:
        """Ends the requests of a payload that no stub has got."""
        services = self._services
        for request in payload.requests:
            deliver_error(request, self.plan.source.version, error, services.instruments, services.clock)

    def is_linked_by(self, link: StubLink) -> bool:
        """Whether that is the stub's own link, not one of a process that it forked."""
        return self._stub is not None and self._stub.link is link

    @property
    def batch_id(self) -> int:
        """The running `execute` call's number, 0 while there is none."""
        payload = self._payload
        return payload.batch_id if payload is not None else 0

    def executes(self, request: InferenceRequest) -> bool:
        """Whether the request is among those of the running `execute` call, and not answered."""
        payload = self._payload
        return payload is not None and request.serial in self.inflight and any(r is request for r in payload.requests)

    def lead(self, done: Callable[[], bool], patient: bool = True) -> bool:
        """See `core.infer_request.Leadable`. Polls first where the last execution was short and a core is free for
        it. Once `execute` waits for another model the link reader reads, which does both models' messages then."""
        stub = self._stub
        budget, me = self._services.spin, id(self)
        if stub is None or (not stub.link.held and (budget.blocks(me) or not (patient or self._quick))):
            return False
        pace = self._pace
        spin = pace.begin(perf_counter()) if self._quick and budget.allowed else 0.0
        led = stub.link.lead(lambda: budget.blocks(me) or done(), spin=spin, timeout=None if patient else PATIENCE)
        pace.end(perf_counter())
        return led

    def wait_for_another(self, waits: bool) -> None:
        """`execute` waits for another model's answer now, or goes on: meanwhile it needs no core."""
        spin = self._services.spin
        (spin.block if waits else spin.unblock)(id(self))

    def _on_executed(self, ident: int, executed: Executed) -> None:
        payload = self._payload
        if payload is None or ident != payload.batch_id:
            raise ValueError(f"batch {ident} is not in execution")
        stub = self._stub
        assert stub is not None
        stub.process.drain_output()
        self._quick = executed.infer_ns < SPIN_US * 1000
        times = ExecuteTimes(executed.input_ns, executed.infer_ns, executed.output_ns)
        if executed.failure is not None:
            self._finish(payload, failure_of(executed.failure, stub.last_lines()), times)
            return
        requests, outputs = payload.requests, executed.outputs
        recorded = self._events.iterative and RESCHEDULED in outputs
        if recorded:
            # before `idle`, so that they join the next batch (rule 3.9.3); after the record, as their times start anew
            self._executions.record(payload, times, failed=False)
            for request, output in zip(requests, outputs, strict=True):
                if output == RESCHEDULED:
                    self.inflight.give_back(request)
        released = self._release(payload)
        reader = BlockReader(stub.link, executed.block)
        version, reshapes = self.plan.source.version, self.plan.reshapes
        answered = []
        for request, output in zip(requests, outputs, strict=True):
            if output is None:
                continue  # through its sender, before or later
            if output.__class__ is str:  # RESCHEDULED
                if not recorded:
                    self.inflight.give_back(request)
                continue
            response = build_response(request, reader, output, version, final=True, reshapes=reshapes)
            answered.append((request, response))
        reader.finish()
        if released and not recorded:
            self._executions.record(payload, times, failed=False)
        for request, response in answered:
            self.inflight.respond(request, response)

    def _on_response(self, link: StubLink, handle: int, sent: Response) -> None:
        stub = self._stub
        assert stub is not None
        reader = BlockReader(link, sent.block)
        request = self.inflight.get(handle)
        if request is not None:
            stub.process.drain_output()
            final = bool(sent.flags)
            version, reshapes = self.plan.source.version, self.plan.reshapes
            output = [sent.tensors, sent.error, sent.parameters]
            response = build_response(request, reader, output, version, final=final, reshapes=reshapes)
            response.empty = sent.error is None and sent.block is None and not sent.tensors and final
            if isinstance(response.error, ModelError):
                response.error.log = stub.last_lines()
            self.inflight.respond(request, response)
            if link is not stub.link:  # whose caller may be waiting for it where it did not come
                stub.process.monitor.wake()
        reader.finish()

    def _release(self, payload: Payload) -> bool:
        """The stub can take the next batch. False if the stub was found dead meanwhile."""
        with self._lock:
            if self._payload is not payload:
                return False
            self._payload = None
        if self._stub is not None:
            self._stub.executing_ids = ()
        self._services.spin.leave(id(self))
        if payload.stats is None:
            self._idle(self)
        return True

    def _finish(self, payload: Payload, error: TritonError, times: ExecuteTimes | None) -> None:
        """The whole call failed: every request of it that is still open gets the error (rules 3.2, 3.5)."""
        if self._release(payload):
            self._executions.record(payload, times or ExecuteTimes(0, 0, 0), failed=True)
        self.inflight.fail([r for r in payload.requests if r.serial in self.inflight], error)

    # -- what the stub says

    def _on_log(self, ident: int, record: Log) -> None:
        stub = self._stub
        assert stub is not None
        stub.process.drain_output()  # what it printed before
        stub.log("log" if record.file else "server", _LEVELS[record.level], record.text, record.file, record.line)

    def _on_raised(self, ident: int, raised: Raised) -> None:
        stub = self._stub
        assert stub is not None
        stub.process.drain_output()
        stub.log("server", "ERROR", raised.text, raised.file, raised.line)

    # -- death and restart

    def _on_lost(self, stub: ModelStub) -> None:
        with self._lock:
            if stub is not self._stub or self.state is not InstanceState.READY:
                return
            self._advance(InstanceEvent.DIED)
            requests = list(self.inflight.values())
            payload, self._payload = self._payload, None
            self.replacement.begin(Death(stub, payload, requests, self._batches))
        self._services.spin.leave(id(self))

    def bury(self, payload: Payload | None, requests: Sequence[InferenceRequest], error: TritonError) -> None:
        """Fails what was in flight when the stub died."""
        services, source = self._services, self.plan.source
        if (hook := services.instruments.instance_died) is not None:
            reason = self.replacement.last_death
            hook(source.model, source.version, self.plan.name, reason, services.clock.now())
        if payload is not None:
            self._executions.record(payload, ExecuteTimes(0, 0, 0), failed=True)
        self.inflight.fail(requests, error)
        self.inflight.drained.set()

    def say(self, text: str) -> None:
        """Adds an error to the server's log, in the instance's name."""
        if self._stub is not None:
            self._stub.log("server", "ERROR", text)

    def __repr__(self) -> str:
        return (
            f"<ModelInstance {self.plan.name} [{self.state.value} | {len(self.inflight)} in flight | pid {self.pid}]>"
        )


def _pack(payload: Payload, stub: ModelStub) -> tuple[PackedBatch | None, TritonError | None]:
    """The inputs in the stub's region, or why that failed."""
    try:
        return stub.link.pack(payload.requests), None
    except SharedMemoryError as error:
        return None, ModelError(str(error))
    except Exception as error:
        return None, _unsent(error)


def _unsent(error: Exception) -> TritonError:
    return InvalidArgumentError(f"the request cannot be sent to the model: {error}")
