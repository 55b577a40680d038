"""`short_number`, a number for people."""

from __future__ import annotations


def short_number(value: float) -> str:
    """Return a number with three digits, or all those before the point: `:.3g` makes 1.23e+03 of 1234."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
