"""`EnsembleScheduler`, which runs each step of a request as soon as its tensors exist (rule 5.7).

After each response or error of a step, `EnsembleProgress` decides under the request's lock. Without the lock, responses
then go to the client, and the next steps' requests to their models' schedulers, where they share batches with other
clients' requests.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable

from ...core.config.ensemble_graph import EnsembleGraph
from ...core.config.model_config import dims_text
from ...core.inference.copies import Copies
from ...core.inference.delivery import deliver
from ...core.inference.infer_request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    RequestEvent,
    StepRequest,
    place_outputs,
)
from ...core.inference.infer_response import InferenceResponse, ParameterValue
from ...core.inference.tensor import Tensor
from ...core.metrics.infer_stats import ExecuteTimes
from ...core.status import Code, EnsembleError, ModelError, TritonError, UnavailableError
from .ensemble_progress import EnsembleProgress, EnsembleWork, Run
from .scheduler import STOPPING, SchedulerServices

#: Why an ensemble's "batch" ends, for instruments: each request of an ensemble is a batch.
ENSEMBLE = "ensembles do not batch"


class EnsembleScheduler:
    """The scheduler of one version of an ensemble; no request waits in it, and it has no instances.

    `infer` starts a step's request (`InferenceServer.infer`); its TritonError fails the ensemble's request.
    """

    def __init__(
        self,
        name: str,
        version: int,
        graph: EnsembleGraph,
        infer: Callable[[InferenceRequest], None],
        services: SchedulerServices,
    ) -> None:
        self.name = name
        self.version = version
        self.graph = graph
        self.infer = infer
        self.clock = services.clock
        self.instruments = services.instruments
        self.copies = Copies(services.instruments, services.clock)
        self.stats = services.stats
        self.warn = services.warn
        self.limits = StepLimits(graph.max_inflight_requests)
        self._lock = threading.Lock()  # guards all fields below
        self._running: dict[int, EnsembleRun] = {}
        self._stopping = False
        self._empty = threading.Condition(self._lock)

    @property
    def pending(self) -> int:
        """Always 0: requests do not wait here, but in their steps' models."""
        return 0

    def enqueue(self, request: InferenceRequest) -> None:
        """Start a checked request. Raises UnavailableError if the scheduler is stopping."""
        now = self.clock.now()
        request.queue_start = request.execute_start = now
        run = EnsembleRun(self, request)
        with self._lock:
            if self._stopping:
                raise UnavailableError(request.prefix + STOPPING)
            request.advance(RequestEvent.ENQUEUE)
            request.advance(RequestEvent.EXECUTE)
            self._running[id(request)] = run
        request.on_cancel = run.cancel
        if self.instruments.request_queued is not None:
            self.instruments.request_queued(request, now)
        run.start()

    def forget(self, request: InferenceRequest) -> None:
        """Forget a request that has had its final response."""
        with self._lock:
            del self._running[id(request)]
            if not self._running:
                self._empty.notify_all()

    def waiting(self) -> list[InferenceRequest]:
        """Return the requests with running steps."""
        with self._lock:
            return [run.request for run in self._running.values()]

    def withdraw(self, request: InferenceRequest) -> bool:
        """Return False: the request's steps already run, so it cannot be taken out."""
        return False

    def abort(self) -> None:
        """End the requests in flight with an error."""
        with self._lock:
            self._stopping = True
            running = list(self._running.values())
        for run in running:
            run.fail(UnavailableError("Server exited before the request completed"))

    def stop(self) -> None:
        """Refuse new requests and wait until those in flight have ended."""
        with self._lock:
            self._stopping = True
            while self._running:
                self._empty.wait()

    def __repr__(self) -> str:
        return f"<EnsembleScheduler {self.name}/{self.version} [{len(self._running)} in flight]>"


