"""`RecordView`, the base of views of a record: it sends a model's record to the browser while the view is open there
(`recordLink.ts` is the other half).

Its static form, for saved notebooks and nbconvert, is renewed after a burst of events, and at the end of each cell with
new events: so it is also correct without a browser. The next view of the same kind and model fixes it.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from html import escape
from typing import Any, ClassVar

from ....figures.stored_picture import date_line, stored_picture
from ....record.model_record import ModelRecord
from ....record.recorder import Recorder
from ....record.recording import Recording
from ..ticker import TICKER, Ticker, ViewEnded
from ..widget import LiveView, in_kernel

#: The kinds of views, made by `opening`, each with other words for it; the first is the default.
KINDS = {
    "timeline": "batch batches batching executions gantt requests",
    "streams": "responses stream tokens",
    "metrics": "charts gauges",
    "graph": "bls calls ensemble flow pipeline steps",
    "memory": "gpu leak leaks ram",
}
#: The version of the messages between the ES module and this class; a saved view of another version reports it.
PROTOCOL = 1
#: The most rows of one message: a long record is sent in pieces.
_ROWS = 20_000
#: Seconds without a message from the browser after which its view counts as closed.
_PATIENCE = 300.0
#: Seconds after the last event until the static form is renewed.
_REST = 2.0

_log = logging.getLogger(__name__)

Live = Callable[[], dict[str, Any]]


class RecordView(LiveView):
    """A view of one model. `live` returns the current state (`record.live_state`); None for a recording from a file."""

    #: the title of the view, before the model's name
    LABEL: ClassVar[str]
    #: the tables of the record that the module reads
    TABLES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, recording: Recording, name: str, live: Live | None = None, ticker: Ticker = TICKER) -> None:
        self.recording = recording
        self.name = name
        #: raises once recording has ended
        self.check: Callable[[], None] = lambda: None
        #: called with True when the first browser opens this view, with False when none has it open
        self.watched: Callable[[bool], None] = lambda on: None
        self._live = live
        self._ticker = ticker
        #: whether a browser has it open
        self.is_watched = False
        self._sending = threading.Lock()  # guards the next five: a browser may open it while the ticker sends
        self._sent: dict[str, int] = {}
        self._words: dict[str, int] = {}
        self._marks = 0
        self._epoch = 0
        self._live_sent: dict[str, Any] = {}
        self._message_at = 0.0
        self._changed_at: float | None = None
        self._noticed: object = None
        self._frozen: object = None
        record = recording.model(name)
        columns = {table: list(record.tables[table].columns) for table in self.TABLES}
        super().__init__(
            protocol=PROTOCOL,
            title=name,
            label=f"{self.LABEL} of {name}",
            columns=columns,
            capacity=recording.events,
            live=live is not None,
            # nanoseconds to add to a time of the record for the local time of day; None for a recording without it
            wall=recording.wall + time.localtime().tm_gmtoff * 1_000_000_000 if recording.wall else None,
        )

    @property
    def subject(self) -> Hashable:
        return type(self), self.name, self._live is not None

    @property
    def record(self) -> ModelRecord:
        """The current record of the model: a new one after `recording.clear()`."""
        return self.recording.model(self.name)

    # -- the browser's side

    def on_message(self, content: Mapping[str, Any]) -> None:
        self._message_at = time.monotonic()
        what = content.get("do")
        if what == "open":
            with self._sending:
                self._resume(content.get("known") or {})
            self._ticker.add(self)
            self._watch(True)
        elif what == "close":
            self._ticker.remove(self)
            self._watch(False)
            self.renew()
        elif what != "alive":
            self.on_view_message(content)

    def on_view_message(self, content: Mapping[str, Any]) -> None:
        """Handle other requests of the module."""

    def _resume(self, known: Mapping[str, Any]) -> None:
        """Continue after the rows that the browser already has."""
        self._epoch = int(known.get("epoch") or 0)
        self._sent = {table: int(row) for table, row in known.get("rows", {}).items()}
        self._words = {kind: int(count) for kind, count in known.get("words", {}).items()}
        self._marks = int(known.get("marks", 0))
        self._live_sent = {}

    # -- the ticker's side

    def tick(self) -> None:
        now = time.monotonic()
        if now - self._message_at > _PATIENCE:
            self._ticker.remove(self)  # the page was closed; a page that opens sends a message
            self._watch(False)
            return
        with self._sending:
            self.send_news()
        self.check()
        stamp = self.stamp()
        if stamp != self._noticed:
            self._noticed, self._changed_at = stamp, now
        elif self._changed_at is not None and now - self._changed_at > _REST:
            self._changed_at = None
            self.renew()

    def send_news(self) -> None:
        message, buffers = self.news()
        if message is not None:
            self.send(message, buffers)

    def _watch(self, on: bool) -> None:
        if on is not self.is_watched:
            self.is_watched = on
            self.watched(on)

    def failed(self, error: Exception) -> None:
        self._watch(False)
        why = str(error) if isinstance(error, ViewEnded) else f"{type(error).__name__}: {error}"
        self.send({"kind": "problem", "text": f"This view has stopped: {why}"})

    def news(self) -> tuple[dict[str, Any] | None, list[bytes]]:
        """Return the rows that the browser does not have yet; None if it has all."""
        live = self._live() if self._live is not None else {}
        record = self.record
        with record.lock:
            if record.epoch != self._epoch:
                self._epoch, self._sent, self._words, self._marks, self._live_sent = record.epoch, {}, {}, 0, {}
            message, buffers = self._rows(record)
            words = record.words.since(self._words)
            marks = [list(mark) for mark in record.marks_since(self._marks)]
            message["marks"], message["dropped"] = marks, record.dropped
            self._marks = record.mark_count
            live |= self.live_of(record)
        message["words"] = words
        self._words |= {kind: had + len(more) for kind, (had, more) in words.items()}
        if live != self._live_sent or live.get("running"):
            message["live"] = self._live_sent = live
        if not buffers and not marks and not words and "live" not in message:
            return None, []
        return {**message, "kind": "record", "epoch": self._epoch, "now": time.monotonic_ns()}, buffers

    # -- the static form

    def stamp(self) -> object:
        """Return a value that changes with each new event."""
        record = self.record
        return record.epoch, record.mark_count, *(ring.total for ring in record.tables.values())

    def renew(self) -> None:
        """Renew the static form if there are new events since the last renewal."""
        stamp = self.stamp()
        if stamp != self._frozen:
            self.freeze()
            self._frozen = stamp

    def show(self, around: Any = None) -> None:
        self._frozen = self.stamp()
        super().show(around)
        shell = importlib.import_module("IPython").get_ipython()
        if shell is not None and in_kernel():  # a terminal would print it below every cell
            shell.events.register("post_run_cell", _renew_all)  # registers once for any number of calls
            _shown.append(weakref.ref(self))

    def close(self) -> None:
        self._ticker.remove(self)
        self._watch(False)
        super().close()

    def page(self, words: str, text: str, *figures: str, has_captions: bool = True, more: str = "") -> str:
        """Return the static form: words, pictures (SVG text) with their captions and alternatives, `more` HTML, and the
        time of the last event, unless the recording lacks the wall clock.
        """
        last = self.last_time()
        when = (last + self.recording.wall) / 1e9 if last else time.time()
        is_known = bool(self.recording.wall) or not last
        pictures = "".join(
            stored_picture(svg, when if is_known else None, text if n == 0 else "", has_caption=has_captions)
            for n, svg in enumerate(figures)
        )
        lines = escape(words).replace("\n", "<br>")  # a sanitizer drops the style that would keep the line breaks
        date = date_line(when) if is_known else ""
        return f"<div class='tl-panel'><div class='tl-text'>{lines}</div>{pictures}{more}{date}</div>"

    def last_time(self) -> float:
        """Return the time of the last event that the view shows, on the record's clock; 0 if there is none."""
        with self.record.lock:
            return self.record.last_time()

    def live_of(self, record: ModelRecord) -> dict[str, Any]:
        """Return more of the current state, from the record, whose lock is held."""
        return {}

    def _rows(self, record: ModelRecord) -> tuple[dict[str, Any], list[bytes]]:
        rows, buffers, done = [], [], True
        ids: list[tuple[int, str]] = []
        for table in self.TABLES:
            ring = record.tables[table]
            first, data = ring.since(self._sent.get(table, 0), _ROWS)
            if not data:
                continue
            end = first + len(data) // (8 * len(ring.columns))
            if table == "requests":
                ids = [(row, text) for row, text in record.ids_since(first) if row < end]
            rows.append({"table": table, "at": first, "oldest": ring.dropped})
            buffers.append(data)
            self._sent[table] = end
            done &= end == ring.total
        return {"rows": rows, "ids": ids, "done": done}, buffers


#: The views that cells have shown last. Views of cells that ran again are no longer visible, but nothing reports that.
_shown: deque[weakref.ref[RecordView]] = deque(maxlen=12)


def _renew_all(result: object) -> None:
    """Renew the static forms at the end of a cell."""
    for known in list(_shown):
        view = known()
        try:
            if view is not None:
                view.renew()
        except Exception:
            _shown.remove(known)
            _log.exception("the static form of %r cannot be renewed any more", type(view).__name__)


def recorded(model: Any) -> Any:
    """Return the recording of a model's server; None if nothing is recorded, and for a server elsewhere."""
    server = getattr(model, "server", None)
    for listener in server.instruments if server is not None else ():
        if isinstance(listener, Recorder):
            return listener.recording
    return None
