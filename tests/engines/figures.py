"""The figures of a run, each with its bar."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Figures:
    """What was measured or proved, printed as it comes. A bar that is missed is counted, not raised."""

    missed: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add(self, name: str, value: str, holds: bool | None = None, bar: str = "") -> None:
        """Note a figure. `holds`: whether it is within its bar; None for one without."""
        verdict = "" if holds is None else f"  [{'holds' if holds else 'MISSED'}{': ' + bar if bar else ''}]"
        line = f"{name}: {value}{verdict}"
        self.lines.append(line)
        print(line, flush=True)
        if holds is False:
            self.missed.append(name)

    def prove(self, name: str, seen: object, expected: object) -> None:
        """Note whether what was seen is what was expected."""
        self.add(name, "as expected" if seen == expected else f"{seen!r}, not {expected!r}", seen == expected)
