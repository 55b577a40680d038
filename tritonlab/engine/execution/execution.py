"""The execution of payloads in one stub."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any

from ...core.inference.copies import Copies
from ...core.inference.infer_request import InferenceRequest, NullRequest, RequestEvent
from ...core.metrics.infer_stats import ExecuteTimes, InferStats
from ...core.status import InvalidArgumentError, ModelError, TritonError
from ...ipc.link.block_reader import BlockReader
from ...ipc.link.stub_link import RESCHEDULED, Executed, PackedBatch, SharedMemoryError, StubLink
from ...ipc.link.wait_policy import PATIENCE, WaitPolicy
from ..life.instance_plan import BoundEvents, InstancePlan, InstanceServices
from ..life.model_stub import ModelStub
from .execution_record import ExecutionRecord
from .failure_keeper import FailureKeeper
from .inflight_requests import InflightRequests
from .payload import Payload
from .response_factory import build_response


class Execution:
    """One `execute` call; it has a payload while the stub executes it. `record` counts its duration; `idle` is called
    when the stub can take the next call.
    """

    __slots__ = ("batch_id", "idle", "payload", "record")

    def __init__(self, payload: Payload, record: ExecutionRecord, idle: Callable[[], object]) -> None:
        self.payload = payload
        self.record = record
        self.idle = idle
        self.batch_id = 0

    def ended(self, times: ExecuteTimes, *, failed: bool) -> None:
        """Count the times of the call, which has ended."""
        self.record.record(self.payload, self.batch_id, times, failed=failed)


@dataclass(frozen=True)
class Death:
    """The remains of a stub that died: the running `execution`, and the `requests` without final responses. `worked`:
    whether it had executed anything besides the warm-up.
    """

    stub: ModelStub
    execution: Execution | None
    requests: Sequence[InferenceRequest]
    worked: bool


class AnswerLead:
    """The reading of one stub's answers by the waiting thread, by the rules of `policy`, which saves a wake-up.
    Requests have this object as their executor while the stub has them.
    """

    def __init__(self, link: StubLink, policy: WaitPolicy) -> None:
        self._link = link
        self._policy = policy

    def reserve(self, request: InferenceRequest) -> None:
        """Reserve the answer for this thread if it is the waiting one. Otherwise the link reader would be woken for an
        answer that arrives before the call that sends the batch returns.

        After a pause the processor's caches are cold, and this thread reaches `lead` only after the answer: at 100
        requests a second the link reader was woken each time, for 6 % of the processor time of HTTP and gRPC requests.
        """
        policy = self._policy
        if request.waiting_thread == get_ident() and policy.is_quick and self._link.hold(unwatch=policy.has_slept):
            request.waiting_thread, request.reserved_lead = 0, self

    def lead(self, done: Callable[[], bool], patient: bool = True) -> bool:
        """Read the answers by the contract of `core.infer_request.Leadable`. Poll first if the last execution was short
        and a core is free. Once `execute` waits for another model the link reader reads the messages of both models.
        """
        link, policy = self._link, self._policy
        if not link.held and (policy.is_blocked or not (patient or policy.is_quick)):
            return False
        pace = policy.pace
        spin = pace.begin(perf_counter()) if policy.polls else 0.0
        led = link.lead(lambda: policy.is_blocked or done(), spin=spin, timeout=None if patient else PATIENCE)
        pace.end(perf_counter())
        return led

    def wait_for_another(self, waits: bool) -> None:
        """Note whether `execute` waits for another model's answer. It then needs no core, and the link reader polls for
        the messages of both models.
        """
        if waits and self._link.reader is not None:
            self._link.read_by(None)
        self._policy.block(waits)


class StepByStep:
    """A caller of steps that produce further steps, which run after the step that produced them, not within it.

    It ends payloads that are not sent. Such an end makes the instance idle, so the next payload may follow at once;
    hundreds of queued payloads would recurse too deeply.
    """

    def __init__(self) -> None:
        self._steps: dict[int, deque[Callable[[], object]]] = {}  # by thread, while it runs them

    def __call__(self, step: Callable[[], object]) -> None:
        """Call `step` now, or after the current step of this thread."""
        thread = get_ident()
        if thread in self._steps:
            self._steps[thread].append(step)
            return
        steps = self._steps[thread] = deque([step])
        try:
            while steps:
                steps.popleft()()
        finally:
            del self._steps[thread]


class StubExecutor:
    """The executor of payloads, one at a time, in one stub of an instance, until the stub ends.

    `numbers` counts the instance's executions; `on_lost` is called when the stub is dead. Guarantees: every request of
    a payload gets a final response: the model's, or the error of a failed call or of the stub's death.
    """

    def __init__(
        self,
        stub: ModelStub,
        plan: InstancePlan,
        services: InstanceServices[Any],
        events: BoundEvents[Any],
        record: ExecutionRecord,
        numbers: Iterator[int],
        on_lost: Callable[[StubExecutor], None],
    ) -> None:
        self.stub = stub
        self.inflight = InflightRequests(plan.source.version, services.clock, services.instruments, events.reschedule)
        self._plan = plan
        self._services = services
        self._events = events
        self._policy = WaitPolicy(services.cores)
        self.lead = AnswerLead(stub.link, self._policy)
        #: the output that requests get of it
        self._leader = self.lead if events.leads else None
        self._record = record
        self._numbers = numbers
        #: a decoupled model's threads print even after `execute` has returned
        self._ends_lines = not plan.decoupled
        self._on_lost = on_lost
        self._lock = threading.Lock()  # guards the next three fields
        self._running: Execution | None = None
        self._closed = self._worked = False
        self._ends = StepByStep()
        self.keeper = FailureKeeper(
            stub, self.inflight, services.clock, book=services.failures, batch_id=lambda: self.batch_id
        )
        stub.link.on_message(Executed, self._on_executed)
        # output between two executions is about the requests that are left to their senders
        stub.whose = lambda: list(self.inflight.values()) if (now := self.payload) is None else now.requests

    # -- payloads to the stub

    def send(self, payload: Payload, warmup: InferStats | None = None) -> bool:
        """Send the batch to the stub. Returns False if the stub takes no more. Never blocks; errors reach the requests,
        not the caller. `warmup`: the only record of the batch, which is sent before any scheduler sends payloads."""
        stub, services = self.stub, self._services
        idle: Callable[[], object] = self._events.idle if warmup is None else _ignore
        now = services.clock.now()
        packed, error = _pack(payload.requests, stub.link, services.copies)
        if payload.late is not None and (late := payload.late(payload.requests)):
            if packed is not None:
                stub.link.drop(packed)
            rest = payload.without(late)
            if rest is None:
                self._ends(idle)
                return True
            return self.send(rest, warmup)
        record = self._record if warmup is None else self._record.of_warmup(warmup)
        execution = Execution(payload, record, idle)
        if not self._begin(execution, now, None if packed is None else self._leader):
            return False
        if services.instruments.execute_started is not None:
            services.instruments.execute_started(self._plan.label, execution.batch_id, payload.requests, now)
        if packed is not None:
            first, link, policy = payload.requests[0], stub.link, self._policy
            policy.plan(sent := services.clock.now())
            if link.reader is not first.reader:
                link.read_by(first.reader)
            if first.waiting_thread and self._leader is not None:
                self._leader.reserve(first)
            try:
                link.send_batch(execution.batch_id, packed, policy.stub_spin_us)
                if policy.has_slept and link.held and policy.gives_way(sent):
                    os.sched_yield()
            except Exception as failure:  # a field whose type has no wire form
                error = _unsendable(failure)
        if error is not None:  # the instance must become idle in any case
            self._ends(partial(self._fail, execution, error, None))
        if stub.link.lost:
            self._on_lost(self)
        return True

    def _begin(self, execution: Execution, now: int, leader: AnswerLead | None) -> bool:
        """Make `execution` the running one. Returns False if this stub takes no more."""
        with self._lock:
            if self._closed:
                return False
            self._policy.begin_execution()  # with the lock held, so that `die` can undo it
            payload, inflight = execution.payload, self.inflight
            execution.batch_id = next(self._numbers)
            self._running = execution
            self._worked = execution.record is self._record
            for request in payload.requests:
                request.advance(RequestEvent.EXECUTE)
                request.execute_start = now
                request.executor = leader
                inflight[request.serial] = request
            if payload.nulls:
                inflight.pop(NullRequest.SERIAL, None)  # no client waits for the answers to null requests
            return True

    # -- answers from the stub

    def _on_executed(self, ident: int, executed: Executed) -> None:
        execution = self._running
        if execution is None or ident != execution.batch_id:
            raise ValueError(f"batch {ident} is not in execution")
        self.stub.process.output.drain_all(ended=self._ends_lines)
        times = ExecuteTimes(executed.input_ns, executed.infer_ns, executed.output_ns)
        self._policy.executed(times, self._services.clock.now())
        if executed.failure is not None:
            self._fail(execution, self.keeper.error_of(executed.failure, execution.payload.requests), times)
            return
        requests, outputs = execution.payload.requests, executed.outputs
        again = RESCHEDULED in outputs
        recorded = again and self._events.iterative
        if recorded:
            # Before `idle`, so that they join the next batch (rule 3.9.3); after the record, as their times start anew.
            execution.ended(times, failed=False)
            self.inflight.give_back_released(requests, outputs)
        released = self._release(execution)
        reader = BlockReader(self.stub.link, executed.block)
        version, reshapes, copies = self._plan.source.version, self._plan.reshapes, self._services.copies
        answered = [
            (request, build_response(request, reader, output, version, final=True, copies=copies, reshapes=reshapes))
            for request, output in zip(requests, outputs, strict=True)
            if output is not None and output.__class__ is not str  # answered through its sender, or RESCHEDULED
        ]
        reader.finish()
        if again and not recorded:
            self.inflight.give_back_released(requests, outputs)
        if released and not recorded:
            execution.ended(times, failed=False)
        for request, response in answered:
            if response.error is not None:
                self.keeper.answered_with_error()
            self.inflight.respond(request, response)

    def _release(self, execution: Execution) -> bool:
        """Let the stub take the next batch. Returns False if it has died meanwhile."""
        with self._lock:
            if self._running is not execution:
                return False
            self._running = None
        self._policy.end_execution()
        execution.idle()
        return True

    def _fail(self, execution: Execution, error: TritonError, times: ExecuteTimes | None) -> None:
        """Fail the whole call: each of its open requests gets the error (rules 3.2, 3.5)."""
        if self._release(execution):
            execution.ended(times or ExecuteTimes(0, 0, 0), failed=True)
        self.inflight.fail([r for r in execution.payload.requests if r.serial in self.inflight], error)

    # -- for callers that wait

    @property
    def payload(self) -> Payload | None:
        """The payload that is executed now, None if there is none."""
        execution = self._running
        return execution.payload if execution is not None else None

    @property
    def batch_id(self) -> int:
        """The number of the running `execute` call, 0 if none runs."""
        execution = self._running
        return execution.batch_id if execution is not None else 0

    def executes(self, request: InferenceRequest) -> bool:
        """Return whether the running `execute` call has the request and has not yet answered it."""
        payload = self.payload
        return payload is not None and request.serial in self.inflight and any(r is request for r in payload.requests)

    # -- end

    def close(self) -> None:  # a running execution continues
        with self._lock:
            self._closed = True

    def die(self) -> Death:
        """Note that the stub is dead, and return its remains."""
        with self._lock:
            self._closed = True
            self.inflight.dying = True
            execution, self._running = self._running, None
        self._policy.end_execution()
        return Death(self.stub, execution, list(self.inflight.values()), self._worked)

    def bury(self, death: Death, error: TritonError) -> None:
        """Fail the requests in flight when the stub died."""
        if death.execution is not None:
            death.execution.ended(ExecuteTimes(0, 0, 0), failed=True)
        self.keeper.keep_death(error, death.requests, death.execution.batch_id if death.execution is not None else 0)
        self.inflight.bury(death.requests, error)
        self.inflight.drained.set()

    def abort(self, error: TritonError) -> None:
        """Fail the requests in flight of a stub that was killed on purpose; no counter changes."""
        with self._lock:
            self._closed = True
            execution, self._running = self._running, None
        self._policy.end_execution()
        hook = self._services.instruments.execute_finished
        if execution is not None and hook is not None:
            hook(self._plan.label, execution.batch_id, ExecuteTimes(0, 0, 0), self._services.clock.now())
        self.inflight.fail(list(self.inflight.values()), error)
        self.inflight.drained.set()


def _pack(
    requests: Sequence[InferenceRequest], link: StubLink, copies: Copies
) -> tuple[PackedBatch | None, TritonError | None]:
    """Put the inputs into the stub's region, GPU inputs too if the model wants them on the host. Returns the packed
    inputs, or the error.
    """
    try:
        packed = link.pack(requests)
    except SharedMemoryError as error:
        return None, ModelError(str(error))
    except TritonError as error:  # no room on the GPU, or it failed
        return None, error
    except Exception as error:
        return None, _unsendable(error)
    if link.devices.brought:
        link.devices.brought = False
        copies.tell_inputs(requests)
    return packed, None


def _ignore() -> None:
    """Do nothing: no scheduler waits for the end of a warm-up batch."""


def _unsendable(error: Exception) -> TritonError:
    return InvalidArgumentError(f"the request cannot be sent to the model: {error}")
