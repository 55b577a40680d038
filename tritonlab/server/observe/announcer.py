"""The events of a server, passed on to its hooks and its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...core.clock import Clock
from ...core.inference.infer_request import InferenceRequest
from ...core.observe.instrument import Instruments
from ...ipc.processes.stub_log import LogBook, LogRecord
from ..models.model_lifecycle import ModelVersion
from .requests_in_flight import HeldRequest


class Announcer:
    """One method for each callback of a part of the server; any thread may call it."""

    def __init__(self, clock: Clock, instruments: Instruments) -> None:
        self._clock = clock
        self._instruments = instruments
        self.log = LogBook(self._logged)

    def _logged(self, record: LogRecord) -> None:
        if (hook := self._instruments.log) is not None:
            hook(record)

    def say(self, level: str, text: str) -> None:
        """Add a line of the server's own to the log."""
        self.log.add(LogRecord.from_server(level, text))

    def _tell(self, hook: Callable[..., None] | None, *facts: object) -> None:
        """Call a hook that has listeners, with the facts and then the time."""
        if hook is not None:
            hook(*facts, self._clock.now())

    def metric_made(
        self, name: str, kind: str, description: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> None:
        self._tell(self._instruments.metric_made, name, kind, description, labels, buckets)

    def metric(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self._tell(self._instruments.metric, name, labels, value)

    def called(self, request: InferenceRequest, instance: str, batch_id: int) -> None:
        if (hook := self._instruments.request_called) is not None:
            hook(request, instance, batch_id, self._clock.now())

    def polled(self, request: InferenceRequest) -> None:
        if (hook := self._instruments.request_polled) is not None:
            hook(request, self._clock.now())

    def model_state(self, version: ModelVersion, reason: str) -> None:
        state = self._instruments.model_state
        self._tell(state, version.identifier, version.version, version.state.value, reason)

    def requests_wait(self, held: HeldRequest, text: str) -> None:
        self._waits(held.version, held.instance.plan.name if held.instance is not None else "", text)

    def unloading_waits(self, version: ModelVersion, text: str) -> None:
        self._waits(version, "", text)

    def _waits(self, version: ModelVersion, instance: str, text: str) -> None:
        self.log.add(LogRecord.from_server("WARNING", text, version.name, version.version, instance=instance))
        self._tell(self._instruments.requests_wait, version.name, text)
