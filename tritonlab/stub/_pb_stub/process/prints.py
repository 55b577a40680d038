"""Stdout and stderr, which the author's code may have closed or replaced by anything."""

from __future__ import annotations

import contextlib
import os
import sys


def flush_prints() -> None:
    """Send on what the author's code has printed so far."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - after every execute: suppress() costs a microsecond
            stream.flush()
        except Exception:
            pass  # the author closed or replaced it


def print_error(text: str) -> None:
    """Write to stderr, past an object in its place that refuses."""
    try:
        sys.stderr.write(text)
    except Exception:
        with contextlib.suppress(OSError):
            os.write(2, text.encode("utf-8", "backslashreplace"))
