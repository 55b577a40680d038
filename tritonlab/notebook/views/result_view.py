"""Outcomes of requests as HTML and as text: outputs, latency split, errors, the responses of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import median

import numpy as np

from ...core.data_type import DataType
from ...core.status import ModelError, TritonError
from ...core.tensor import Tensor
from .model_facts import duration_text
from .sending import Arrival, Outcome, Split

#: (field of Split, what a person calls it, colour)
_PARTS = (
    ("queue", "queue", "#8a93a6"),
    ("compute_input", "input", "#3f8fd6"),
    ("compute_infer", "execute", "#2ca56e"),
    ("compute_output", "output", "#b06fc9"),
)
_SHOWN_RESPONSES = 200
_VALUE_WIDTH = 96


def outcomes_html(outcomes: Sequence[Outcome], *, finished: bool, hint: str = "") -> str:
    """What the playground shows: one request in full, or the summary of several and the first that failed."""
    if not outcomes:
        return ""
    waiting = "" if finished else "<div class='tl-dim'>waiting for the final response …</div>"
    if len(outcomes) > 1:
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        shown = _error(failed[0].error, hint) if failed and failed[0].error is not None else ""
        return _summary(outcomes, finished) + shown + waiting
    outcome = outcomes[0]
    parts = [_latency(outcome)]
    if outcome.error is not None:
        parts.append(_error(outcome.error, hint))
    if _is_stream(outcome):
        parts.append(_stream(outcome.arrivals))
    else:
        parts.append(_outputs(outcome.outputs))
    return "".join(parts) + waiting


def value_text(tensor: Tensor) -> str:
    """A preview of the elements, as numpy prints them."""
    if tensor.datatype is DataType.BF16:
        bits = tensor.data.reshape(tensor.shape).astype(np.uint32) << 16
        return np.array2string(bits.view(np.float32), threshold=60, max_line_width=_VALUE_WIDTH)
    return np.array2string(tensor.numpy(), threshold=60, max_line_width=_VALUE_WIDTH, separator=" ")


def outcome_text(outcome: Outcome) -> str:
    """One outcome for a terminal."""
    lines = []
    if outcome.error is not None:
        lines.append(f"{type(outcome.error).__name__}: {outcome.error.message}")
    for name, tensor in outcome.outputs.items():
        lines.append(f"{name}  {tensor.datatype.name} {list(tensor.shape)}\n{value_text(tensor)}")
    if outcome.split is not None:
        split = ", ".join(f"{word} {duration_text(getattr(outcome.split, key) / 1e9)}" for key, word, _ in _PARTS)
        lines.append(f"{duration_text(outcome.total_ns / 1e9)} ({split})")
    return "\n".join(lines)


def _is_stream(outcome: Outcome) -> bool:
    arrivals = outcome.arrivals
    return len(arrivals) > 1 or any(not arrival.response.final or arrival.response.empty for arrival in arrivals)


def _outputs(outputs: dict[str, Tensor]) -> str:
    return "".join(
        f"<div><span class='tl-tensor'>{escape(name)}</span>&ensp;<span class='tl-type tl-dim'>{tensor.datatype.name} "
        f"[{', '.join(map(str, tensor.shape))}]</span></div><div class='tl-value'>{escape(value_text(tensor))}</div>"
        for name, tensor in outputs.items()
    )


def _latency(outcome: Outcome) -> str:
    if not outcome.arrivals:
        return ""
    total = f"<b>{duration_text(outcome.total_ns / 1e9)}</b>"
    batch = f" in a batch of {outcome.batch_size}" if outcome.batch_size > 1 else ""
    if outcome.split is None:
        return f"<div>{total}{batch}</div>"
    return f"<div>{total}{batch}</div>{_bar(outcome.split, outcome.total_ns)}"


def _bar(split: Split, total_ns: int) -> str:
    times = [(getattr(split, key), word, colour) for key, word, colour in _PARTS]
    rest = max(0, total_ns - sum(ns for ns, _, _ in times))
    times.append((rest, "transport", "#c9a13b"))
    spans = "".join(f"<span style='flex:{ns} 0 0;background:{colour}'></span>" for ns, _, colour in times)
    keys = "".join(
        f"<span><span class='tl-key' style='background:{colour}'></span>{word} "
        f"<span class='tl-dim'>{duration_text(ns / 1e9)}</span></span>"
        for ns, word, colour in times
    )
    return f"<div class='tl-bar'>{spans}</div><div class='tl-keys'>{keys}</div>"


def _error(error: TritonError, hint: str) -> str:
    """The error as a client sees it: its code and its text."""
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
                f"{escape(' '.join(value_text(tensor).split())[:_VALUE_WIDTH])}"
                for name, tensor in response.outputs.items()
            )
        final = "<span class='tl-good'>FINAL</span>" if response.final else ""
        rows.append(
            f"<tr><td>{number}</td><td>{duration_text(arrival.after_ns / 1e9)}</td>"
            f"<td>{final}</td><td class='tl-type'>{content or '<span class=tl-dim>empty</span>'}</td></tr>"
        )
    more = len(arrivals) - len(rows)
    return (
        "<table class='tl-tensors'><thead><tr><th>#</th><th>after</th><th></th><th>response</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>" + (f"<div class='tl-dim'>… and {more} more</div>" if more else "")
    )


def _summary(outcomes: Sequence[Outcome], finished: bool) -> str:
    done = [outcome for outcome in outcomes if outcome.error is None and outcome.arrivals]
    failed = sum(outcome.error is not None for outcome in outcomes)
    head = f"<b>{len(done)}</b> of {len(outcomes)} requests answered"
    head += f", <b class='tl-bad'>{failed} failed</b>" if failed else ""
    rows = []
    if done and finished:
        columns = [("total", [o.total_ns for o in done])]
        splits = [outcome.split for outcome in done if outcome.split is not None]
        columns += [(word, [getattr(split, key) for split in splits]) for key, word, _ in _PARTS if splits]
        for word, values in columns:
            cells = "".join(f"<td>{duration_text(ns / 1e9)}</td>" for ns in (min(values), median(values), max(values)))
            rows.append(f"<tr><td>{word}</td>{cells}</tr>")
    table = (
        "<table class='tl-tensors'><thead><tr><th></th><th>min</th><th>median</th><th>max</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
        if rows
        else ""
    )
    return f"<div>{head}{_batches(outcomes)}</div>{table}"


def _batches(outcomes: Sequence[Outcome]) -> str:
    """How many batches of which size the requests were in."""
    sizes: dict[int, float] = {}
    for outcome in outcomes:
        if outcome.batch_size:
            sizes[outcome.batch_size] = sizes.get(outcome.batch_size, 0) + 1
    if not sizes:
        return ""
    return ", in batches of " + ", ".join(str(size) for size in sorted(sizes))
