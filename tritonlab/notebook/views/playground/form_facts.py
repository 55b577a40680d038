"""The values of a playground's form and the outcome of its last request, as JSON and as text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ....clients.outcome import Outcome
from .request_form import RequestForm

_MOST_TEXT = 60
#: Inputs that the text lists one by one.
_LISTED = 20


def form_facts(name: str, form: RequestForm, last: Outcome | None) -> dict[str, Any]:
    """Return the form's values for a model of that name, and its last outcome, as JSON values."""
    return {
        "model": name,
        "inputs": form.inputs.to_dict(),
        "batch_size": form.batch.value,
        "seed": form.seed.value,
        "outputs": form.requested_outputs,
        "last": last.to_dict() if last is not None else None,
    }


def form_text(facts: Mapping[str, Any], last: Outcome | None) -> str:
    """Return the facts for a terminal."""
    inputs = facts["inputs"]
    width = max(map(len, inputs), default=0)
    lines = [f"Playground of {facts['model']}: batch size {facts['batch_size']}, seed {facts['seed']}"]
    lines += [_input_line(name, width, one) for name, one in list(inputs.items())[:_LISTED]]
    lines += [f"  and {len(inputs) - _LISTED} more inputs"] if len(inputs) > _LISTED else []
    lines += ["  last request:", *(f"    {line}" for line in repr(last).split("\n"))] if last is not None else []
    return "\n".join([*lines, "  .send() sends it; .compare(…), .copy_as(…) and .keep() do what its buttons do"])


def form_html(text: str) -> str:
    """Return the form for an output without a running kernel."""
    lines = escape(text).replace("\n", "<br>")  # a notebook that is not trusted has no styles
    return f"<div class='tl-panel'><div class='tl-text'>{lines}</div></div>"


def _input_line(name: str, width: int, facts: Mapping[str, Any]) -> str:
    value = " ".join(facts["text"].split())
    text = value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}…"
    how = facts["mode"] if facts["sent"] else "not sent"
    return f"  send  {name:<{width}}  {facts['datatype']:<6} {facts['shape']}  {how}{f': {text}' if text else ''}"
