"""A pause between two pieces of large work, in which other threads run.

A thread that must ask for the interpreter lock waits 5 ms each time. Measured with 5 million numbers as JSON both ways:
the p99 of `/v2/health/live` is a third of what it is without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

#: Seconds. With 0 the lock is often back before the one who waits for it has woken up.
_PAUSE = 50e-6


#: Returns whether the client for whom the work is done has gone.
CLIENT_GONE: ContextVar[Callable[[], bool] | None] = ContextVar("CLIENT_GONE", default=None)


class ClientGoneError(Exception):
    """Nobody wants the result of the work any more."""


def pause_work() -> None:
    """Give up the interpreter lock for a moment. Raises ClientGoneError."""
    time.sleep(_PAUSE)
    is_gone = CLIENT_GONE.get()
    if is_gone is not None and is_gone():
        raise ClientGoneError
