"""Which rules of `semantics.md` are proved: `make rules` prints them one by one.

A test names the rules it proves, `@rule("3.2.1")`. It proves them on both sides if it asks the real server too.
A number that is not in the book is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

BOOK = Path(__file__).with_name("semantics.md")
SECTIONS = range(1, 6)

#: Why rules of a section may still be open; the longest prefix counts.
REASONS = {
    "1": "cases of the module are being added",
    "2": "cases of the life cycle are being added",
    "3": "cases of execute are being added",
    "4": "BLS is not built yet",
    "5": "cases of the core are being added",
    "5.5.11": "an aid of the peer's own tests; ours move a MockClock",
    "5.7": "ensembles are not built yet",
    "5.8": "warmup is not built yet",
    "5.9": "the response cache is not built yet",
    "5.10": "the rate limiter is not built yet",
    "5.13": "the metrics endpoint is not built yet",
    "5.14": "trace and logging settings are not built yet",
}

rule = pytest.mark.rule


def numbers(book: str) -> list[str]:
    """Every rule of sections 1-5 in order: `1.4.7`, and `1.16` for what a section says outside its numbered rules."""
    found: list[str] = []
    section, own_text = "", False
    for line in book.splitlines():
        if heading := re.match(r"# ?#? ?(\d+)(?:\.(\d+))?\b", line):
            section = f"{heading[1]}.{heading[2]}" if heading[2] else ""
            own_text = False
        elif numbered := re.match(r"- \*\*(\d+\.\d+\.\d+)\*\*", line):
            found.append(numbered[1])
            own_text = True
        elif section and not own_text and line.startswith("|"):
            found.append(section)  # a table before the first numbered rule
            own_text = True
    return [n for n in found if int(n.split(".")[0]) in SECTIONS]


class Collector:
    """Notes, for each test that pytest collects, the rules it cites and whether it asks the real server."""

    def __init__(self) -> None:
        self.both: dict[str, int] = {}
        self.ours: dict[str, int] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("not_yet"):
                continue  # shown open: the peer is asked, ours is expected to fail
            asked = asks_the_real_server(item)
            for mark in item.iter_markers("rule"):
                for number in mark.args:
                    counts = self.both if asked else self.ours
                    counts[number] = counts.get(number, 0) + 1


def asks_the_real_server(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    for fixture in ("side", "fresh"):
        if callspec is not None and fixture in callspec.params:
            return bool(callspec.params[fixture] == "real")
    return "real" in getattr(item, "fixturenames", ())


def reason(number: str) -> str:
    parts = number.split(".")
    return next((REASONS[p] for n in (3, 2, 1) if (p := ".".join(parts[:n])) in REASONS), "no reason given")


def report(book: Iterable[str], both: dict[str, int], ours: dict[str, int]) -> list[str]:
    lines, counts = [], {"proved": 0, "proved on our side only": 0, "open": 0}
    for number in book:
        if number in both:
            state, note = "proved", f"{both[number]} tests"
        elif number in ours:
            state, note = "proved on our side only", f"{ours[number]} tests"
        else:
            state, note = "open", reason(number)
        counts[state] += 1
        lines.append(f"{number:8} {state:24} {note}")
    return [*lines, "", ", ".join(f"{count} {state}" for state, count in counts.items())]


def main() -> int:
    collector = Collector()
    ended = pytest.main(["--collect-only", "-q", "-q", "--no-header", "--no-summary", "tests"], plugins=[collector])
    book = numbers(BOOK.read_text(encoding="utf-8"))
    print("\n".join(report(book, collector.both, collector.ours)))
    unknown = sorted((collector.both.keys() | collector.ours.keys()) - set(book) - sections_6_up(collector))
    if unknown:
        print(f"cited by tests, but not in the rule book: {', '.join(unknown)}")
    return int(ended != pytest.ExitCode.OK or bool(unknown))


def sections_6_up(collector: Collector) -> set[str]:
    """Citations of the network part, which is not counted here."""
    return {n for n in collector.both.keys() | collector.ours.keys() if int(n.split(".")[0]) not in SECTIONS}


if __name__ == "__main__":
    sys.exit(main())
