"""This module lets other threads run between two pieces of large work.

A thread that must ask for the interpreter lock waits 5 ms each time. Measured with 5 million numbers as JSON both ways:
the p99 of `/v2/health/live` is a third of what it is without.
"""

from __future__ import annotations

import time

#: Seconds. With 0 the lock is often back before the one who waits for it has woken up.
_PAUSE = 50e-6


def give_way() -> None:
    """Gives up the interpreter lock for a moment."""
    time.sleep(_PAUSE)
