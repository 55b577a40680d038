"""Two responses to one request, side by side."""

from __future__ import annotations

from html import escape

from ....clients.comparison import Comparison, TensorDiff
from ....clients.outcome import Outcome
from ....core.short_number import ns_text
from .many_view import PARTS
from .value_text import line_text

_MOST_TEXT = 300


def comparison_html(comparison: Comparison, names: tuple[str, str]) -> str:
    """Return the verdict, the values and times of both responses, and their differences. `names`: their sources."""
    tone, verdict = ("good", "the same") if comparison.same else ("bad", "different")
    one, other = comparison.outcomes
    rows = []
    if one.error is not None or other.error is not None:
        rows.append(
            _row(
                name="error",
                one=_error(one),
                other=_error(other),
                difference="not the same" if comparison.errors else "",
                tone="tl-bad",
            )
        )
    if comparison.counts is not None:
        rows.append(
            _row(
                name="responses",
                one=str(comparison.counts[0]),
                other=str(comparison.counts[1]),
                difference="not the same",
                tone="tl-bad",
            )
        )
    rows += [_tensor_row(diff, one, other) for diff in comparison.tensors]
    rows.append(_row("total", _time(one.total_ns), _time(other.total_ns)))
    rows += [_row(word, _part(one, key), _part(other, key)) for key, word, _ in PARTS]
    rows.append(_row("rest, transport", _rest(one), _rest(other)))
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("", *names, "difference"))
    return (
        f"<div class='tl-note tl-{tone}-note' role='status'><b class='tl-{tone}'>{verdict}</b></div>"
        f"<table class='tl-tensors tl-compare'><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _tensor_row(diff: TensorDiff, one: Outcome, other: Outcome) -> str:
    name = diff.name + (f" of response {diff.response + 1}" if diff.response else "")
    difference = str(diff).partition(": ")[2]
    return _row(
        name,
        one=_value(one, diff),
        other=_value(other, diff),
        difference=difference,
        tone="" if diff.same else "tl-bad",
    )


def _row(name: str, one: str, other: str, difference: str = "", tone: str = "") -> str:
    cells = "".join(f"<td class='tl-type'>{escape(text)}</td>" for text in (one, other))
    return f"<tr><th>{escape(name)}</th>{cells}<td class='{tone}'>{escape(difference)}</td></tr>"


def _value(outcome: Outcome, diff: TensorDiff) -> str:
    responses = [arrival.response for arrival in outcome.arrivals if arrival.response.outputs]
    tensor = responses[diff.response].outputs.get(diff.name) if diff.response < len(responses) else None
    if tensor is None:
        return "-"
    return f"{tensor.datatype.name} {list(tensor.shape)} {line_text(tensor, _MOST_TEXT)}"


def _error(outcome: Outcome) -> str:
    return f"{outcome.error.code.name}: {outcome.error.message.strip()}" if outcome.error is not None else "none"


def _time(ns: int) -> str:
    return ns_text(ns) if ns else "-"


def _part(outcome: Outcome, key: str) -> str:
    return _time(getattr(outcome.split, key)) if outcome.split is not None else "-"


def _rest(outcome: Outcome) -> str:
    if outcome.split is None:
        return "-"
    return _time(max(0, outcome.total_ns - sum(getattr(outcome.split, key) for key, _, _ in PARTS)))
