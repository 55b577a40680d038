"""Whether the machine has little to do: then a thread that waits may let the one that it waits for run first
(`instances.answer_lead.AnswerLead.give_way`), and no third one takes the core meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path

_UPTIME = Path("/proc/uptime")
#: How many cores, of all together, are in use on average where there is little to do.
_LITTLE = 0.5
#: Nanoseconds for which one look is good. The system counts in hundredths of a second.
_LOOK = 1_000_000_000


class IdleMachine:
    """A look at what the cores did since the last look, the first time since the machine started. It is never quiet
    where the operating system does not tell."""

    def __init__(self, uptime: Path = _UPTIME, cores: int | None = None) -> None:
        self._file = uptime
        self._cores = cores or os.cpu_count() or 1
        self._quiet = False
        self._next = 0
        self._up = self._idle = 0.0

    def __call__(self, now: int) -> bool:
        """Return whether it is quiet `now`, in nanoseconds."""
        if now >= self._next:
            self._next = now + _LOOK
            self._quiet = self._look()
        return self._quiet

    def _look(self) -> bool:
        try:
            # seconds since the start, and seconds that the cores were idle, all together
            with open(self._file, "rb", buffering=0) as file:
                up, idle = map(float, file.read().split())
        except (OSError, ValueError):
            return False
        passed, rested = up - self._up, idle - self._idle
        self._up, self._idle = up, idle
        return passed * self._cores - rested < passed * _LITTLE
