"""The compact card of a model: text, HTML for light and dark themes, and buttons where ipywidgets is installed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .model_facts import ModelFacts, StepFacts, TensorFacts, duration_text
from .theme import STYLE

_SHOWN_LOG_LINES = 200
_OPEN_LOG_LINES = 3


class ModelCard:
    """What a frontend displays of `facts`. A snapshot: nothing is asked of the server later."""

    def __init__(self, facts: ModelFacts) -> None:
        self.facts = facts

    def __repr__(self) -> str:
        return card_text(self.facts)

    def _repr_html_(self) -> str:
        return card_html(self.facts)


def card_text(facts: ModelFacts) -> str:
    """The card for a terminal."""
    lines = [f"{facts.name}  {facts.state}  {_headline(facts)}"]
    width = max((len(t.name) for t in (*facts.inputs, *facts.outputs)), default=0)
    for role, tensors in (("send", facts.inputs), ("get", facts.outputs)):
        for t in tensors:
            lines.append(f"  {role:<5} {t.name:<{width}}  {t.datatype:<6} {t.shape}" + ("  optional" * t.optional))
    longest = max((len(step.model) for step in facts.steps), default=0)
    lines += [f"  step  {step.model:<{longest}}  {step.reads} → {step.writes}" for step in facts.steps]
    lines += [f"  {facts.kept}"] if facts.kept else []
    lines += [f"  warning: {warning}" for warning in facts.warnings]
    lines += [f"  | {record.text}" for record in facts.log[:_SHOWN_LOG_LINES]]
    return "\n".join(lines)


def card_html(facts: ModelFacts) -> str:
    """The card for a notebook. Every class is ours, every colour a theme variable with a fall-back."""
    tone = _tone(facts)
    head = (
        f"<span class='tl-dot tl-{tone}'></span><span class='tl-name'>{escape(facts.name)}</span>"
        f"<span class='tl-state tl-{tone}'>{escape(facts.state)}</span>"
        f"<span class='tl-dim'>{escape(_headline(facts))}</span>"
    )
    return (
        f"{STYLE}<div class='tl-card' data-state='{escape(facts.state)}'><div class='tl-head'>{head}</div>"
        + _note(facts.kept, "warn")
        + _tensor_table(facts.inputs, facts.outputs)
        + _step_table(facts.steps)
        + "".join(_note(warning, "warn") for warning in facts.warnings)
        + _log(facts)
        + "</div>"
    )


def _headline(facts: ModelFacts) -> str:
    parts = [f"version {facts.version}"]
    if facts.seconds is not None:
        parts.append(f"ready in {duration_text(facts.seconds)}")
    return " · ".join([*parts, facts.instances, facts.batching])


def _tone(facts: ModelFacts) -> str:
    if facts.kept:
        return "warn"
    return "good" if facts.state == "READY" else "off"


def _note(text: str, tone: str) -> str:
    return f"<div class='tl-note tl-{tone}-note'>{escape(text)}</div>" if text else ""


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
    return f"<table class='tl-tensors tl-steps'>{rows}</table>" if rows else ""


def _log(facts: ModelFacts) -> str:
    if not facts.log:
        return ""
    count = len(facts.log)
    lines = [
        f"<div class='tl-{record.stream} tl-{record.level.lower()}'>{escape(record.text) or '&nbsp;'}</div>"
        for record in facts.log[:_SHOWN_LOG_LINES]
    ]
    if count > len(lines):
        lines.append(f"<div class='tl-dim'>… and {count - len(lines)} more: %triton logs {escape(facts.name)}</div>")
    title = "1 line printed while loading" if count == 1 else f"{count} lines printed while loading"
    opened = " open" if count <= _OPEN_LOG_LINES else ""
    body = f"<div class='tl-lines'>{''.join(lines)}</div>"
    return f"<details class='tl-log'{opened}><summary>{title}</summary>{body}</details>"
