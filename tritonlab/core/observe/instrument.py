"""The hooks of the server for views, traces, recorders and statistics.

Subclass `Instrument`, override hooks and pass the object to `Instruments.add`. Hooks are called on the server's threads
and must not block. A hook without an override costs nothing. An instrument that raises is dropped, and the error is
logged. Times are `Clock.now()` nanoseconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..inference.infer_request import InferenceRequest
from ..inference.infer_response import InferenceResponse
from ..metrics.infer_stats import ExecuteTimes

_log = logging.getLogger(__name__)


class Instrument:
    """The base class of every listener. Each method is one hook, which does nothing unless overridden."""

    def request_queued(self, request: InferenceRequest, now: int) -> None:
        """A valid request entered its model's scheduler."""

    def batch_formed(
        self, model: str, version: int, requests: Sequence[InferenceRequest], size: int, reason: str, now: int
    ) -> None:
        """`requests` (sum of batch dimensions: `size`) will execute together; `reason` is why the batch ends here."""

    def execute_started(self, instance: str, batch_id: int, requests: Sequence[InferenceRequest], now: int) -> None:
        """The batch was sent to the stub of `instance`: `add_sub_0_0`, or `add_sub_0_0 on GPU 1`, because the instances
        of one group on several GPUs have one name."""

    def execute_finished(self, instance: str, batch_id: int, times: ExecuteTimes, now: int) -> None:
        """The `execute` call of that batch returned, or failed."""

    def batch_executed(
        self,
        model: str,
        version: int,
        instance: str,
        batch_id: int,
        requests: Sequence[InferenceRequest],
        size: int,
        reason: str,
        times: ExecuteTimes,
        failed: bool,
        now: int,
    ) -> None:
        """An execution has ended; this call has all facts for a recorder.

        Each request of an ensemble counts as an execution of its own, by an `instance` of the ensemble's name.

        Args:
            model: the model's name.
            version: the version's number.
            instance: the instance's name.
            batch_id: the number of the execution.
            requests: the requests of the batch without null requests; those that the model reschedules still have the
                times of this execution.
            size: as in `batch_formed`.
            reason: as in `batch_formed`.
            times: the times of `execute`.
            failed: whether the whole batch failed.
            now: `Clock.now()` nanoseconds.
        """

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        """One response went to the client."""

    def stream_response(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        """A response of a stream was sent: not final, or empty, or final after others."""

    def request_rejected(self, request: InferenceRequest, reason: str, now: int) -> None:
        """The dynamic batcher ended a request that was not executed. `reason`: queue full, timeout or cancelled. `now`:
        the time of that decision; for a request that timed out on the way to the instance, the time it was chosen for
        execution.
        """

    def request_failed(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        """A response with an error went to the client."""

    def request_called(self, request: InferenceRequest, instance: str, batch_id: int, now: int) -> None:
        """The model in `instance` made the request (BLS) during execution `batch_id`, 0 outside of any. The request has
        no serial number yet.
        """

    def request_polled(self, request: InferenceRequest, now: int) -> None:
        """The model checked whether the request is cancelled, and got `request.cancelled`."""

    def bytes_copied(
        self, model: str, serial: int, device: int, to_device: int, to_host: int, simulated: bool, now: int
    ) -> None:
        """The server copied tensors of a request between the host and a GPU. Copies by the author are not reported.

        Args:
            model: the model's name.
            serial: the request's serial number.
            device: the ordinal of the GPU.
            to_device: the bytes copied from the host to the GPU.
            to_host: the bytes copied back.
            simulated: whether the GPU is simulated.
            now: `Clock.now()` nanoseconds.
        """

    def request_released(self, request: InferenceRequest, now: int) -> None:
        """The request got its final response."""

    def requests_wait(self, model: str, text: str, now: int) -> None:
        """Requests have waited too long for the watchdog; `text` is their place and the reason of their wait."""

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        """A model version changed its state (LOADING, READY, UNLOADING, UNAVAILABLE)."""

    def instance_died(self, model: str, version: int, instance: str, reason: str, now: int) -> None:
        """The stub of the instance ended unexpectedly; the server starts it again."""

    def metric_made(
        self, name: str, kind: str, description: str, labels: dict[str, str], buckets: Sequence[float], now: int
    ) -> None:
        """A model made a custom metric. `kind`: counter, gauge or histogram; `buckets`: its upper bounds."""

    def metric(self, name: str, labels: dict[str, str], value: float, now: int) -> None:
        """A custom metric changed."""

    def log(self, record: Any) -> None:
        """A model wrote one line to its output or log (`ipc.stub_log.LogRecord`)."""

    def shm(self, instance: str, region: str, size: int, used: int, now: int) -> None:
        """A shared-memory region of the instance's stub grew. `region` names its writer, `kernel` or `stub`; `size` and
        `used` are bytes. Growth of the stub's region is only noticed when something in it is read; `used` is then -1,
        because only the stub knows the value.
        """

    def server_stopped(self) -> None:
        """All models have ended, and the server takes no more requests."""


Kind = TypeVar("Kind", bound=Instrument)
HOOKS = tuple(name for name in vars(Instrument) if not name.startswith("_"))


class Instruments:
    """The listeners of one server. `instruments.log(record)` calls the hook of each listener that overrides it.

    A hook without listeners is `None`, so a hot path writes `if hook := instruments.batch_formed: hook(...)`.
    """

    request_queued: Callable[..., None] | None
    batch_formed: Callable[..., None] | None
    execute_started: Callable[..., None] | None
    execute_finished: Callable[..., None] | None
    batch_executed: Callable[..., None] | None
    response_sent: Callable[..., None] | None
    stream_response: Callable[..., None] | None
    request_rejected: Callable[..., None] | None
    request_failed: Callable[..., None] | None
    request_called: Callable[..., None] | None
    request_polled: Callable[..., None] | None
    bytes_copied: Callable[..., None] | None
    request_released: Callable[..., None] | None
    requests_wait: Callable[..., None] | None
    model_state: Callable[..., None] | None
    instance_died: Callable[..., None] | None
    metric_made: Callable[..., None] | None
    metric: Callable[..., None] | None
    log: Callable[..., None] | None
    shm: Callable[..., None] | None
    server_stopped: Callable[..., None] | None

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _instruments; callers need no lock, as hooks are assigned whole
        self._instruments: tuple[Instrument, ...] = ()
        self._rebuild()

    def add(self, instrument: Instrument) -> None:
        with self._lock:
            self._instruments += (instrument,)
            self._rebuild()

    def replace(self, instrument: Instrument) -> None:
        """Replace the instruments of this class by this one. A single one is replaced in its place."""
        with self._lock:
            same_class = [one for one in self._instruments if type(one) is type(instrument)]
            if same_class != [instrument]:
                self._instruments = (*(one for one in self._instruments if one not in same_class), instrument)
                self._rebuild()

    def only(self, kind: type[Kind], make: Callable[[], Kind]) -> Kind:
        """Return the listener of this class; without one, add the result of `make`."""
        with self._lock:
            for one in self._instruments:
                if isinstance(one, kind):
                    return one
            made = make()
            self._instruments += (made,)
            self._rebuild()
            return made

    def remove(self, instrument: Instrument) -> None:
        """Remove the instrument; an unknown one is ignored."""
        with self._lock:
            self._instruments = tuple(i for i in self._instruments if i is not instrument)
            self._rebuild()

    def __iter__(self) -> Any:
        return iter(self._instruments)

    def _rebuild(self) -> None:
        for name in HOOKS:
            listeners = [i for i in self._instruments if getattr(type(i), name) is not getattr(Instrument, name)]
            setattr(self, name, self._caller(name, listeners) if listeners else None)

    def _caller(self, name: str, listeners: list[Instrument]) -> Callable[..., None]:
        bound = [(listener, getattr(listener, name)) for listener in listeners]

        def call(*args: Any) -> None:
            for listener, hook in bound:
                try:
                    hook(*args)
                except Exception:
                    self._raised(listener, name)

        def call_one(*args: Any) -> None:
            try:
                hook(*args)
            except Exception:
                self._raised(listener, name)

        def call_one_executed(
            model: Any,
            version: Any,
            instance: Any,
            number: Any,
            requests: Any,
            size: Any,
            why: Any,
            times: Any,
            failed: Any,
            now: Any,
        ) -> None:
            try:
                hook(model, version, instance, number, requests, size, why, times, failed, now)
            except Exception:
                self._raised(listener, name)

        listener, hook = bound[0]
        if len(bound) > 1:
            return call
        # called by each execution: half the time of a call that packs its arguments into a tuple
        return call_one_executed if name == "batch_executed" else call_one

    def _raised(self, listener: Instrument, hook: str) -> None:
        self.remove(listener)
        _log.exception("instrument %r raised in hook %s and was removed", listener, hook)
