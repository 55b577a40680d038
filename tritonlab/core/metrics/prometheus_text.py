"""Prometheus text as Triton writes it (rule 1.14.8).

It does not use `prometheus_client.generate_latest`: that names counters `<name>_total`, which breaks every dashboard
made for Triton, it prints `0.0` for `0`, and importing it costs 60 ms (measured). The tests read this text with its
parser instead. One difference to Triton on purpose: Triton prints a newline in a help text raw, which breaks the
format; here it is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

#: (suffix of the name, labels in the order they are printed, value)
Sample = tuple[str, Sequence[tuple[str, str]], float]


@dataclass
class PrintedFamily:
    """All samples of one name. `kind` is counter, gauge, histogram or summary."""

    name: str
    kind: str
    help: str
    samples: list[Sample] = field(default_factory=list)


def render(families: Iterable[PrintedFamily]) -> str:
    """Return the text of `families`. One without samples prints nothing; families of one name print as one block."""
    merged: dict[str, PrintedFamily] = {}
    for family in families:
        if family.name in merged:
            merged[family.name].samples += family.samples
        elif family.samples:
            merged[family.name] = PrintedFamily(family.name, family.kind, family.help, list(family.samples))
    return "".join(_block(family) for family in merged.values())


def _block(family: PrintedFamily) -> str:
    help_text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    lines = [f"# HELP {family.name} {help_text}"] if help_text else []
    lines.append(f"# TYPE {family.name} {family.kind}")
    for suffix, labels, value in family.samples:
        lines.append(f"{family.name}{suffix}{label_text(labels)} {number_text(value)}")
    return "\n".join(lines) + "\n"


def label_text(labels: Sequence[tuple[str, str]]) -> str:
    """Return `{model="add_sub",version="1"}`, or an empty text without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def number_text(value: float) -> str:
    """Return a number with 16 significant digits and no `.0`; `+Inf`, `-Inf` and `Nan` are Triton's spellings."""
    if math.isnan(value):
        return "Nan"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.16g}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
