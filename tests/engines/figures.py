"""The figures of a run, each with its bar, and the rows of pre-flight as they were seen on the engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.engines.rows import Row


@dataclass
class Figures:
    """The figures of a run, printed as they come. A bar that is missed is counted, not raised."""

    missed: list[str] = field(default_factory=list)
    rows: list[tuple[Row, str, bool]] = field(default_factory=list)

    def add(self, name: str, value: str, holds: bool | None = None, bar: str = "") -> None:
        """Note a figure. `holds`: whether it is within its bar; None for one without."""
        verdict = "" if holds is None else f"  [{_verdict(holds)}{': ' + bar if bar else ''}]"
        print(f"{name}: {value}{verdict}", flush=True)
        if holds is False:
            self.missed.append(name)

    def prove(self, name: str, seen: object, expected: object) -> None:
        """Note whether what was seen is what was expected."""
        self.add(name, "as expected" if seen == expected else f"{seen!r}, not {expected!r}", seen == expected)

    def add_row(self, row: Row, seen: str, holds: bool) -> None:
        """Note what was seen on the engine of what pre-flight says, and whether it is that."""
        self.rows.append((row, seen, holds))
        if not holds:
            self.missed.append(f"{row.engine}: {row.uses}")

    def table(self) -> Iterator[str]:
        """Yield the lines of a table of all rows."""
        cells = [(row.engine, row.uses, _verdict(holds), seen) for row, seen, holds in self.rows]
        widths = [max(len(line[column]) for line in cells) for column in range(3)] if cells else []
        for line in cells:
            head = "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False))
            yield f"{head}  {line[3]}"


def _verdict(holds: bool) -> str:
    return "holds" if holds else "MISSED"
