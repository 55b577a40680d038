"""Outcomes of requests as HTML and as text: outputs, latency split, errors, the responses of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ....core.inference.tensor import Tensor
from ....core.short_number import duration_text
from ....core.status import Code, ModelError, TritonError
from ....exchanges.exchange import Arrival, Exchange, PhaseTimes
from ....figures.tables import cell
from ..card.log_lines import log_lines_html
from .many_view import PARTS, TRANSPORT, many_html, transport_ns
from .pictures import pictures_html
from .sounds import rate_of, sounds_html
from .tensor_text import curve_html, facts_text, json_texts, line_text, value_text

_SHOWN_RESPONSES = 200
_SHOWN_OUTPUTS = 50
#: The most characters of one tensor of a stream.
_VALUE_WIDTH = 96


def outcomes_html(
    outcomes: Sequence[Exchange], *, finished: bool, hint: str = "", waited: float = 0.0, why: str = ""
) -> str:
    """Return the HTML for the playground: one request in full, or the summary of several and the first failed one.

    `waited`: seconds since they were sent, while they are under way; `why`: the reason of a long wait.
    """
    if not outcomes:
        return ""
    waiting = "" if finished else _waiting(waited, why)
    if len(outcomes) > 1:
        failed = [outcome.error for outcome in outcomes if outcome.failed]
        error = _error(failed[0], hint) if failed and failed[0] is not None else ""
        return many_html(outcomes, finished) + error + waiting
    outcome = outcomes[0]
    parts = [_latency(outcome)]
    if outcome.error is not None:
        parts.append(_error(outcome.error, hint))
    arrivals = outcome.arrivals
    if len(arrivals) > 1 or any(not arrival.response.final or arrival.response.empty for arrival in arrivals):
        parts.append(_stream(arrivals))
    else:
        parts.append(_outputs(outcome.outputs, rate_of(outcome)))
    parts.append(log_lines_html(outcome.printed, outcome.request.model_name, opened=True))
    return "".join(parts) + waiting


def _waiting(waited: float, why: str) -> str:
    stack = f"<div class='tl-value'>{escape(why)}</div>" if why else ""
    return f"<div class='tl-dim' role='status'>waiting for the final response for {int(waited)} s …</div>{stack}"


def _outputs(outputs: dict[str, Tensor], rate: int) -> str:
    return "".join(_output(name, tensor, rate) for name, tensor in list(outputs.items())[:_SHOWN_OUTPUTS]) + (
        f"<div class='tl-dim'>… and {len(outputs) - _SHOWN_OUTPUTS} more outputs</div>"
        if len(outputs) > _SHOWN_OUTPUTS
        else ""
    )


def _output(name: str, tensor: Tensor, rate: int) -> str:
    """Show one output by its kind: documents, pictures, sounds and curves, and else its elements."""
    label = escape(name)
    documents = json_texts(tensor)
    values = documents or [value_text(tensor)]
    facts = facts_text(tensor)
    seen = sounds_html(label, tensor, rate) + (pictures_html(tensor, label) or curve_html(name, tensor))
    return (
        f"<div><span class='tl-tensor'>{escape(name)}</span>&ensp;<span class='tl-type tl-dim'>{tensor.datatype.name} "
        f"[{', '.join(map(str, tensor.shape))}]{'&ensp;' + escape(facts) if facts else ''}</span></div>"
        f"{''.join(f'<div class=tl-value>{escape(text)}</div>' for text in values)}{seen}"
    )


def _latency(outcome: Exchange) -> str:
    if not outcome.arrivals:
        return ""
    total = f"<b>{duration_text(outcome.total_ns / 1e9)}</b>"
    # a model may end a cancelled stream without an error, as if it were complete
    total += " cancelled" if outcome.request.cancelled and not outcome.cancelled else ""
    batch = f" in a batch of {outcome.batch_size}" if outcome.batch_size > 1 else ""
    if outcome.split is None:
        return f"<div>{total}{batch}</div>"
    return f"<div>{total}{batch}</div>{_bar(outcome, outcome.split)}"


def _bar(outcome: Exchange, split: PhaseTimes) -> str:
    times = [(getattr(split, key), word, colour) for key, word, colour in PARTS]
    times.append((transport_ns(outcome, split), *TRANSPORT))
    spans = "".join(f"<span style='flex:{ns} 0 0;background:{colour}'></span>" for ns, _, colour in times)
    keys = " ".join(
        f"<span><span class='tl-key' style='background:{colour}'></span>{word} "
        f"<span class='tl-dim'>{duration_text(ns / 1e9)}</span></span>"
        for ns, word, colour in times
    )
    return f"<div class='tl-bar'>{spans}</div><div class='tl-keys'>{keys}</div>"


def _error(error: TritonError, hint: str) -> str:
    """Show the client's error: its code and its text."""
    if error.code is Code.CANCELLED:
        text = escape(error.message.strip())
        return f"<div class='tl-note tl-warn-note'><b class='tl-warn'>CANCELLED</b> {text}</div>"
    reason = error.reason if isinstance(error, ModelError) and error.reason != error.message else ""
    return (
        f"<div class='tl-note tl-bad-note'><b class='tl-bad'>{error.code.name}</b> "
        f"<span class='tl-dim'>is what the client gets</span>"
        f"<div class='tl-value'>{escape(error.message.strip())}</div>"
        + (f"<div>{escape(reason)}</div>" if reason else "")
        + (f"<div>Hint: {escape(hint)}.</div>" if hint else "")
        + "</div>"
    )


def _stream(arrivals: Sequence[Arrival]) -> str:
    rows = []
    for number, arrival in enumerate(arrivals[:_SHOWN_RESPONSES], start=1):
        response = arrival.response
        if response.error is not None:
            content = f"<span class='tl-bad'>{escape(response.error.message)}</span>"
        else:
            content = "; ".join(
                f"{escape(name)} {tensor.datatype.name} [{', '.join(map(str, tensor.shape))}] "
                f"{escape(line_text(tensor, _VALUE_WIDTH))}"
                for name, tensor in response.outputs.items()
            )
        final = "<span class='tl-good'>FINAL</span>" if response.final else ""
        rows.append(
            f"<tr>{cell(f'{number}', number=True)}{cell(duration_text(arrival.after_ns / 1e9), number=True)}"
            f"<td>{final}</td><td class='tl-type'>{content or '<span class=tl-dim>empty</span>'}</td></tr>"
        )
    more = len(arrivals) - len(rows)
    heads = "".join(cell(name, kind="th", number=True) for name in ("#", "after"))
    return (
        f"<table class='tl-tensors'><thead><tr>{heads}<th></th><th>response</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>" + (f"<div class='tl-dim'>… and {more} more</div>" if more else "")
    )
