"""The streams of a decoupled model: a lane for each request, a mark for each response, and the open requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ....core.inference.infer_request import InferenceRequest
from ....core.plain_facts import plain
from ....core.short_number import ns_text
from ....record.model_record import ModelRecord
from ....record.record_facts import StreamFacts, cancel_verdict, names_by_serial, stream_facts
from ....record.recording import Recording
from ..figures.streams_figure import streams_figure
from .record_view import Live, RecordView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The most open requests that are listed one by one.
_SHOWN = 100
_OLDEST = 5

Open = Callable[[], list[tuple[InferenceRequest, str, bool]]]


class Streams(RecordView):
    """A view of streams. `open_requests` returns the requests in execution (`profile.live_state`); it is None for a
    recording from a file.
    """

    MODULE = "streams.js"
    LABEL = "Streams"
    TABLES = ("responses", "streams", "requests", "batches")

    def __init__(
        self, recording: Recording, name: str, live: Live | None = None, open_requests: Open | None = None
    ) -> None:
        super().__init__(recording, name, live)
        self._open = open_requests

    def cancel(self, serial: int) -> bool:
        """Cancel a request, and measure how long that takes; return False if it is over."""
        now = time.monotonic_ns()
        found = next((one for one, _, _ in (self._open() if self._open else []) if one.serial == serial), None)
        if found is None:
            return False
        record = self.record
        with record.lock:
            cancelling = record.cancelling_of(serial)
            cancelling.asked = cancelling.asked or now
        found.cancel()
        return True

    def on_view_message(self, content: Mapping[str, Any]) -> None:
        if content.get("do") == "cancel":
            self.cancel(int(content["serial"]))

    def live_of(self, record: ModelRecord) -> dict[str, Any]:
        return {"open": [self._facts_of(record, *one) for one in (self._open() if self._open else [])[:_SHOWN]]}

    @staticmethod
    def _facts_of(record: ModelRecord, request: InferenceRequest, instance: str, executes: bool) -> dict[str, Any]:
        cancelling = record.cancelling.get(request.serial)
        return {
            "serial": request.serial,
            "id": request.request_id,
            "arrived": request.request_start,
            "executed": request.execute_start,
            "instance": instance,
            "executes": executes,
            "polls": cancelling.polls if cancelling else 0,
            "asked": cancelling.asked if cancelling else 0,
            "noticed": cancelling.noticed if cancelling else 0,
        }

    def cancellations(self) -> list[str]:
        """Return a sentence about each request that a view cancelled, with its end."""
        record, now = self.record, time.monotonic_ns()
        with record.lock:
            ended, names = record.streams.rows(), names_by_serial(record)
            running = [(serial, one.polls, one.asked, one.noticed) for serial, one in record.cancelling.items()]
        columns = record.streams.columns
        verdicts = [
            (serial, cancel_verdict(int(row["polls"]), row["asked"], noticed=row["noticed"], end=row["end"], now=0))
            for row in (dict(zip(columns, numbers, strict=True)) for numbers in ended.tolist())
            if (serial := int(row["serial"]))
        ]
        verdicts += [
            (serial, cancel_verdict(polls, asked, noticed=noticed, end=0, now=now))
            for serial, polls, asked, noticed in running
        ]
        return [f"{names.get(serial) or f'request {serial}'}: {verdict}" for serial, verdict in verdicts if verdict]

    def text(self) -> str:
        facts, now = stream_facts(self.record), time.monotonic_ns()
        lines = [f"Streams of {self.name}: {_summary(facts)}"]
        if facts.responses:
            lines.append(f"  first response  median {ns_text(facts.first[0])}, 95% below {ns_text(facts.first[1])}")
            lines.append(f"  gap             median {ns_text(facts.gap[0])}, 95% below {ns_text(facts.gap[1])}")
        if facts.empty_finals:
            lines.append(
                f"  {facts.empty_finals} ended with an empty final response: a gRPC client sees that end only with "
                "triton_enable_empty_final_response"
            )
        is_live = self._open is not None
        for serial, name, count, arrived in sorted(facts.open, key=lambda one: one[3])[:_OLDEST]:
            age = f" for {ns_text(now - arrived)}" if is_live else ""
            lines.append(f"  {name or f'request {serial}'}: {count} responses, final flag not sent yet{age}")
        return "\n".join([*lines, *(f"  {verdict}" for verdict in self.cancellations()[-_OLDEST:])])

    def to_dict(self) -> dict[str, Any]:
        facts = stream_facts(self.record)
        words = ("serial", "id", "responses", "arrived")
        still = [dict(zip(words, one, strict=True)) for one in facts.open[:_SHOWN]]
        return {"model": self.name, **plain(vars(facts)), "open": still, "cancellations": self.cancellations()}

    def figure(self) -> str:
        """Return the last streams as SVG text."""
        return streams_figure(self.record, self.recording.wall).svg()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the last streams over the time of day with matplotlib and return the Axes: a lane for each request, a
        mark for each response. `ax`: where to draw, instead of in a new figure. Raises ImportError without matplotlib,
        and UnavailableError if there was no stream yet.
        """
        nothing = f"'{self.name}' has had no stream of responses yet"
        return streams_figure(self.record, self.recording.wall).plot(ax, f"Streams of {self.name}", nothing)

    def html(self) -> str:
        text = self.text()
        return self.page(text, text, self.figure())


def _summary(facts: StreamFacts) -> str:
    if not facts.ended and not facts.open:
        return "no stream of responses yet."
    failed = f", {facts.failed} failed" if facts.failed else ""
    waits = f", {len(facts.open)} still open" if facts.open else ""
    return f"{facts.ended} ended{failed}{waits}; {facts.responses} responses."
