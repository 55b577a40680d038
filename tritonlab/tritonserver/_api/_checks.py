"""Type checks as in the compiled half of NVIDIA's package: another type raises TypeError."""

from __future__ import annotations

import operator
from typing import Any


def check_text(what: str, value: Any) -> str:
    """Return the text as a plain `str`, also for a derived type such as numpy's."""
    if not isinstance(value, str):
        raise _wrong(what, value, "a str")
    return str.__str__(value)


def check_unsigned(what: str, value: Any, bits: int = 32) -> int:
    return _whole(what, value, range(1 << bits), f"an int of {bits} bits, not negative")


def check_signed(what: str, value: Any, bits: int = 64) -> int:
    return _whole(what, value, range(-1 << bits - 1, 1 << bits - 1), f"an int of {bits} bits")


def check_float(what: str, value: Any) -> float:
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise _wrong(what, value, "a float")
    return float(value)


def check_flag(what: str, value: Any) -> bool:
    """Convert any value that defines its own truth value, None included, but not text and containers. Raises
    TypeError."""
    if value is not None and not hasattr(value, "__bool__"):
        raise _wrong(what, value, "a bool")
    return bool(value)


def check_member(what: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise _wrong(what, value, f"a {kind.__name__}")
    return value


def _whole(what: str, value: Any, allowed: range, expected: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong(what, value, expected) from None
    if number not in allowed:
        raise _wrong(what, value, expected)
    return number


def _wrong(what: str, value: Any, expected: str) -> TypeError:
    return TypeError(f"{what} must be {expected}, not {value!r}")
