"""The result of a load test: a row for each level of load, as text, HTML, JSON and CSV."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....core.plain_facts import Shown
from ....core.short_number import duration_text, short_number
from ....core.status import InvalidArgumentError
from ....core.whole_file import write_file
from ....figures.axes import time_unit
from ....figures.figure import Axis, Figure, Point, Points
from ....figures.stored_picture import date_line, stored_picture
from ....figures.svg_picture import BLUE, ORANGE
from ....figures.tables import table
from ...saved_result import ResultChange, ResultComparison, read_result, save_result
from .load_plan import CONCURRENCY
from .load_row import LoadRow
from .load_text import HEADS, cells, heads, notes, table_lines, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The name of the tool in saved results.
TOOL = "load_test"

#: The lines of the figure, and their colours.
LINES = (("p50", BLUE), ("p99", ORANGE))

#: The columns after the level of load, as perf_analyzer writes them; times are whole microseconds.
COLUMNS = (
    *("Inferences/Second", "Client Send", "Network+Server Send/Recv", "Server Queue", "Server Compute Input"),
    *("Server Compute Infer", "Server Compute Output", "Client Recv"),
    *("p50 latency", "p90 latency", "p95 latency", "p99 latency"),
)

#: The further columns with tokens, in AIPerf's words; times are whole microseconds.
TOKEN_COLUMNS = (
    "Output Token Throughput",
    *(f"{name} {of}" for name in ("Time to First Token", "Inter Token Latency") for of in ("avg", "p50", "p99")),
)

#: The most rows, and the most sentences after them, in the text: 40 lines in all.
_ROWS, _NOTES = 24, 12
#: All possible columns fit into 1000 px.
_CELL = "padding:1px 9px 1px 0;font-size:12px"


class LoadResult(Shown):
    """The rows of a load test. `place`: where the model ran; `mode`: `concurrency`, `request_rate` or `arrivals`;
    `stopped`: why the test ended early, `interrupted` for example, else empty.
    """

    def __init__(self, model: str, place: str, mode: str, rows: Sequence[LoadRow], stopped: str = "") -> None:
        self.model = model
        self.place = place
        self.mode = mode
        self.rows = tuple(rows)
        self.stopped = stopped
        self._when = time.time()

    @property
    def best(self) -> LoadRow | None:
        """The row with the highest throughput; None if nothing was measured."""
        return max(self.rows, key=lambda row: row.inferences_per_s, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values: `model`, `place`, `mode`, `stopped`, and `rows` as in `LoadRow.to_dict`."""
        rows = [row.to_dict() for row in self.rows]
        return {"model": self.model, "place": self.place, "mode": self.mode, "stopped": self.stopped, "rows": rows}

    def to_csv(self, path: str | PathLike[str]) -> Path:
        """Write the columns of perf_analyzer's `-f`: inferences per second, times in microseconds. Columns that the
        server does not report are empty. Raises OSError.
        """
        write_file(path, _csv_text(self.mode, self.rows))
        return Path(path)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the result to a JSON file, for `compare` of a later one. Raises OSError."""
        return save_result(path, TOOL, self.to_dict())

    def compare(self, earlier: Any, tolerance: float = 0.1) -> ResultComparison:
        """Compare the throughput, p50, p99 and failures of each level of load with those of an earlier result.

        Args:
            earlier: the path of a saved result, a result, or its `to_dict()`.
            tolerance: the share by which a number may be worse.

        Raises InvalidArgumentError if it is not the result of a load test, or has no level of load in common.
        """
        before = read_result(earlier, TOOL, "mode", "rows")
        rows = {row["level"]: row for row in before["rows"]} if before["mode"] == self.mode else {}
        both = [(rows[row.level], row) for row in self.rows if row.level in rows]
        changes = [change for old, row in both for change in _changes(old, row, tolerance)]
        if not changes:
            raise InvalidArgumentError("the two results have no level of load in common, so nothing can be compared")
        return ResultComparison(f"Load test of {self.model}", changes)

    def text(self) -> str:
        """Return the facts in words, 40 lines at most."""
        lines = [self._title()]
        if self.rows:
            lines += table_lines(self.mode, self.rows[:_ROWS])
        if len(self.rows) > _ROWS:
            lines.append(f"… {len(self.rows) - _ROWS} more rows: to_dict(), to_csv(path)")
        sentences = notes(self.mode, self.rows)
        lines += sentences[:_NOTES]
        if len(sentences) > _NOTES:
            lines.append(f"… {len(sentences) - _NOTES} more such sentences: to_dict()")
        return "\n".join(lines)

    def _title(self) -> str:
        stopped = f" ({self.stopped})" if self.stopped else ""
        return f"Load test of {self.model}, {self.place}{stopped}" + ("" if self.rows else ": nothing was measured")

    def figure(self) -> str:
        """Return the latency against the throughput as SVG text; empty for fewer than two rows."""
        return self._figure().svg() if sum(row.latency is not None for row in self.rows) > 1 else ""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the latency against the throughput with matplotlib and return the Axes: p50 and p99 of each row, with
        its level of load. `ax`: where to draw, instead of in a new figure. Raises ImportError without matplotlib, and
        UnavailableError if no request succeeded.
        """
        return self._figure().plot(ax, f"Load test of {self.model}", f"no request to '{self.model}' succeeded")

    def _figure(self) -> Figure:
        rows = [row for row in self.rows if row.latency is not None]
        size, unit = time_unit(max((row.latency.p99 for row in rows if row.latency), default=0))
        points = {name: [_point(row, name, size) for row in rows] for name, _ in LINES}
        note = f"numbers at the points: {HEADS[self.mode]}"
        most_rate = max((row.inferences_per_s for row in rows), default=0) * 1.05
        most_time = max((point.y for point in points["p99"]), default=0) * 1.08
        return Figure(
            f"latency against throughput of {self.model}",
            Axis("throughput, inferences/s", 0, most_rate, short_number, note=note),
            Axis("latency", 0, most_time, lambda value: duration_text(value * size / 1e6), unit),
            [Points(points[name], tone, name, shape="line") for name, tone in LINES],
        )

    def html(self, *, live: bool = False) -> str:
        """Return table and figure: inline SVG for a live view, else an image, with the date. It uses classes of
        `theme.css`, and is also legible without styles.
        """
        columns = heads(self.mode, self.rows) if self.rows else []
        lines = [cells(self.mode, row, columns) for row in self.rows]
        found = table(columns, lines, numbers=range(len(columns)), look=_CELL) if columns else ""
        warnings = "".join(
            f"<div class='tl-warn'>{escape(note)}</div>" for note in notes(self.mode, self.rows)[:_NOTES]
        )
        figure = self.figure()
        if not live:
            figure = stored_picture(figure, self._when, self.text()) + date_line(self._when)
        return f"<div class='tl-panel'><b>{escape(self._title())}</b>{found}{warnings}{figure}</div>"


