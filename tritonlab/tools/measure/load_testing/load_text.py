"""The measurements of a load test in words: a table, and notes on problems."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.short_number import duration_text, short_number
from ....figures.tables import text_table
from .load_plan import ARRIVALS, CONCURRENCY, REQUEST_RATE
from .load_row import LoadRow

#: If less than this share of a rate was sent, the text reports it.
_KEPT_UP = 0.95
#: A mean lag of sending above this share of the mean latency is reported.
_LATE = 0.1
_TEXTS, _LETTERS = 5, 240

HEADS = {CONCURRENCY: "concurrency", REQUEST_RATE: "requests/s", ARRIVALS: "arrivals/s"}


def time_text(us: float | None) -> str:
    """Return microseconds with the unit that reads best."""
    return "-" if us is None else duration_text(us / 1e6)


def heads(mode: str, rows: Sequence[LoadRow]) -> list[str]:
    """Return the heads of the table's columns."""
    found = [HEADS[mode], "inferences/s", "p50", "p90", "p95", "p99"]
    if any(row.first_response is not None for row in rows):
        found += ["responses/s", "first p50", "first p99"]
    if any(row.tokens is not None for row in rows):
        found += ["tokens/s", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99"]
    if any(row.server is not None for row in rows):
        found += ["queue", "input", "infer", "output", "batch"]
    found += ["send lag p99"] if mode != CONCURRENCY else []
    return [*found, "failed", "stable"]


def cells(mode: str, row: LoadRow, columns: Sequence[str]) -> list[str]:
    """Return the texts of a row, for `columns` as returned by `heads`."""
    latency, first, server, lag = row.latency, row.first_response, row.server, row.lag
    tokens = row.tokens
    known = {
        HEADS[mode]: short_number(row.level),
        "inferences/s": short_number(row.inferences_per_s),
        **{name: time_text(getattr(latency, name, None)) for name in ("p50", "p90", "p95", "p99")},
        "responses/s": short_number(row.responses_per_s),
        "first p50": time_text(first.p50 if first else None),
        "first p99": time_text(first.p99 if first else None),
        "tokens/s": short_number(tokens.output_token_throughput) if tokens else "-",
        "TTFT p50": time_text(getattr(tokens and tokens.time_to_first_token, "p50", None)),
        "TTFT p99": time_text(getattr(tokens and tokens.time_to_first_token, "p99", None)),
        "ITL p50": time_text(getattr(tokens and tokens.inter_token_latency, "p50", None)),
        "ITL p99": time_text(getattr(tokens and tokens.inter_token_latency, "p99", None)),
        "queue": time_text(server.queue_us if server else None),
        "input": time_text(server.compute_input_us if server else None),
        "infer": time_text(server.compute_infer_us if server else None),
        "output": time_text(server.compute_output_us if server else None),
        "batch": short_number(server.batch_size) if server else "-",
        "send lag p99": time_text(lag.p99 if lag else None),
        "failed": f"{row.failed:,}",
        "stable": {True: "yes", False: "no", None: "-"}[row.stable],
    }
    return [known[name] for name in columns]


def table_lines(mode: str, rows: Sequence[LoadRow]) -> list[str]:
    """Return the rows below their heads, as lines of text."""
    columns = heads(mode, rows)
    table = [columns, *(cells(mode, row, columns) for row in rows)]
    return text_table(table, numbers=range(len(columns)))


def notes(mode: str, rows: Sequence[LoadRow]) -> list[str]:
    """Return sentences about problems: errors, missing responses, a rate that was not reached."""
    found = []
    if unstable := [short_number(row.level) for row in rows if row.stable is False]:
        at = f"{HEADS[mode]} {', '.join(unstable[:_TEXTS])}{', …' if len(unstable) > _TEXTS else ''}"
        found.append(f"not stable at {at}: the last windows differ by too much; a longer window, or a calmer machine?")
    for row in rows:
        at = f"at {HEADS[mode]} {short_number(row.level)}: "
        texts = list(row.errors.items())
        found += [f"{at}{count:,} failed: {_cut(text)}" for text, count in texts[:_TEXTS]]
        if len(texts) > _TEXTS:
            found.append(f"{at}{sum(count for _, count in texts[_TEXTS:]):,} failed with other errors: to_dict()")
        if row.unanswered:
            found.append(f"{at}{row.unanswered:,} still under way at the end, cancelled")
        if mode == REQUEST_RATE and _fell_behind(row):
            found.append(
                f"{at}only {short_number(row.sent_per_s)}/s could be sent; latency counts from when each was due"
            )
        elif row.lag is not None and row.latency is not None and row.lag.avg > _LATE * row.latency.avg:
            found.append(
                f"{at}requests were sent {time_text(row.lag.avg)} late in the mean, which their latency includes"
            )
    return found


def _fell_behind(row: LoadRow) -> bool:
    """Return whether fewer requests were sent than chance explains: a difference of three deviations is rare."""
    due = row.level * row.seconds
    return row.sent_per_s * row.seconds < min(_KEPT_UP * due, due - 3 * math.sqrt(due))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LETTERS else line[:_LETTERS] + "…"
