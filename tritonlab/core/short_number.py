"""Numbers and times for people."""

from __future__ import annotations


def short_number(value: float) -> str:
    """Return a number with three digits, or all those before the point: `:.3g` makes 1.23e+03 of 1234."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration_text(seconds: float) -> str:
    """Return seconds as a person reads them: `41 ms`, `1.3 s`, `180 µs`; three digits are enough for that."""
    if seconds >= 1:
        return f"{short_number(seconds)} s"
    return f"{short_number(seconds * 1e3)} ms" if seconds >= 1e-3 else f"{short_number(seconds * 1e6)} µs"
