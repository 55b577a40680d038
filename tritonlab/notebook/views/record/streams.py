"""The streams of a decoupled model: a lane for each request, a mark for each response, the open requests, and the
texts of the last streams as they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any

from ....core.inference.infer_request import InferenceRequest
from ....core.plain_facts import plain
from ....core.short_number import ns_text
from ....record.model_record import ModelRecord
from ....record.record_facts import StreamFacts, cancel_verdict, names_by_serial, stream_facts
from ....record.recording import Recording
from ..figures.streams_figure import streams_figure
from .record_view import Live, RecordView
from .stream_reading import GAP_LEGEND, StreamReading, panes_html, token_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The most open requests that are listed one by one.
_SHOWN = 100
_OLDEST = 5

Open = Callable[[], list[tuple[InferenceRequest, str, bool]]]


class Streams(RecordView):
    """A view of streams. `open_requests` returns the requests in execution (`record.live_state`); it is None for a
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
        #: by serial, the readings that the browser has, each with its number of pieces there
        self._shown: dict[int, tuple[StreamReading, int]] = {}
        self.update(gaps=list(GAP_LEGEND))

    # -- the texts

    def readings(self) -> list[StreamReading]:
        """Return the texts of the last streams, oldest first, each read up to now."""
        found = self._read({})
        for reading in found:
            reading.read()
        return found

    def _read(self, known: Mapping[int, StreamReading]) -> list[StreamReading]:
        """Return the readings of the texts that are kept: the known ones, and new ones for the others."""
        record = self.record
        names = {one.serial: one.request_id for one, _, _ in (self._open() if self._open else [])}
        found = []
        with record.lock:
            kept = list(record.texts.kept)
            if any(text.serial not in known for text in kept):
                names |= names_by_serial(record)
        for text in kept:
            reading = known.get(text.serial)
            if reading is None or reading.text is not text:
                reading = StreamReading(text, names.get(text.serial) or f"request {text.serial}")
            found.append(reading)
        return found

    def texts(self) -> dict[str, Any] | None:
        """Return the pieces of texts that the browser does not have yet; None if it has all."""
        readings = self._read({serial: reading for serial, (reading, _) in self._shown.items()})
        changed = [reading.read() for reading in readings]
        serials = [reading.text.serial for reading in readings]
        if not any(changed) and serials == list(self._shown):
            return None
        streams = []
        for reading, is_new in zip(readings, changed, strict=True):
            serial = reading.text.serial
            at = self._shown[serial][1] if serial in self._shown else 0
            if is_new or serial not in self._shown:
                streams.append({"at": at, **_pane(reading, at)})
        self._shown = {reading.text.serial: (reading, len(reading.pieces)) for reading in readings}
        return {"kind": "texts", "order": serials, "streams": streams, "times": token_times(readings)}

    def _resume(self, known: Mapping[str, Any]) -> None:
        super()._resume(known)
        self._shown = {}

    def send_news(self) -> None:
        super().send_news()
        if (message := self.texts()) is not None:
            self.send(message)

    # -- requests

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
            ended, names = list(record.streams.dicts()), names_by_serial(record)
            running = [(serial, one.polls, one.asked, one.noticed) for serial, one in record.cancelling.items()]
        verdicts = [
            (
                int(row["serial"]),
                cancel_verdict(int(row["polls"]), row["asked"], noticed=row["noticed"], end=row["end"], now=0),
            )
            for row in ended
        ]
        verdicts += [
            (serial, cancel_verdict(polls, asked, noticed=noticed, end=0, now=now))
            for serial, polls, asked, noticed in running
        ]
        return [f"{names.get(serial) or f'request {serial}'}: {verdict}" for serial, verdict in verdicts if verdict]

    def text(self) -> str:
        facts, now = stream_facts(self.record), time.monotonic_ns()
        lines = [f"Streams of {self.name}: {_summary(facts)}"]
        for name, (median, high) in (("first response", facts.first), ("gap           ", facts.gap)):
            if not isnan(median):
                lines.append(f"  {name}  median {ns_text(median)}, 95% below {ns_text(high)}")
        if facts.empty_finals:
            lines.append(
                f"  {facts.empty_finals} ended with an empty final response: a gRPC client sees that end only with "
                "triton_enable_empty_final_response"
            )
        readings = self.readings()
        if times := token_times(readings):
            lines.append(f"  tokens          {times}")
        lines += [f"  {reading.name}: {verdict}" for reading in readings for verdict in reading.verdicts()]
        is_live = self._open is not None
        for serial, name, count, arrived in sorted(facts.open, key=lambda one: one[3])[:_OLDEST]:
            age = f" for {ns_text(now - arrived)}" if is_live else ""
            lines.append(f"  {name or f'request {serial}'}: {count} responses, final flag not sent yet{age}")
        return "\n".join([*lines, *(f"  {verdict}" for verdict in self.cancellations()[-_OLDEST:])])

    def to_dict(self) -> dict[str, Any]:
        facts = stream_facts(self.record)
        words = ("serial", "id", "responses", "arrived")
        still = [dict(zip(words, one, strict=True)) for one in facts.open[:_SHOWN]]
        texts = [reading.to_dict() for reading in self.readings()]
        known = {"open": still, "cancellations": self.cancellations(), "texts": plain(texts)}
        return {"model": self.name, **plain(vars(facts)), **known}

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
        return self.page(text, text, self.figure(), more=panes_html(self.readings()))


def _pane(reading: StreamReading, at: int) -> dict[str, Any]:
    """Return the pane of a stream, with its pieces from `at` on, for the browser."""
    return {
        "serial": reading.text.serial,
        "name": reading.name,
        "pieces": [[piece.text, piece.gap, piece.wait] for piece in reading.pieces[at:]],
        "times": reading.times(),
        "verdicts": reading.verdicts(),
        "open": not reading.text.ended,
        "cut": reading.text.is_cut,
    }


def _summary(facts: StreamFacts) -> str:
    if not facts.ended and not facts.open:
        return "no stream of responses yet."
    failed = f", {facts.failed} failed" if facts.failed else ""
    waits = f", {len(facts.open)} still open" if facts.open else ""
    return f"{facts.ended} ended{failed}{waits}; {facts.responses} responses."
