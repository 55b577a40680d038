"""Stdout and stderr, which the author's code may have closed or replaced."""

from __future__ import annotations

import contextlib
import os
import sys


def flush_prints() -> None:
    """Send the author's prints so far."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - after every execute: suppress() costs a microsecond
            stream.flush()
        except Exception:
            pass  # the author closed or replaced it


def print_error(text: str) -> None:
    """Write to stderr; if sys.stderr was replaced and raises, write to descriptor 2."""
    try:
        sys.stderr.write(text)
    except Exception:
        with contextlib.suppress(OSError):
            os.write(2, text.encode("utf-8", "backslashreplace"))