def _changes(before: Mapping[str, Any], row: LoadRow, tolerance: float) -> Iterator[ResultChange]:
    at = f"at {row.level:.6g}: "
    rates = before["inferences_per_s"], row.inferences_per_s
    ratio = f"{rates[1] / rates[0]:.2f} x" if rates[0] else ""
    is_slower = rates[1] < rates[0] * (1 - tolerance)
    yield ResultChange(f"{at}inferences/s", short_number(rates[0]), short_number(rates[1]), is_slower, ratio)
    for name in ("p50", "p99"):
        old, new = (before["latency_us"] or {}).get(name), getattr(row.latency, name, None)
        if old and new:
            is_slower = new > old * (1 + tolerance)
            yield ResultChange(f"{at}{name}", time_text(old), time_text(new), is_slower, f"{new / old:.2f} x")
    yield ResultChange(f"{at}failed", str(before["failed"]), str(row.failed), row.failed > before["failed"])


def _csv_text(mode: str, rows: Sequence[LoadRow]) -> str:
    """Return the file's text, in the order of throughput. Columns that the server does not report are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    counted = TOKEN_COLUMNS if any(row.tokens is not None for row in rows) else ()
    writer.writerow(["Concurrency" if mode == CONCURRENCY else "Request Rate", *COLUMNS, *counted])
    for row in sorted(rows, key=lambda row: row.inferences_per_s):
        server, latency = row.server, row.latency
        times: list[float | None] = [row.client_send_us, row.network_us]
        times += [server.queue_us, server.compute_input_us, server.compute_infer_us] if server else [None] * 3
        times += [server.compute_output_us if server else None, row.client_receive_us]
        times += [latency.p50, latency.p90, latency.p95, latency.p99] if latency else [None] * 4
        found = [f"{row.level:.6g}", f"{row.inferences_per_s:.6g}", *("" if t is None else round(t) for t in times)]
        if counted:
            found += [f"{row.tokens.output_token_throughput:.6g}"] if row.tokens else [""]
            for name in ("time_to_first_token", "inter_token_latency"):
                spread = getattr(row.tokens, name, None)
                found += [round(spread.avg), round(spread.p50), round(spread.p99)] if spread else [""] * 3
        writer.writerow(found)
    return text.getvalue()


def _point(row: LoadRow, name: str, size: float) -> Point:
    level, rate, time = short_number(row.level), short_number(row.inferences_per_s), getattr(row.latency, name)
    title = f"{level}: {rate}/s, {name} {time_text(time)}"
    return Point(row.inferences_per_s, time / size, title, level if name == "p99" else "")
