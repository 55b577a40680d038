"""The clock is handed in as an argument: nothing below the server reads the time on its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A clock gives the schedulers and statistics the time. `tritonlab.testing.MockClock` is the other
    implementation."""

    def now(self) -> int:
        """Returns monotonic nanoseconds, for durations and deadlines."""
        ...

    def wall(self) -> int:
        """Returns nanoseconds since the epoch, for times that a person or client reads."""
        ...


class SystemClock:
    """Reads the machine's clocks."""

    now = staticmethod(time.monotonic_ns)
    wall = staticmethod(time.time_ns)