class EnsembleRun:
    """One request of an ensemble, until its final response.

    Guarantees: responses go out one at a time, in the order of the decisions, the final one last. Steps are started
    without the lock held. After the first error no step is started, and later responses are dropped (rule 5.7.5).
    """

    def __init__(self, scheduler: EnsembleScheduler, request: InferenceRequest) -> None:
        self.request = request
        self._scheduler = scheduler
        self._lock = threading.Lock()  # guards all fields below
        self._progress = EnsembleProgress(scheduler.graph, request.requested_outputs)
        self._steps: dict[int, StepRequest] = {}  # by their identity
        self._outbox: deque[InferenceResponse] = deque()
        self._delivering = False
        self._is_over = False
        self._failed = False
        self._times = ExecuteTimes(0, 0, 0)

    def start(self) -> None:
        with self._lock:
            work = self._progress.start(self.request.inputs)
            self._post(work)
        self._do(work)

    # -- decisions, under the lock

    def _post(self, work: EnsembleWork) -> None:
        """Put the responses of `work` into the outbox, or the error of a deadlock."""
        if work.deadlock:
            self._is_over = self._failed = True
            self._outbox.append(self._error(_deadlock(self._scheduler.graph, self.request, work.deadlock)))
            return
        self._is_over = work.final
        request, scheduler = self.request, self._scheduler
        responses = [
            InferenceResponse(
                model_name=scheduler.name,
                model_version=scheduler.version,
                request_id=request.request_id,
                outputs=_placed(request, outputs, scheduler.copies),
                parameters=_parameters(request) if any(tensor.byte_size for tensor in outputs.values()) else {},
                final=False,
            )
            for outputs in work.responses
        ]
        if work.final:
            if not responses:
                empty = InferenceResponse(scheduler.name, scheduler.version, request.request_id, empty=True)
                responses.append(empty)
            responses[-1].final = True
        self._outbox.extend(responses)

    def _error(self, error: TritonError) -> InferenceResponse:
        scheduler = self._scheduler
        return InferenceResponse(scheduler.name, scheduler.version, self.request.request_id, error=error)

    # -- actions, without the lock

    def _do(self, work: EnsembleWork) -> None:
        self._deliver()
        for run in work.runs:
            self._scheduler.limits.start(run.step.number, lambda run=run: self._run(run))  # type: ignore[misc]

    def _run(self, run: Run) -> None:
        """Send a step's request to its model."""
        step = run.step
        request = StepRequest(
            parent=self.request,
            model_name=step.model_name,
            model_version=step.model_version,
            inputs=run.inputs,
            requested_outputs=step.requested,
            on_response=lambda request, response: self._on_response(run, request, response),
            on_executed=self.executed,
            step=step.number,
        )
        with self._lock:
            stale = self._is_over
            if not stale:
                self._steps[id(request)] = request
        if stale:
            self._scheduler.limits.end(step.number)
            return
        if self.request.cancelled:
            request.cancel()  # the client may have cancelled the request before it was registered here
        try:
            self._scheduler.infer(request)
        except TritonError as error:
            self._fail_step(run, error)
            self._ended(run, request)

    def _on_response(self, run: Run, request: InferenceRequest, response: InferenceResponse) -> None:
        """Handle a response of a step's model, on any thread."""
        if response.error is not None:
            self._fail_step(run, response.error)
        else:
            self._go_on(run, response)
        if response.final:
            self._ended(run, request)

    def _go_on(self, run: Run, response: InferenceResponse) -> None:
        with self._lock:
            if self._is_over:
                return
            work = self._progress.responded(run, None if response.empty else response.outputs, response.final)
            self._post(work)
        self._do(work)

    def _ended(self, run: Run, request: InferenceRequest) -> None:
        with self._lock:
            self._steps.pop(id(request), None)
        self._scheduler.limits.end(run.step.number)

    def _fail_step(self, run: Run, error: TritonError) -> None:
        self.fail(_failed_step(self._scheduler.graph, run, error))

    def fail(self, error: TritonError) -> None:
        """Fail the request, unless it has ended."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = self._failed = True
            self._outbox.append(self._error(error))
        self._deliver()

    def cancel(self) -> None:
        """Cancel the steps because the client cancelled: also running ones, where Triton cancels only later ones."""
        with self._lock:
            steps = list(self._steps.values())
        for step in steps:
            step.cancel()

    def executed(self, times: ExecuteTimes) -> None:
        """Add the times of a step's execution to the ensemble's."""
        with self._lock:
            late = self._is_over
            if not late:
                total = self._times
                total.compute_input += times.compute_input
                total.compute_infer += times.compute_infer
                total.compute_output += times.compute_output
        if late and not self._failed:
            self._scheduler.stats.add_times(self.request.batch_size, times)
        if isinstance(self.request, StepRequest):
            self.request.on_executed(times)

    def _deliver(self) -> None:
        """Send the outbox. While one thread sends, others leave their responses to it."""
        with self._lock:
            if self._delivering:
                return
            self._delivering = True
        while True:
            with self._lock:
                if not self._outbox:
                    self._delivering = False
                    return
                response = self._outbox.popleft()
            self._send(response)

    def _send(self, response: InferenceResponse) -> None:
        request, scheduler = self.request, self._scheduler
        if response.final:
            request.on_cancel = None
            self._record(response)
        deliver(request, response, scheduler.instruments, scheduler.clock)
        if response.final:
            scheduler.forget(request)

    def _record(self, response: InferenceResponse) -> None:
        """Count the request as in rule 5.7.13."""
        request, scheduler = self.request, self._scheduler
        now = scheduler.clock.now()
        hook = scheduler.instruments.batch_executed
        if hook is not None:
            where = scheduler.name, scheduler.version, scheduler.name, 0
            failed = response.error is not None
            hook(*where, [request], request.batch_size, ENSEMBLE, self._times, failed, now)
        if response.error is not None:
            if isinstance(response.error, EnsembleError) and response.error.reason:
                scheduler.warn(f"{response.error.message} ({response.error.reason})")
            for _ in range(2):  # as Triton does
                scheduler.stats.record_rejected("OTHER", now - request.request_start)
            return
        scheduler.stats.record_batch(
            size=request.batch_size,
            queue_ns=[request.execute_start - request.queue_start],
            request_ns=[now - request.request_start],
            times=self._times,
            failed=0,
            wall_ms=scheduler.clock.wall() // 1_000_000,
        )


class _Step:
    __slots__ = ("beginning", "inflight", "waiting")

    def __init__(self) -> None:
        self.inflight = 0
        self.waiting: deque[Callable[[], None]] = deque()
        self.beginning = False


class StepLimits:
    """The limit `max_inflight_requests` on the requests of one step at its model at a time, over all requests of the
    ensemble (rule 5.7.10); 0 means none. If a decoupled step responds faster than the next step can follow, that step's
    requests wait here, in order. Any thread may call any method.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # guards the other fields; no request begins under it
        self._steps: dict[int, _Step] = {}

    def start(self, step: int, begin: Callable[[], None]) -> None:
        """Call `begin` now, or later, perhaps on another thread, when enough of the step's requests have ended."""
        if not self._limit:
            begin()
            return
        with self._lock:
            self._steps.setdefault(step, _Step()).waiting.append(begin)
        self._begin(step)

    def waiting(self) -> dict[int, int]:
        """Return the number of waiting requests of each step, by the step's number."""
        with self._lock:
            return {number: len(step.waiting) for number, step in self._steps.items() if step.waiting}

    def end(self, step: int) -> None:
        """Record that one of the step's requests has ended, and begin the next."""
        if not self._limit:
            return
        with self._lock:
            self._steps[step].inflight -= 1
        self._begin(step)

    def _begin(self, number: int) -> None:
        """Begin the requests that the limit allows. Only one thread at a time does this, so that a request that ends at
        once does not recurse.
        """
        step = self._steps[number]
        with self._lock:
            if step.beginning:
                return
            step.beginning = True
        while True:
            with self._lock:
                if step.inflight >= self._limit or not step.waiting:
                    step.beginning = False
                    return
                step.inflight += 1
                begin = step.waiting.popleft()
            begin()


