"""The clock is handed in as an argument: nothing below the server reads the time on its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A clock gives the schedulers and statistics the time. `tritonlab.testing.MockClock` is the other
    implementation."""

    def now(self) -> int:
        """Monotonic nanoseconds."""
        ...

    def wall(self) -> int:
        """Nanoseconds since the epoch, for what a person or client reads."""
        ...


class SystemClock:
    """Reads the machine's clocks."""

    now = staticmethod(time.monotonic_ns)
    wall = staticmethod(time.time_ns)
