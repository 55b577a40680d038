"""Lines of a log, in which lines of a model's file are cited as the cell's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ...core.plain_facts import MOST_LINES
from ..views.theme import stored_html
from .cell_places import Places

if TYPE_CHECKING:
    from ...ipc.processes.stub_log import LogRecord

#: Marks of a text that may cite files.
_CITES = ('File "', "\nAt:\n", "Warning: ")


@dataclass(frozen=True)
class LogLine:
    """One line as it is shown. `place` is where pb_utils.Logger was called, "Cell In[3], line 7"; else empty."""

    record: LogRecord
    place: str
    text: str

    @staticmethod
    def from_record(record: LogRecord, places: Places) -> LogLine:
        """Make the line of a record. `places` gets the place in the form of a traceback, and texts that may be lines of
        a traceback or a warning."""
        text = places(record.text) if any(mark in record.text for mark in _CITES) else record.text
        if not record.line:
            return LogLine(record, "", text)
        location = f'File "{record.file}", line {record.line}'
        place = places(location)
        return LogLine(record, f"{PurePath(record.file).name}:{record.line}" if place == location else place, text)

    def where(self, level: bool) -> str:
        """Return the instance, the level if `level` and it is not INFO, and the place."""
        record = self.record
        level_text = record.level if level and record.line and record.level != "INFO" else ""
        return "".join(f"{part}  " for part in (record.instance or record.model, level_text, self.place) if part)


class LogView:
    """Lines that models printed and logged; those of pb_utils.Logger with their level and place."""

    def __init__(self, records: Iterable[LogRecord], places: Callable[[LogRecord], Places]) -> None:
        """Read the records. `places` returns the function that cites cells for the version that wrote a record."""
        self.lines = [LogLine.from_record(record, places(record)) for record in records]

    def to_dict(self) -> dict[str, Any]:
        """Return the lines as JSON values."""
        names = ("time_ns", "model", "version", "instance", "stream", "level", "pid", "request_ids", "serials")
        return {
            "lines": [
                {**{name: getattr(line.record, name) for name in names}, "where": line.place or None, "text": line.text}
                for line in self.lines
            ]
        }

    def __repr__(self) -> str:
        """Return the last lines, with the last events."""
        lines = "\n".join(line.where(level=True) + line.text for line in self.lines).split("\n")
        left = len(lines) - MOST_LINES + 1
        displayed = [f"… {left} lines before", *lines[left:]] if left > 1 else lines
        return "\n".join(displayed) or "no output"

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<div class='tl-{line.record.stream} tl-{line.record.level.lower()}'>"
            f"<span class='tl-dim'>{escape(line.where(level=False).strip())}</span>  {escape(line.text)}</div>"
            for line in self.lines
        )
        return stored_html(f"<div class='tl-panel'><pre class='tl-lines'>{lines or 'no output'}</pre></div>")
