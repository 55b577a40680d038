"""The compact card of a model as text and as HTML, for light and dark themes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape

from .log_lines import log_lines_html
from .model_facts import TONES, ModelFacts, StepFacts, TensorFacts

#: The state of a card whose load another cell's load has replaced.
REPLACED = "REPLACED"

_OPEN_LOG_LINES = 3
#: With the rest of a card this makes 40 lines at most, few enough for programs to read.
_TEXT_LOG_LINES = 20


def card_text(facts: ModelFacts) -> str:
    """Return the card for a terminal."""
    lines = ["  ".join(filter(None, [facts.name, facts.state_text, facts.headline]))]
    width = max(map(len, [t.name for t in (*facts.inputs, *facts.outputs)]), default=0)
    for role, tensors in (("send", facts.inputs), ("get", facts.outputs)):
        for t in tensors:
            lines.append(f"  {role:<5} {t.name:<{width}}  {t.datatype:<6} {t.shape}" + ("  optional" * t.optional))
    if facts.steps:
        longest = max(len(step.model) for step in facts.steps)
        lines += [f"  step  {step.model:<{longest}}  {step.reads} → {step.writes}" for step in facts.steps]
    notes = (facts.answers, facts.kept, facts.reason, *facts.draining, facts.hanging, facts.copies, _repeated(facts))
    lines += [f"  {text}" for text in notes if text]
    lines += [f"  warning: {warning}" for warning in facts.warnings]
    lines += [f"  | {record.text}" for record in facts.log[-_TEXT_LOG_LINES:]]
    return "\n".join(lines)


def still_html(facts: ModelFacts, when: float, of_config: bool = False) -> str:
    """Return the card for an output without a running kernel, as it was at `when`, wall clock seconds. `of_config`:
    whether the card's cell is a config, which is not coloured as Python.
    """
    state = f"was {facts.state_text} at {time.strftime('%H:%M, %d %b %Y', time.localtime(when))}"
    lasting = facts.lasting()
    classes = "tl-card tl-of-config" if of_config else "tl-card"
    return f"<div class='{classes}' data-state='{escape(facts.state)}'>{card_body(lasting, state)}</div>"


def card_body(facts: ModelFacts, state: str = "") -> str:
    """Return the card without its buttons. All classes are ours, all colours theme variables with fallbacks. `state`
    replaces the word for the state.
    """
    tone = TONES.get(facts.state, "bad")
    if facts.kept and tone != "bad":
        tone = "warn"
    clock = _clock(facts.loading) if facts.loading is not None else ""
    head = (
        f"<span class='tl-dot tl-{tone}'></span> <span class='tl-name'>{escape(facts.name)}</span> "
        f"<span class='tl-state tl-{tone}'>{escape(state or facts.state_text)}</span> "
        f"<span class='tl-dim'>{clock}{escape(facts.headline)}</span>"
    )
    opened = len(facts.log) <= _OPEN_LOG_LINES or facts.state in ("LOADING", "FAILED")
    return (
        f"<div class='tl-head'>{head}</div>"
        + (f"<div class='tl-dim tl-text'>{escape(facts.answers)}</div>" if facts.answers else "")
        + (_notes([facts.kept], "warn") if facts.kept else "")
        + (_notes([facts.reason], "bad") if facts.reason else "")
        + (_notes([*facts.draining, facts.hanging], "warn") if facts.draining or facts.hanging else "")
        + (_executing(facts) if facts.draining and facts.executing else "")
        + _tensor_table(facts.inputs, facts.outputs)
        + (_step_table(facts.steps) if facts.steps else "")
        + (_notes(facts.warnings, "warn") if facts.warnings else "")
        + (f"<div class='tl-dim tl-text'>{escape(facts.copies)}</div>" if facts.copies else "")
        + (f"<div class='tl-dim tl-text'>{escape(_repeated(facts))}</div>" if facts.imports_again else "")
        + (log_lines_html(facts.log, facts.name, " while loading", opened=opened) if facts.log else "")
    )


def _executing(facts: ModelFacts) -> str:
    stacks = f"<pre class='tl-lines'>{escape(facts.executing)}</pre>"
    return f"<details class='tl-log tl-executing'><summary>what it executes</summary>{stacks}</details>"


def _clock(seconds: float) -> str:
    """Return the clock of a load, which the card's ES module updates."""
    return f"<span class='tl-clock' data-age='{seconds:.2f}'>{seconds:.1f} s</span> · "


def _repeated(facts: ModelFacts) -> str:
    word = "imported again" if facts.loading is None else "imports again"
    return f"{word}: {facts.imports_again}" if facts.imports_again else ""


def _notes(texts: Iterable[str], tone: str) -> str:
    notes = ""
    for text in filter(None, texts):
        notes += f"<div class='tl-note tl-{tone}-note tl-text'>{escape(text)}</div>"
    return notes


def _tensor_table(inputs: Sequence[TensorFacts], outputs: Sequence[TensorFacts]) -> str:
    rows = []
    for role, tensors in (("send", inputs), ("get", outputs)):
        for index, tensor in enumerate(tensors):
            rows.append(
                f"<tr{' class=tl-first' if index == 0 else ''}><th>{role if index == 0 else ''}</th>"
                f"<td class='tl-tensor'>{escape(tensor.name)}</td>"
                f"<td class='tl-type'>{tensor.datatype}</td><td class='tl-shape'>{escape(tensor.shape)}</td>"
                f"<td class='tl-dim'>{'optional' if tensor.optional else ''}</td></tr>"
            )
    return f"<table class='tl-tensors'>{''.join(rows)}</table>" if rows else ""


def _step_table(steps: Sequence[StepFacts]) -> str:
    rows = "".join(
        f"<tr{' class=tl-first' if number == 0 else ''}><th>{'run' if number == 0 else ''}</th>"
        f"<td class='tl-tensor'>{escape(step.model)}</td><td class='tl-shape'>{escape(step.reads)} → "
        f"{escape(step.writes)}</td></tr>"
        for number, step in enumerate(steps)
    )
    return f"<table class='tl-tensors tl-steps'>{rows}</table>"
