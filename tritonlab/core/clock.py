"""The clock, handed in as an argument: nothing below the server reads the time on its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The time for the schedulers and statistics. `tritonlab.testing.MockClock` is the other implementation."""

    def now(self) -> int:
        """Return monotonic nanoseconds, for durations and deadlines."""
        ...

    def wall(self) -> int:
        """Return nanoseconds since the epoch, for times that a person or client reads."""
        ...


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.monotonic_ns)
    wall = staticmethod(time.time_ns)
