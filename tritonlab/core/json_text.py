"""JSON as Triton writes it for authors and clients: no blanks, and numbers in Triton's form (rules 1.7.5, 6.3.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_EXPONENT = re.compile(r"(-?)(\d)(?:\.(\d+))?e([+-]\d+)")
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def encode_parameters(parameters: Mapping[str, Any] | None) -> str:
    """Return the parameters of a request or response as the author reads them; empty if there are none."""
    if not parameters:
        return ""
    if float not in map(type, parameters.values()):
        return _compact(parameters)
    pairs = [
        f"{_compact(name)}:{fractions(_compact(value)) if type(value) is float else _compact(value)}"
        for name, value in parameters.items()
    ]
    return "{" + ",".join(pairs) + "}"


def fractions(printed: str) -> str:
    """Return Python's floats, and only them, as Triton prints them: `1e21` for `1e+21`, `0.00001`, `1e+20` in full."""
    return _EXPONENT.sub(_expanded, printed) if "e" in printed else printed


def _expanded(match: re.Match[str]) -> str:
    sign, first, rest, power = match[1], match[2], match[3] or "", int(match[4])
    digits = first + rest
    if 0 <= power < 21:  # Python writes an exponent from 16 on
        return f"{sign}{digits.ljust(power + 1, '0')}.0"
    if -7 < power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return f"{sign}{first}{'.' + rest if rest else ''}e{power}"
