"""The metrics of a server's models as they change: custom metrics from the record, and Triton's own for one model."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ....core.plain_facts import plain
from ....core.status import InvalidArgumentError, UnavailableError
from ....figures.axes import axes_of
from ....record.metric_record import CHANGES, Key, MetricRecord
from ....record.recording import Recording
from ....record.ring import Ring
from ..figures.metrics_figure import changed_series, label_text, metrics_figure, plot_metrics, series_text
from .record_view import RecordView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Triton's own metrics that show the work of a model.
_OWN = (
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_exec_count",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_pending_request_count",
)
_LINE = re.compile(r"^(\w+)\{([^}]*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
#: Seconds between two readings of Triton's own metrics, or of memory.
EVERY = 1.0
#: The most lines of the text.
_SHOWN = 30


class Metrics(RecordView):
    """A view of metrics: all changes of custom metrics, and Triton's own, which are read while a view is open. `own`
    returns the server's metrics text; it is None for a recording from a file.
    """

    MODULE = "metrics.js"
    LABEL = "Metrics"
    #: why the view is empty
    NOTHING: ClassVar[str] = "no custom metric has changed yet"

    def __init__(self, recording: Recording, name: str, own: Callable[[], str] | None = None) -> None:
        super().__init__(recording, name, (lambda: {}) if own is not None else None)
        self.update(capacity=CHANGES, nothing=f"{self.NOTHING.capitalize()}.")
        self._text_of = own
        self._own = MetricRecord()
        self._read_at = 0.0
        #: changes when the record begins again
        self._epoch = id(self)
        self._numbers: dict[Key, int] = {}
        self._rows_sent: dict[Key, int] = {}
        self._families_sent: dict[str, Any] = {}

    def _resume(self, known: Mapping[str, Any]) -> None:
        rows = {int(number): int(row) for number, row in known.get("rows", {}).items()}
        again = known.get("epoch") == self._epoch
        self._rows_sent = {key: rows.get(number, 0) for key, number in self._numbers.items()} if again else {}
        self._families_sent = {}

    def news(self) -> tuple[dict[str, Any] | None, list[bytes]]:
        now = time.monotonic()
        if self._text_of is not None and now - self._read_at >= EVERY:
            self._read_at = now
            self._read(self._text_of(), time.monotonic_ns())
        rows, buffers = [], []
        for record in (self.recording.metrics, self._own):
            for key, (at, oldest, data) in record.since(self._rows_sent).items():
                if not data:
                    continue
                number = self._numbers.setdefault(key, len(self._numbers))
                name, labels = key
                rows.append({"number": number, "name": name, "labels": labels, "at": at, "oldest": oldest})
                buffers.append(data)
                self._rows_sent[key] = at + len(data) // 16
        families = {**self.recording.metrics.families, **self._own.families}
        message: dict[str, Any] = {"kind": "record", "epoch": self._epoch, "now": time.monotonic_ns(), "rows": rows}
        if families != self._families_sent:
            self._families_sent = message["families"] = families
            message["warnings"] = self.recording.metrics.warnings()
        return (message, buffers) if rows or "families" in message else (None, [])

    def begin_again(self) -> None:
        """Begin to send the record again; the browser drops the rows that it has."""
        self._epoch += 1
        self._rows_sent, self._numbers, self._families_sent = {}, {}, {}

    def _read(self, text: str, now: int) -> None:
        """Read Triton's own metrics of the model from the text of /metrics."""
        kinds = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
        for line in text.splitlines():
            found = _LINE.match(line)
            if found is None or found[1] not in _OWN:
                continue
            labels = dict(_LABEL.findall(found[2]))
            if labels.pop("model", None) == self.name:
                kind = kinds.get(found[1], "gauge")
                # read now and then: two readings are joined by a slope, not a jump
                self._own.describe(found[1], "sampled" if kind == "counter" else kind, "Triton's own")
                known = {"version": labels.get("version", "")}
                if "reason" in labels:  # of failed requests
                    known["reason"] = labels["reason"]
                self._own.add(found[1], known, float(found[3]), now)

    def stamp(self) -> object:
        return sum(ring.total for ring in self.recording.metrics.series().values())

    def text(self) -> str:
        record = self.recording.metrics
        lines = [
            f"  {name}{label_text(labels)} {series_text(record, (name, labels), ring)}"
            for (name, labels), ring in sorted(record.series().items())
        ]
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        sets = "1 label set" if len(lines) == 1 else f"{len(lines)} label sets"
        first = f"Custom metrics: {sets}." if lines else "Custom metrics: none has changed yet."
        return "\n".join([first, *lines[:_SHOWN], *more, *(f"  warning: {text}" for text in record.warnings()[:5])])

    def to_dict(self) -> dict[str, Any]:
        record = self.recording.metrics
        series = [
            {"name": name, "labels": dict(labels), "kind": record.families.get(name, ("",))[0], **_last(ring)}
            for (name, labels), ring in sorted(record.series().items())
        ]
        return {"model": self.name, "series": series, "warnings": record.warnings()}

    def figure(self) -> str:
        """Return the changes as SVG text."""
        return metrics_figure(self.recording.metrics, self.recording.wall, f"{self.LABEL} of {self.name}")

    def plot(self, ax: Axes | None = None, names: str | Sequence[str] | None = None) -> Axes:
        """Draw the changes over the time of day with matplotlib and return the Axes: a line for each set of labels, in
        the metric's own unit, bytes in MiB. `ax`: where to draw, instead of in a new figure; `names`: only these
        metrics. Raises ImportError without matplotlib, UnavailableError if there was no change yet, and
        InvalidArgumentError for an unknown name.
        """
        self._renew_record()
        record = self.recording.metrics
        series = changed_series(record)
        if not series:
            raise UnavailableError(f"there is nothing to plot: {self.NOTHING}")
        wanted = {names} if isinstance(names, str) else set(names or ())
        if missing := wanted - {key[0] for key, _ in series}:
            known = ", ".join(sorted({key[0] for key, _ in series}))
            raise InvalidArgumentError(f"no metric '{min(missing)}' has a value; those that have one: {known}")
        ax, chosen = axes_of(ax), [one for one in series if not wanted or one[0][0] in wanted]
        plot_metrics(ax, record, series=chosen, wall=self.recording.wall, title=f"{self.LABEL} of {self.name}")
        return ax

    def last_time(self) -> float:
        rings = [ring for ring in self.recording.metrics.series().values() if len(ring)]
        return max((float(ring.rows(ring.total - 1)[0, 0]) for ring in rings), default=0)

    def _renew_record(self) -> None:
        """Measure the metrics that are only measured on request."""

    def html(self) -> str:
        text = self.text()
        return self.page(text, text, self.figure(), has_captions=False)


def _last(ring: Ring) -> dict[str, Any]:
    """Return how often a series has changed, and its last value."""
    rows = ring.rows()
    return {"changes": ring.total, "value": plain(float(rows[-1, 1])) if len(rows) else None}
