"""Numbers, times and sizes for people."""

from __future__ import annotations

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def short_number(value: float) -> str:
    """Return a number with three digits, or with all digits before the point, where `:.3g` turns 1234 into 1.23e+03."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration_text(seconds: float) -> str:
    """Return seconds in a unit for people, with three digits: `41 ms`, `1.3 s`, `180 µs`."""
    if seconds >= 1:
        return f"{short_number(seconds)} s"
    return f"{short_number(seconds * 1e3)} ms" if seconds >= 1e-3 else f"{short_number(seconds * 1e6)} µs"


def ns_text(nanoseconds: float) -> str:
    """Return nanoseconds in the form of `duration_text`."""
    return duration_text(nanoseconds / 1e9)


def size_text(count: int) -> str:
    """Return bytes in powers of 1000: `1.07 GB`."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{short_number(size)} {_UNITS[unit]}"


def mib_text(count: float) -> str:
    """Return bytes in MiB, as `12.5 MiB`; fewer than 0.1 MiB in KiB."""
    small = 0 < abs(count) < (1 << 20) / 10
    return f"{short_number(count / (1 << 10))} KiB" if small else f"{short_number(count / (1 << 20))} MiB"