def _placed(request: InferenceRequest, outputs: dict[str, Tensor], copies: Copies) -> dict[str, Tensor]:
    """Return outputs in the memory that the client wants. The reader of one that cannot be copied gets the error."""
    if any(tensor.memory_type for tensor in outputs.values()):
        with contextlib.suppress(TritonError):
            return place_outputs(request, outputs, copies.to_host)
    return outputs


def _parameters(request: InferenceRequest) -> dict[str, ParameterValue]:
    """Return the parameters of Triton's response with an output that has elements (rule 5.7.8)."""
    return {
        "sequence_id": request.correlation_id,
        "sequence_start": bool(request.flags & SEQUENCE_START),
        "sequence_end": bool(request.flags & SEQUENCE_END),
    }


def _failed_step(graph: EnsembleGraph, run: Run, error: TritonError) -> EnsembleError:
    """Return the error of a step's request in the form for the ensemble's client (rule 5.7.5)."""
    inputs = ", ".join(_inputs_text(graph, run))
    reason = f"{run.step} of ensemble '{graph.name}' failed; its inputs: {inputs}"
    text = f"in ensemble '{graph.name}', {error.message}"
    if not isinstance(error, ModelError):
        return EnsembleError(text, code=error.code, reason=reason)
    if error.reason and error.reason not in error.message:
        reason = f"{reason}; {error.reason}"
    found = EnsembleError(text, code=error.code, reason=reason, exception=error.exception, log=error.log)
    found.capsule = error.capsule
    return found


def _inputs_text(graph: EnsembleGraph, run: Run) -> Iterable[str]:
    for reading in run.step.inputs:
        tensor = run.inputs.get(reading.name)
        what = f"{tensor.datatype.name}{dims_text(tensor.shape)}" if tensor is not None else "not produced"
        yield f"{reading.name} is {reading.tensor}, {graph.origin(reading.tensor)}, {what}"


def _deadlock(graph: EnsembleGraph, request: InferenceRequest, outputs: Iterable[str]) -> EnsembleError:
    """Return the error of a request that ends without a response, as no step can run any more (rule 5.7.6)."""
    text = (
        f"in ensemble '{graph.name}', {request.prefix}unexpected deadlock, at least one output is not set while no "
        "more ensemble steps can be made"
    )
    missing = [name for name in graph.inputs if name not in request.inputs and name not in graph.optional_inputs]
    waiting = [
        f"{step} waits for {' and '.join(name for name in missing if name in step.reads)}"
        for step in graph.steps
        if not step.reads.isdisjoint(missing)
    ]
    reason = "; ".join([f"the outputs {', '.join(outputs)} are not set", *waiting])
    return EnsembleError(text, code=Code.INVALID_ARG, reason=f"{reason}, which the request does not carry")
