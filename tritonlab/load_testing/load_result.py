"""The result of a load test: a row for each level of load, as text, HTML, JSON and CSV."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.axes import axes_of
from ..core.html_table import table
from ..core.status import UnavailableError
from ..core.stored_picture import date_line, stored_picture
from .load_figure import load_figure, plot_load
from .load_row import LoadRow
from .load_text import cells, heads, notes, table_lines
from .perf_csv import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The most rows, and the most sentences after them, that the text shows: 40 lines in all.
_ROWS, _NOTES = 24, 12
#: All columns that there may be fit 1000 px.
_CELL = "padding:1px 9px 1px 0;font-size:12px"


class LoadResult:
    """The rows of a load test. `place`: where the model was; `mode`: `concurrency`, `request_rate` or `arrivals`;
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
        Path(path).write_text(csv_text(self.mode, self.rows), encoding="utf-8")
        return Path(path)

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
        """Return the latency against the throughput as SVG text; empty for less than two rows."""
        return load_figure(self.model, self.mode, self.rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the latency against the throughput with matplotlib and return the Axes: p50 and p99 of each row, with
        its level of load. `ax`: where to draw, instead of in a new figure. Raises ImportError without matplotlib, and
        UnavailableError if no request succeeded.
        """
        rows = [row for row in self.rows if row.latency is not None]
        if not rows:
            raise UnavailableError(f"there is nothing to plot: no request to '{self.model}' succeeded")
        ax = axes_of(ax)
        plot_load(ax, self.model, self.mode, rows)
        return ax

    def html(self, *, live: bool = False) -> str:
        """Return table and figure: inline SVG for a live view, else an image, with the date. It uses classes of
        `theme.css`, and also reads well without any style.
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

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()
