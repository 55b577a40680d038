"""The result of `model.profile`: by line of the author's code, the time per batch size, or the kept memory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from html import escape
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.short_number import duration_text, short_number
from ..core.status import UnavailableError
from ..figures.axes import axes_of, name_lanes
from ..figures.stored_picture import date_line
from ..figures.svg_picture import BLUE, ORANGE, PURPLE, RED
from ..figures.tables import cell, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The lines that the text and the picture show.
_LINES = 15
#: The most columns of batch sizes.
_SIZES = 4
#: The lines around one with time that the margin shows too, and the most lines of a file that it shows whole.
_AROUND, _WHOLE = 3, 60
#: Eighths of a block, which are visible without a style, and the blocks of a bar.
_EIGHTHS, _BLOCKS = " ▏▎▍▌▋▊▉█", 12
_PLACE = re.compile(r"^(.*), line (\d+)")
#: Less padding than a table's cells have, so that most lines of code fit next to them.
_CELL = "padding:1px 9px 1px 0;font-size:12px;white-space:nowrap"
#: The tones of a bar's pieces, in their order.
_TONES = (BLUE, PURPLE, ORANGE, RED)
_MONO = "font-size:12px;font-family:var(--jp-code-font-family,monospace)"
_BESIDE = "threads beside it"

Cite = Callable[[str], str]


@dataclass
class ProfiledLine:
    """A line of the author's code. `place`: the cell or file; `line`: its number there. `times`: by batch size, 0 for
    threads besides `execute`, seconds of its own, seconds with the author's functions that it called, and how often it
    began, 0 if not counted. `kept` and `blocks`: bytes and pieces of memory that it still holds; `growth`: increase of
    these bytes since the middle of the profile.
    """

    file: str
    number: int
    place: str
    line: int
    text: str
    times: dict[int, tuple[float, float, int]] = field(default_factory=dict)
    kept: int = 0
    growth: int = 0
    blocks: int = 0

    @property
    def own(self) -> float:
        """Seconds of the line itself, and of libraries that it called."""
        return sum(own for own, _, _ in self.times.values())

    @property
    def total(self) -> float:
        """Seconds with the author's functions that it called."""
        return sum(total for _, total, _ in self.times.values())

    @property
    def hits(self) -> int:
        return sum(hits for _, _, hits in self.times.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the line as JSON values; times by batch size."""
        facts = {"place": self.place, "line": self.line, "text": self.text.strip()}
        if self.kept or self.blocks:
            return {**facts, "bytes": self.kept, "blocks": self.blocks, "growth_bytes": self.growth}
        sizes = {
            str(size): {"own_s": own, "total_s": total, "hits": hits} for size, (own, total, hits) in self.times.items()
        }
        return {**facts, "own_s": self.own, "total_s": self.total, "sizes": sizes}


@dataclass(eq=False, repr=False)
class LineProfile:
    """The lines of a model's code; the lines with most time of their own, or most memory, first.

    `executions`: by batch size how many there were, and the seconds of `execute` in all. `way`: how lines were sampled.
    `memory`: whether memory was measured instead of times. `seconds`: the duration of that. `looks`: how often lines
    were sampled. `size`: the only batch size of this profile, else None. `sources`: each file's lines. `cite`: function
    that names the cell in a text that names a line of a model's file. `when`: wall clock seconds.
    """

    model: str
    lines: list[ProfiledLine]
    executions: dict[int, tuple[int, float]]
    _: KW_ONLY
    requests: int = 0
    way: str = "sampling"
    memory: bool = False
    seconds: float = 0.0
    looks: int = 0
    size: int | None = None
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cite: Cite = str
    when: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.lines = sorted(self.lines, key=lambda one: (-one.growth, -one.kept) if self.memory else (-one.own, 0))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "cite": str}  # another process has no cells

    # -- facts

    @property
    def sizes(self) -> list[int]:
        """The batch sizes for which lines have times, 0 for threads besides `execute`."""
        return sorted({size for line in self.lines for size in line.times})

    @property
    def count(self) -> int:
        """How many executions there were."""
        return sum(count for count, _ in self.executions.values())

    @property
    def slowest(self) -> ProfiledLine | None:
        """The line with most time of its own within `execute`, or with most memory kept; None if there is none."""
        return self.lines[0] if self.lines else None

    def of(self, size: int) -> LineProfile:
        """Return the profile of batches of one size; 0 is the work of threads besides `execute`."""
        lines = [replace(one, times={size: one.times[size]}) for one in self.lines if size in one.times]
        executions = {size: self.executions[size]} if size in self.executions else {}
        looks = round(self.looks * sum(line.own for line in lines) / (sum(line.own for line in self.lines) or 1.0))
        return replace(self, lines=lines, executions=executions, requests=0, looks=looks, size=size)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as JSON values."""
        return {
            "model": self.model,
            "way": self.way,
            "seconds": self.seconds,
            "looks": self.looks,
            "requests": self.requests,
            "executions": {str(size): {"count": n, "execute_s": s} for size, (n, s) in self.executions.items()},
            "lines": [line.to_dict() for line in self.lines],
        }

    # -- words

    def title(self) -> str:
        """Return the first sentence: the model, the duration, the way of sampling."""
        what = "Memory by line" if self.memory else "Lines"
        about = f" in batches of {self.size}" if self.size else f" in {_BESIDE}" if self.size == 0 else ""
        if not self.lines and not self.count:
            return f"{what} of {self.model}{about}: nothing was executed in {duration_text(self.seconds)}"
        spent = sum(seconds for _, seconds in self.executions.values())
        text = f"{what} of {self.model}{about}: {self.count:,} executions"
        if self.memory:
            return (
                f"{text} in {duration_text(self.seconds)}; the memory of Python and numpy that is still held "
                f"(native libraries' is not seen), by its growth since the middle"
            )
        seen = f"seen by {self.way}{self._error() if 'sampling' in self.way else ''}"
        return f"{text} of {duration_text(spent)} in all, {seen}"

    def _error(self) -> str:
        """Return the largest error of a share in words: two standard deviations, for a share of one half. Lines that
        were timed by events are exact."""
        error = 100 / max(self.looks, 1) ** 0.5
        return f" (a share is off by {error:.0f} points at most, 19 times of 20)"

    def heads(self) -> list[str]:
        """Return the heads of the columns of `table`, and of a last column for the text of the line."""
        return [*self._heads(), "where", "line"]

    def table(self, count: int = _LINES) -> list[tuple[ProfiledLine, list[str]]]:
        """Return the lines that take most, with the words of their columns."""
        return [(line, [*self._numbers(line), f"{line.place}, line {line.line}"]) for line in self.lines[:count]]

    def text(self) -> str:
        """Return the lines that take most, 20 lines of text at most."""
        rows = [[*words, line.text.strip()] for line, words in self.table()]
        if not rows:
            return "\n".join([self.title(), *self._advice()])
        heads = self.heads()
        displayed = text_table([heads, *rows], numbers=range(len(heads) - 2))
        left = len(self.lines) - len(rows)
        more = [f"… {left} more lines: to_dict()"] if left > 0 else []
        return "\n".join([self.title(), *displayed, *more])

    def _advice(self) -> list[str]:
        if self.lines or (self.count and self.memory):
            return []
        if self.count:
            longer = f"{self.model}.profile(seconds=30, concurrency=4)"
            why = "so short an execution is seldom met by looking once in 5 ms of the processor time of its process"
            return [f"No line was seen: {why}; {longer} looks for longer, and Python 3.12 and later time each line."]
        return [f"Send requests meanwhile, or let it send some: {self.model}.profile(seconds=3, concurrency=4)"]

    def _columns(self) -> list[int]:
        """Return the batch sizes that have a column of their own: the sizes with most time."""
        taken = {size: sum(line.times.get(size, (0.0,))[0] for line in self.lines) for size in self.sizes}
        return sorted(sorted(taken, key=lambda size: -taken[size])[:_SIZES])

    def _heads(self) -> list[str]:
        if self.memory:
            return ["growth", "kept", "blocks", "per request"]
        return ["share", "own", "with calls", *(f"batch of {n}" if n else "beside" for n in self._columns())]

    def _numbers(self, line: ProfiledLine) -> list[str]:
        if self.memory:
            each = _bytes(line.kept / self.requests) if self.requests else ""
            growth = ("-" if line.growth < 0 else "") + _bytes(abs(line.growth))
            return [growth, _bytes(line.kept), f"{line.blocks:,}", each]
        whole = sum(one.own for one in self.lines)
        share = f"{line.own / whole * 100 if whole else 0:.1f} %"
        own, total = duration_text(line.own), duration_text(line.total)
        return [share, own, total, *(self._each(line, size) for size in self._columns())]

    def _each(self, line: ProfiledLine, size: int) -> str:
        """Return the time in each batch of a size, on average."""
        if size not in line.times:
            return ""
        count, _ = self.executions.get(size, (0, 0.0))
        total = line.times[size][1]
        return duration_text(total / count) if count else duration_text(total)

    def __repr__(self) -> str:
        return self.text()

    # -- pictures

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the lines that take most as bars with matplotlib and return the Axes; times by batch size. `ax`: where
        to draw, instead of in a new figure. Raises ImportError without matplotlib, and UnavailableError if there are no
        lines.
        """
        lines = self.lines[:_LINES]
        if not lines:
            raise UnavailableError(f"there is nothing to plot: no line of '{self.model}' was seen")
        ax = axes_of(ax)
        names = [f"{line.line}: {line.text.strip()}" for line in lines]
        if self.memory:
            _plot_bars(ax, names, [("kept", [line.kept / 1024 for line in lines])], "memory still held, KiB")
        else:
            bars = [
                (f"batch of {size}" if size else _BESIDE, [line.times.get(size, (0.0,))[0] * 1e3 for line in lines])
                for size in self._columns()
            ]
            _plot_bars(ax, names, bars, "time of the line itself, ms")
        ax.set_title(f"{'Memory of the' if self.memory else 'The'} lines of {self.model}", parse_math=False)
        return ax

    def html(self) -> str:
        """Return the source with a margin of bars. It uses classes of `theme.css`, and also reads well without any
        style, as in a notebook that is not trusted."""
        title = f"<b>{escape(self.title())}</b>"
        advice = "".join(f"<div class='tl-dim'>{escape(line)}</div>" for line in self._advice())
        margins = "".join(self._margin(file) for file in dict.fromkeys(line.file for line in self.lines))
        return f"<div class='tl-panel'>{title}{advice}{margins}{date_line(self.when)}</div>"

    def _margin(self, file: str) -> str:
        lines = {line.number: line for line in self.lines if line.file == file}
        most = max((line.kept if self.memory else line.own) for line in self.lines) or 1
        heads = self._heads()
        head = "".join(cell(text, kind="th", number=bool(text), look=_CELL) for text in ["", *heads, "line", ""])
        rows, before = [], 0
        for number in self._line_numbers(file, lines):
            if number != before + 1 and before:
                rows.append(f"<tr><td colspan='{len(heads) + 3}' class='tl-dim'>⋮</td></tr>")
            before = number
            rows.append(self._row(file, number, lines.get(number), most))
        name = next(iter(lines.values())).place
        table = (
            f"<table class='tl-tensors tl-profile'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )
        return f"<div class='tl-dim'>{escape(name)}</div><div style='overflow-x:auto'>{table}</div>"

    def _line_numbers(self, file: str, lines: Mapping[int, ProfiledLine]) -> list[int]:
        count = len(self.sources.get(file, ()))
        if not count:
            return sorted(lines)
        first, last = min(lines), max(lines)
        if last - first < _WHOLE:
            return list(range(max(first - _AROUND, 1), min(last + _AROUND, count) + 1))
        near = {n for line in lines for n in range(line - _AROUND, line + _AROUND + 1)}
        return sorted(n for n in near if 1 <= n <= count)

    def _row(self, file: str, number: int, line: ProfiledLine | None, most: float) -> str:
        source = self.sources.get(file, ())
        text = source[number - 1] if number <= len(source) else line.text if line is not None else ""
        number_text = line.line if line is not None else place_of(file, number, self.cite)[1]
        numbers = self._numbers(line) if line is not None else [""] * len(self._heads())
        size = 0.0 if line is None else (line.kept if self.memory else line.own) / most
        blue = f"{_MONO};color:{BLUE};white-space:pre;padding:1px 9px 1px 0"
        bar = f"<td class='tl-margin' style='{blue}'>{_bar(size)}</td>"
        cells = "".join(cell(value, number=True, look=_CELL) for value in [*numbers, str(number_text)])
        # <pre> keeps the indentation where styles are dropped
        look = f"{_MONO};margin:0;padding:0;background:none;border:0;white-space:pre"
        code = f"<td style='text-align:left'><pre style='{look}'>{escape(text) or ' '}</pre></td>"
        return f"<tr{' class=tl-dim' if line is None else ''}>{bar}{cells}{code}</tr>"

    def _repr_html_(self) -> str:
        return self.html()


def place_of(file: str, number: int, cite: Cite) -> tuple[str, int]:
    """Return the cell, or the name of the file, and the number of a line there."""
    place = f'File "{file}", line {number}'
    found = _PLACE.match(cite(place).partition("\n")[0])
    if found is None or found[1].startswith('File "'):
        return PurePath(file).name, int(found[2]) if found is not None else number
    return found[1], int(found[2])


def read_sources(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines of files that can be read."""
    found = {}
    for file in set(files):
        try:
            found[file] = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
    return found


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BLOCKS * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _bytes(count: float) -> str:
    units = ["B", "KiB", "MiB", "GiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{short_number(count)} {units[0]}"


def _plot_bars(ax: Axes, names: Sequence[str], bars: Sequence[tuple[str, Sequence[float]]], what: str) -> None:
    """Draw a bar for each line, with a piece for each of `bars` (label, values by line). `what`: quantity and unit."""
    left = np.zeros(len(names))
    for (label, values), tone in zip(bars, _TONES, strict=False):
        ax.barh(range(len(names)), values, left=left, height=0.7, color=tone, label=label)
        left += np.asarray(values, float)
    name_lanes(ax, names)
    ax.set_xlim(left=0)
    ax.set_xlabel(what)
    if len(bars) > 1:
        ax.legend(loc="lower right")
