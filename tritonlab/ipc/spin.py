"""This module decides when polling for an answer is worth a core: while there are more cores than busy processes,
nobody else wants to run, and the answer is due in a moment.

A client that sends 100 requests a second finds the stub asleep, which then answers after 300-500 us: polling burns 200
us in vain. Measured on 2 cores with such a client over HTTP: with polling the processor time per request is 1.70 x
Triton's and p50 1.45 x, without it 1.16 x and 1.13 x. While 8 threads of other processes ran, polling took the core
from the very process that was to answer: one caller in the kernel took 1083 us p50 with it and 119 us without, one BLS
`exec` 1039 us and 374 us.
"""

from __future__ import annotations

import os
from collections.abc import Callable

#: Longest poll of a caller for its answer. On a 2-core virtual machine a blocking receive costs 90-125 us p50, one
#: whose
#: message comes while polling 16 us.
SPIN_US = 200
#: Longest poll of a stub for its next command, if the last one came within that time. A client over the network takes
#: 300 us between two requests. add_sub over HTTP took 640 us p50 with 200 us here, 540 us with this.
STUB_SPIN_US = 1000


#: Seconds that a frontend's thread, which has others to serve, sleeps for an answer that should come at once.
PATIENCE = 2e-3
#: Nanoseconds between two counts of the threads that want to run; one takes 10 us.
_LOOKS = 10_000_000
#: How long a sleeping thread takes to wake, at most.
_WAKE = 150e-6


class AnswerPace:
    """Learns whether answers, of one stub or of those that one thread reads, come soon enough to be polled for."""

    def __init__(self) -> None:
        self._soon = True  # whether the last answer of a stub that was awake came soon
        self._awake = False
        self._began = self._ended = 0.0

    def begin(self, now: float) -> float:
        """Notes that an answer is awaited from `now` (seconds) on. Returns how many seconds to poll for it."""
        self._began = now
        self._awake = now - self._ended < STUB_SPIN_US * 1e-6
        return SPIN_US * 1e-6 if self._awake and self._soon else 0.0

    def end(self, now: float) -> None:
        """Notes that the answer came at `now` (seconds)."""
        self._ended = now
        if self._awake:
            self._soon = now - self._began < SPIN_US * 1e-6 + (0.0 if self._soon else _WAKE)


class Crowd:
    """Knows whether more threads of the machine want to run than it has cores. Then polling takes the core from the one
    that is to answer, and the system lets a thread that slept run sooner than one that has used up its time."""

    def __init__(self, running: Callable[[], int], cores: int) -> None:
        self._running = running
        self._limit = cores + 0.5
        self._usual = 0.0
        self._next = 0
        self.there = False

    def look(self, now: int) -> None:
        """Counts the threads now and then; to be called often, with `now` in nanoseconds."""
        if now >= self._next:
            self._next = now + _LOOKS
            self._usual += (self._running() - self._usual) / 4
            self.there = self._usual > self._limit


def running_threads() -> int:
    """Returns how many threads of the machine run or want to; 0 if the system does not say."""
    try:
        with open("/proc/loadavg", "rb", 0) as file:
            return int(file.read(64).split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return 0


class SpinBudget:
    """Knows how many stubs are executing, and which of those only wait for another model's answer. Its sets are
    changed by atomic operations only, so it needs no lock."""

    def __init__(self, cores: int | None = None, crowd: Crowd | None = None) -> None:
        self._cores = cores or len(os.sched_getaffinity(0))
        self.crowd = crowd or Crowd(running_threads, os.cpu_count() or 1)
        self._executing: set[int] = set()
        self._blocked: set[int] = set()

    def enter(self, instance: int) -> None:
        self._executing.add(instance)

    def leave(self, instance: int) -> None:
        self._executing.discard(instance)
        self._blocked.discard(instance)

    def block(self, instance: int) -> None:
        """Notes that the instance's `execute` needs no core until `unblock`: it waits for another model's answer."""
        self._blocked.add(instance)

    def unblock(self, instance: int) -> None:
        self._blocked.discard(instance)

    def blocks(self, instance: int) -> bool:
        return instance in self._blocked

    @property
    def allowed(self) -> bool:
        """Returns whether kernel and executing stubs leave a core for each that polls."""
        return not self.crowd.there and len(self._executing) - len(self._blocked) < self._cores

    @property
    def relaying(self) -> bool:
        """Returns whether the next message goes from one stub to another, and a core is free to poll for it."""
        return bool(self._blocked) and self.allowed
