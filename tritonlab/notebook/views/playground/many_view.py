"""Many requests as one picture: throughput, percentiles, a histogram, batches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ....core.percentiles import percentiles
from ....core.short_number import ns_text
from ....exchanges.exchange import Exchange, PhaseTimes
from ....figures.tables import table

_BINS = 24
#: The least number of requests for a percentile to be more than the slowest one.
_NEEDED = {50: 2, 95: 20, 99: 100}
PARTS = (
    ("queue", "queue", "#8a93a6"),
    ("compute_input", "input", "#3f8fd6"),
    ("compute_infer", "execute", "#2ca56e"),
    ("compute_output", "output", "#b06fc9"),
)
#: The time outside of all phases, and its colour.
TRANSPORT = ("transport", "#c9a13b")


@dataclass(frozen=True)
class Tally:
    """Counts of requests by their end, and their times. `batches`: how many batches of which size they were in."""

    sent: int
    answered: int
    failed: int
    cancelled: int
    per_second: float
    batches: dict[int, int]

    @staticmethod
    def from_outcomes(outcomes: Sequence[Exchange]) -> Tally:
        done = [outcome for outcome in outcomes if outcome.answered]
        begun = [outcome.request.request_start for outcome in done]
        ended = [outcome.request.request_start + outcome.total_ns for outcome in done]
        took = max(ended, default=0) - min(begun, default=0)
        rows: Counter[int] = Counter()
        for outcome in outcomes:
            rows[outcome.batch_size] += outcome.request.batch_size if outcome.batch_size else 0
        return Tally(
            sent=len(outcomes),
            answered=len(done),
            failed=sum(outcome.failed for outcome in outcomes),
            cancelled=sum(outcome.cancelled for outcome in outcomes),
            per_second=len(done) * 1e9 / took if took else 0.0,
            batches={size: math.ceil(count / size) for size, count in sorted(rows.items()) if size},
        )

    def text(self) -> str:
        """Return the counts as one sentence."""
        parts = [f"{self.answered} of {self.sent} requests answered"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.cancelled} cancelled"] if self.cancelled else []
        parts += [f"{self.per_second:,.0f} requests/s"] if self.per_second else []
        if self.batches:
            sizes = ", ".join(f"{count} of {size}" for size, count in self.batches.items())
            parts.append(f"batches: {sizes}")
        return ", ".join(parts)


def many_html(outcomes: Sequence[Exchange], finished: bool) -> str:
    """Return the counts, and at the end the times."""
    tally = Tally.from_outcomes(outcomes)
    done = [outcome for outcome in outcomes if outcome.answered]
    tone = "tl-bad" if tally.failed else "tl-warn" if tally.cancelled else ""
    head = f"<div class='{tone}'><b>{escape(tally.text())}</b></div>"
    if not done or not finished:
        return head
    return head + histogram_html([outcome.total_ns for outcome in done]) + _table(done)


def histogram_html(times: Sequence[int]) -> str:
    """Return a histogram of the requests' durations; its label has the same facts."""
    least, most = min(times), max(times)
    width = (most - least) / _BINS or 1
    counts = [0] * _BINS
    for time in times:
        counts[min(_BINS - 1, int((time - least) / width))] += 1
    highest = max(counts)
    bars = "".join(
        f"<span style='height:{math.ceil(count / highest * 100)}%;flex:1 1 0;background:#3f8fd6' "
        f"title='{count} from {ns_text(least + n * width)} to {ns_text(least + (n + 1) * width)}'></span>"
        for n, count in enumerate(counts)
    )
    label = f"Latencies of {len(times)} requests, from {ns_text(least)} to {ns_text(most)}, most near " + ns_text(
        least + (counts.index(highest) + 0.5) * width
    )
    return (
        f"<div class='tl-histogram' role='img' aria-label='{escape(label)}'>{bars}</div>"
        f"<div class='tl-axis'><span>{ns_text(least)}</span><span>{ns_text(most)}</span></div>"
    )


def transport_ns(outcome: Exchange, split: PhaseTimes) -> int:
    """Return the nanoseconds of a request outside of all its phases: 0 if a decoupled model's `execute` goes on after
    the last response.
    """
    return max(0, outcome.total_ns - split.queue - split.compute_input - split.compute_infer - split.compute_output)


def _table(done: Sequence[Exchange]) -> str:
    """Return the table of times. Means of the phases add up to the mean of the total; percentiles do not."""
    rows = [_row("total", [outcome.total_ns for outcome in done])]
    splits = [(outcome, outcome.split) for outcome in done if outcome.split is not None]
    if splits:
        rows += [_row(word, [getattr(split, key) for _, split in splits]) for key, word, _ in PARTS]
        rows.append(_row(TRANSPORT[0], [transport_ns(outcome, split) for outcome, split in splits]))
    few = [f"p{percent} needs {needed}" for percent, needed in _NEEDED.items() if len(done) < needed]
    note = f"<div class='tl-dim'>of {len(done)} requests; {', '.join(few)}</div>" if few else ""
    return table(("", "mean", "p50", "p95", "p99", "max"), rows, numbers=range(1, 6)) + note


def _row(word: str, values: Sequence[int]) -> list[str]:
    found = zip(_NEEDED.values(), percentiles(values, *_NEEDED), strict=True)
    some = [ns_text(ns) if len(values) >= needed else "-" for needed, ns in found]
    return [word, ns_text(sum(values) / len(values)), *some, ns_text(max(values))]
