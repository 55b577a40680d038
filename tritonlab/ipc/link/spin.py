"""The decision when polling for an answer is worth a core: while fewer stubs execute than there are cores,
polling has done no harm lately, and the answer is due in a moment.

A client that sends 100 requests a second finds the stub asleep, which then answers after 300-500 us: polling burns 200
us in vain. Measured on 2 cores with such a client over HTTP: with polling the processor time per request is 1.70 x
Triton's and p50 1.45 x, without it 1.16 x and 1.13 x.

While others use the cores, polling takes one from the very process that is to answer, so it rests then (`PollingRest`).
Measured on 2 cores, medians in us, polling / not polling:

                      nobody else      one busy process beside
    HTTP                266 / 329             565 / 299
    gRPC                394 / 469             501 / 428
    one BLS exec        123 / 205             375 / 166
    in the kernel        63 / 113             325 / 110   (p99 1370 / 173)

A stub polls also where several clients ask, though the core is then the client's. JSON over 8 connections with dynamic
batching, requests a second beside the version before event loops read links, in turn: 1.8 to 2.0 times as many with
polling (load average 3 to 9), 1.1 times without (load average 5), for 5 % less processor time.
"""

from __future__ import annotations

import os

from .idle_machine import IdleMachine

#: Longest poll of a caller for its answer. On a 2-core virtual machine a receive costs 90-125 us p50 if it sleeps, and
#: 16 us if it polls.
SPIN_US = 200
#: Longest poll of a stub for its next command, if the last one came within that time. A client over the network takes
#: 300 us between two requests. Measured over HTTP when this came: add_sub took 640 us p50 with 200 us here, 540 us with
#: this.
STUB_SPIN_US = 1000
#: Seconds that a frontend's thread, which has others to serve, sleeps for an answer that should come at once.
PATIENCE = 2e-3
#: An answer is late if it comes more than this many nanoseconds after the stub is done. Of 100 answers polled for, 3 to
#: 7 are late on a free machine (HTTP and gRPC, one caller), and 40 to 60 beside a busy process.
_LATE = 150_000
#: Polling does harm if at least the first number of answers are late, out of the second.
_TOO_MANY, _WINDOW = 5, 16
#: Nanoseconds for which nobody polls after the first harm, and the most that this grows to.
_SHORTEST_REST, _LONGEST_REST = 10_000_000, 1_280_000_000
#: How long a sleeping thread takes to wake, at most.
_WAKE = 150e-6


class AnswerPace:
    """The record of whether answers, of one stub or of those that one thread reads, come soon enough to be polled
    for."""

    def __init__(self) -> None:
        self._soon = True  # whether the last answer of a stub that was awake came soon
        self._awake = False
        self._began = self._ended = 0.0

    def begin(self, now: float) -> float:
        """Note that an answer is awaited from `now` (seconds) on. Returns how many seconds to poll for it."""
        self._began = now
        self._awake = now - self._ended < STUB_SPIN_US * 1e-6
        return SPIN_US * 1e-6 if self._awake and self._soon else 0.0

    def end(self, now: float) -> None:
        """Note that the answer came at `now` (seconds)."""
        self._ended = now
        if self._awake:
            self._soon = now - self._began < SPIN_US * 1e-6 + (0.0 if self._soon else _WAKE)


class PollingRest:
    """Whether polling has done harm lately: answers came long after they were due, because the poller had the core that
    the stub needed. Then nothing polls for a while, longer each time that it does harm again.

    It goes by the answers, not by how many threads of the machine run: on 2 cores a single busy process is too many,
    and a client that is about to sleep looks like one.
    """

    def __init__(self) -> None:
        self.there = False
        self._answers = self._late = 0
        self._rest = _SHORTEST_REST
        self._until = 0

    def look(self, now: int) -> None:
        """Let polling be tried again when its rest is over; to be called often, with `now` in nanoseconds."""
        if self.there and now >= self._until:
            self.there = False

    def answered(self, late: int, now: int) -> None:
        """Note an answer that came at `now` from a stub that was polling, `late` nanoseconds after it was due."""
        self._answers += 1
        self._late += late > _LATE
        if self._answers < _WINDOW:
            return
        if self._late >= _TOO_MANY:
            self.there = True
            self._until = now + self._rest
            self._rest = min(self._rest * 2, _LONGEST_REST)
        else:
            self._rest = max(self._rest // 2, _SHORTEST_REST)
        self._answers = self._late = 0


class SpinBudget:
    """How many stubs are executing, and which of those only wait for another model's answer. Its sets are
    changed by atomic operations only, so it needs no lock."""

    def __init__(
        self, cores: int | None = None, crowd: PollingRest | None = None, quiet: IdleMachine | None = None
    ) -> None:
        self._cores = cores or len(os.sched_getaffinity(0))
        self.crowd = crowd or PollingRest()
        self.quiet = quiet or IdleMachine()
        self._executing: set[int] = set()
        self._blocked: set[int] = set()

    def enter(self, instance: int) -> None:
        self._executing.add(instance)

    def leave(self, instance: int) -> None:
        self._executing.discard(instance)
        self._blocked.discard(instance)

    def block(self, instance: int) -> None:
        """Note that the instance's `execute` needs no core until `unblock`: it waits for another model's answer."""
        self._blocked.add(instance)

    def unblock(self, instance: int) -> None:
        self._blocked.discard(instance)

    def blocks(self, instance: int) -> bool:
        return instance in self._blocked

    @property
    def allowed(self) -> bool:
        """Whether kernel and executing stubs leave a core for each that polls."""
        return not self.crowd.there and len(self._executing) - len(self._blocked) < self._cores

    @property
    def relaying(self) -> bool:
        """Whether the next message goes from one stub to another, and a core is free to poll for it."""
        return bool(self._blocked) and self.allowed
