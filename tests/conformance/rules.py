"""The rules of `semantics.md` that are proved; `make rules` prints them one by one.

A test names the rules that it proves, `@rule("3.2.1")`. A rule is proved if its tests run on the real server and
on ours. A number that is not in the book is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from .reference import missing

BOOK = Path(__file__).resolve().parents[2] / "tritonlab" / "semantics.md"
SECTIONS = range(1, 7)

#: Why a rule is still open, or proved on our side only.
REASONS = {
    "1.5.2": "2.51 passes stream=None where newer releases pass nothing",
    "1.5.3": "2.51 crashes when a consumed capsule goes, and reads capsules of any name",
    "1.7.10": "2.51 aborts the server",
    "1.9.6": "a copy to the server fails only where memory runs out, or on a GPU",
    "1.10.6": "cancel() is newer than 2.51",
    "1.14.9": "2.51 crashes at random where it refuses",
    "1.18.2": "2.51 hangs where ours refuses",
    "2.2.2": "a measurement of Triton; tests/benchmarks measures ours beside it",
    "2.5.6": "2.51 waits for ever",
    "2.7.1": "is_ready() is newer than 2.51",
    "2.7.2": "is_ready() is newer than 2.51",
    "2.7.3": "is_ready() is newer than 2.51",
    "2.7.4": "is_ready() is newer than 2.51",
    "2.7.5": "is_ready() is newer than 2.51",
    "2.9.1": "needs a full /dev/shm in Triton; here a region is no file there, and has a limit of its own",
    "2.9.2": "newer than 2.51, which hands the names to a shell",
    "2.9.3": "2.51 knows no reserved prefix",
    "2.10.5": "newer than 2.51, which extracts to wherever an archive says",
    "2.10.7": "a fact of NVIDIA's packages; here a stub runs on any interpreter from 3.8",
    "2.11.5": "about backends written in C++, which cannot be loaded here",
    "3.1.4": "cannot happen: no scheduler hands over more, and a request of that size is refused (5.4.2)",
    "3.4.5": "parameters of responses are newer than 2.51",
    "3.5.5": "2.51 hands on texts of any size",
    "3.9.5": "2.51 never answers; ours answers with the text that it only logs",
    "4.2.2": "2.51 always says INTERNAL",
    "4.3.5": "parameters of responses are newer than 2.51",
    "4.4.1": "2.51 waits for ever; ours says what waits for what",
    "5.1.6": "about backends written in C++, which cannot be loaded here",
    "5.3.4": "newer than 2.51",
    "5.11.4": "newer than 2.51",
    "5.11.11": "measured on 2.51 through its C API: only a server in the process has it",
    "5.5.11": "measured by hand: the judge is started without variables of Triton",
    "5.7.10": "newer than 2.51",
    "5.13.2": "newer than 2.51",
    "6.10.1": "2.51 always allows it",
    "6.15.7": "Triton lets in whoever finds its port",
    "6.15.9": "Triton asks for no token",
    "6.15.10": "Triton has no such option",
    "6.16": "the in-process package comes with Triton's container only",
    "6.16.1": "the in-process package comes with Triton's container only",
    "6.16.2": "the in-process package comes with Triton's container only",
    "6.16.3": "the in-process package comes with Triton's container only",
    "6.16.4": "the in-process package comes with Triton's container only",
    "6.16.5": "the in-process package comes with Triton's container only",
    "6.16.6": "the in-process package comes with Triton's container only",
    "6.16.7": "the in-process package comes with Triton's container only",
}

#: Fixtures whose parameter is the server that a test runs on, and fixtures that are one.
_SIDES = ("side", "fresh", "program", "rpc")
_REAL = {"real", "reference_server"}

rule = pytest.mark.rule


def numbers(book: str) -> list[str]:
    """Return every rule of sections 1-6 in order: `1.4.7`, and `1.16` for what a section says outside its numbered
    rules."""
    found: list[str] = []
    section, own_text = "", False
    for line in book.splitlines():
        if heading := re.match(r"# ?#? ?(\d+)(?:\.(\d+))?\b", line):
            section = f"{heading[1]}.{heading[2]}" if heading[2] else ""
            own_text = False
        elif numbered := re.match(r"- \*\*(\d+\.\d+\.\d+)\*\*", line):
            found.append(numbered[1])
            own_text = True
        elif section and not own_text and line.strip() and not line.startswith("---"):
            found.append(section)  # a table or words before the first numbered rule
            own_text = True
    return [n for n in found if int(n.split(".")[0]) in SECTIONS]


class Collector:
    """A count, for each rule that the collected tests cite, of those that run on the real server and those that run
    on ours."""

    def __init__(self) -> None:
        self.real: dict[str, int] = {}
        self.ours: dict[str, int] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("not_yet"):
                continue  # counted as open: it runs on Triton, and ours is expected to fail
            counts = [self.real] * runs_on_the_real_server(item) + [self.ours] * runs_on_ours(item)
            for number in (number for mark in item.iter_markers("rule") for number in mark.args):
                for count in counts:
                    count[number] = count.get(number, 0) + 1

    def cited(self) -> set[str]:
        return self.real.keys() | self.ours.keys()


def runs_on_the_real_server(item: pytest.Item) -> bool:
    return side_of(item) == "real" if side_of(item) else bool(_REAL & set(fixtures(item)))


def runs_on_ours(item: pytest.Item) -> bool:
    """Return whether a test is not of the real server alone."""
    return side_of(item) == "lab" if side_of(item) else "lab" in fixtures(item) or not _REAL & set(fixtures(item))


def side_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return next((str(callspec.params[name]) for name in _SIDES if callspec and name in callspec.params), "")


def fixtures(item: pytest.Item) -> Iterable[str]:
    return getattr(item, "fixturenames", ())


def reason(number: str) -> str:
    return REASONS.get(number, "no reason given")


def report(book: Iterable[str], real: dict[str, int], ours: dict[str, int]) -> list[str]:
    lines, counts = [], {"proved": 0, "proved on our side only": 0, "open": 0}
    for number in book:
        tests = f"{max(real.get(number, 0), ours.get(number, 0))} tests"
        if number in real and number in ours:
            state, note = "proved", tests
        elif number in ours:
            state, note = "proved on our side only", f"{tests}: {reason(number)}"
        else:
            state, note = "open", reason(number)
        counts[state] += 1
        lines.append(f"{number:8} {state:24} {note}")
    return [*lines, "", ", ".join(f"{count} {state}" for state, count in counts.items())]


def main() -> int:
    if (why := missing()) is not None:
        print(f"no rule can be proved without the real server, which is not here: {why}")
        return 1
    collector = Collector()
    ended = pytest.main(["--collect-only", "-q", "-q", "--no-header", "--no-summary", "tests"], plugins=[collector])
    book = numbers(BOOK.read_text(encoding="utf-8"))
    lines = report(book, collector.real, collector.ours)
    print("\n".join(lines))
    unexplained = [line.split()[0] for line in lines if line.endswith("no reason given")]
    if unexplained:
        print(f"neither proved on both sides nor given a reason: {', '.join(unexplained)}")
    unknown = sorted(n for n in collector.cited() - set(book) if int(n.split(".")[0]) in SECTIONS)
    if unknown:
        print(f"cited by tests, but not in the rule book: {', '.join(unknown)}")
    return int(ended != pytest.ExitCode.OK or bool(unknown or unexplained))


if __name__ == "__main__":
    sys.exit(main())
