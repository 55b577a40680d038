"""How a thread waits for an answer: it polls for it, or sleeps. The decision is made here, once for each batch that is
sent to a stub (`WaitPolicy.plan`).

Polling for an answer is worth a core while fewer stubs execute than there are cores, polling has done no harm lately,
and the answer is due in a moment.

A client that sends 100 requests a second finds the stub asleep, which then answers after 300-500 us: polling burns 200
us in vain. Measured on 2 cores with such a client over HTTP: with polling the processor time per request is 1.70 x
Triton's and p50 1.45 x, without it 1.16 x and 1.13 x.

While others use the cores, polling takes one from the very process that is to answer, so it rests then (`Cores`).
Measured on 2 cores, medians in us, polling / not polling:

                      nobody else      one busy process beside
    HTTP                266 / 329             565 / 299
    gRPC                394 / 469             501 / 428
    one BLS exec        123 / 205             375 / 166
    in the kernel        63 / 113             325 / 110   (p99 1370 / 173)

A stub polls also where several clients ask, though the core is then the client's. JSON over 8 connections with dynamic
batching, requests a second beside the version before event loops read links, in turn: 1.8 to 2.0 times as many with
polling (load average 3 to 9), 1.1 times without (load average 5), for 5 % less processor time.

A thread of an endpoint waits for an answer itself only where its requests come one at a time (`SoleSender`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from ...core.inference.infer_request import InferenceRequest
from ...core.metrics.infer_stats import ExecuteTimes

#: Longest poll of a caller for its answer. On a 2-core virtual machine a receive costs 90-125 us p50 if it sleeps, and
#: 16 us if it polls.
SPIN_US = 200
#: Longest poll of a stub for its next command, if the last one came within that time; the stub, which alone knows how
#: long it had nothing to do, polls less if less will do (`main_loop`). A client over the network takes 300 us between
#: two requests. Measured over HTTP when this came: add_sub took 640 us p50 with 200 us here, 540 us with this.
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
#: How many cores, of all together, are in use on average where there is little to do.
_LITTLE = 0.5
#: Nanoseconds for which one look at that is good. The system counts in hundredths of a second.
_LOOK = 1_000_000_000
#: Requests of one sender, none of another between them, after which it is taken for the only one.
IN_A_ROW = 4
#: Seconds that most clients need from an answer to their next request; what comes earlier may have been there before.
PAUSE = 150e-6

_UPTIME = Path("/proc/uptime")


class Cores:
    """The use of the machine's cores: which stubs execute, whether polling has done harm, whether there is little to
    do.

    Polling does harm where answers come long after they were due, because the poller had the core that the stub needed.
    Then nothing polls for a while, longer each time that it does harm again. It goes by the answers, not by how many
    threads of the machine run: on 2 cores a single busy process is too many, and a client that is about to sleep looks
    like one.

    Its sets are changed by atomic operations only, so it needs no lock.
    """

    def __init__(self, count: int | None = None, uptime: Path = _UPTIME) -> None:
        self._count = count or len(os.sched_getaffinity(0))
        #: the policies of the stubs that execute, and of those whose `execute` waits for another model's answer
        self.executing: set[WaitPolicy] = set()
        self.blocked: set[WaitPolicy] = set()
        #: whether nothing polls now, because that has done harm
        self.rests = False
        self._answers = self._late = 0
        self._rest = _SHORTEST_REST
        self._until = 0
        self._uptime = uptime
        self._all = count or os.cpu_count() or 1
        self._quiet = False
        self._next_look = 0
        self._up = self._idle = 0.0

    def may_poll(self, now: int) -> bool:
        """Return whether the server and the executing stubs leave a core for each that polls, `now` in nanoseconds;
        polling is tried again when its rest is over."""
        if self.rests:
            if now < self._until:
                return False
            self.rests = False
        return len(self.executing) - len(self.blocked) < self._count

    @property
    def relaying(self) -> bool:
        """Whether the next message goes from one stub to another, and a core is free to poll for it."""
        blocked = len(self.blocked)
        return blocked > 0 and not self.rests and len(self.executing) - blocked < self._count

    def answered(self, late: int, now: int) -> None:
        """Note an answer that came at `now` from a stub that was polling, `late` nanoseconds after it was due."""
        self._answers += 1
        self._late += late > _LATE
        if self._answers < _WINDOW:
            return
        if self._late >= _TOO_MANY:
            self.rests = True
            self._until = now + self._rest
            self._rest = min(self._rest * 2, _LONGEST_REST)
        else:
            self._rest = max(self._rest // 2, _SHORTEST_REST)
        self._answers = self._late = 0

    def are_quiet(self, now: int) -> bool:
        """Return whether the machine has little to do `now`, by what its cores did since the last look, the first time
        since it started. It is never quiet where the operating system does not tell."""
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._quiet = self._look()
        return self._quiet

    def _look(self) -> bool:
        try:
            # seconds since the start, and seconds that the cores were idle, all together
            with open(self._uptime, "rb", buffering=0) as file:
                up, idle = map(float, file.read().split())
        except (OSError, ValueError):
            return False
        passed, rested = up - self._up, idle - self._idle
        self._up, self._idle = up, idle
        return passed * self._all - rested < passed * _LITTLE


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


class WaitPolicy:
    """The decisions how the answers of one stub are waited for. `plan` makes them for each batch; the attributes hold
    them until the next."""

    def __init__(self, cores: Cores) -> None:
        #: whether the last execution was short enough to poll for its end
        self.is_quick = True
        #: whether the stub slept when the batch was sent
        self.has_slept = True
        #: for how many microseconds the stub is to poll for the batch after this one
        self.stub_spin_us = 0
        self.pace = AnswerPace()
        self._cores = cores
        #: when the last batch was sent, in nanoseconds, if the stub polled for it; else 0
        self._polled = 0
        self._executed = 0  # when the last execution was over

    def begin_execution(self) -> None:
        """Note that the stub gets a batch."""
        self._cores.executing.add(self)

    def end_execution(self) -> None:
        """Note that the stub executes nothing any more."""
        cores = self._cores
        cores.executing.discard(self)
        cores.blocked.discard(self)

    def plan(self, now: int) -> None:
        """Decide how the answer to the batch that is sent `now`, in nanoseconds, is waited for."""
        self.has_slept = slept = now - self._executed >= STUB_SPIN_US * 1000
        polls = self._cores.may_poll(now)
        self.stub_spin_us = STUB_SPIN_US if polls else 0
        self._polled = now if polls and not slept else 0

    def gives_way(self, now: int) -> bool:
        """Return whether the thread that has sent a batch to a stub that slept, and waits for the answer, is to let it
        run first: the machine has little else to do.

        The stub was woken on this core, most times. If this thread slept at once, the stub's answer would wake it
        before the stub has gone to sleep, and the client that it then answers would be woken on another core, as two
        are at work on this one. Measured over HTTP on 2 cores with 100 requests a second: 1040 us p50 and 647 us of
        processor time a request instead of 1480 and 870 (Triton: 1320 and 776). Where both cores were busy with other
        things, it took 2160 us instead of 680.
        """
        return self._cores.are_quiet(now)

    def executed(self, times: ExecuteTimes, now: int) -> None:
        """Note that the stub has executed the batch, and how long that took."""
        self._executed = now
        self.is_quick = times.compute_infer < SPIN_US * 1000
        if self._polled:
            took = times.compute_input + times.compute_infer + times.compute_output
            self._cores.answered(now - self._polled - took, now)

    @property
    def polls(self) -> bool:
        """Whether a caller polls for the answer: the last execution was short, and a core was free for it."""
        return self.is_quick and self.stub_spin_us > 0

    @property
    def is_blocked(self) -> bool:
        """Whether `execute` needs no core, because it waits for another model's answer."""
        return self in self._cores.blocked

    def block(self, blocks: bool) -> None:
        """Note whether `execute` waits for another model's answer."""
        (self._cores.blocked.add if blocks else self._cores.blocked.discard)(self)


class SoleSender:
    """Whether the requests of an endpoint come one at a time. Then the thread that received one may read the stub's
    answer itself (`InferenceServer.infer_here`), so that no two threads have to wake each other. One thread may call
    `begin`, any thread `end`.

    Where several clients send at once it must not wait, because batches are made of what comes meanwhile. Measured when
    this came, add_sub over HTTP with one caller on two cores took 310 us p50 instead of 450.

    A connection that sends one request after the other names itself as `sender`, and is alone once it has sent some in
    a row. Without that, a quick client that is back before PAUSE is over was taken for several: with tritonclient 40 %
    of the requests of a loop, and p50 was a quarter longer. The time alone says too little where one thread reads both
    the clients and the stubs: with 8 connections many a request came long enough after the last answer, and the thread
    polled for the answer while the other 7 waited to be read.
    """

    def __init__(self) -> None:
        self._under_way: set[int] = set()
        self._last_end = 0.0
        self._sender: object = None
        self._in_a_row = 0

    def begin(self, request: InferenceRequest, sender: object = None) -> bool:
        """Add a request; return whether it is alone. `sender` stands for a connection that has one request under way at
        a time: its next one cannot have been there before."""
        if sender is None or sender is not self._sender:
            self._sender, self._in_a_row = sender, 0
        self._in_a_row += 1
        if sender is not None:
            alone = not self._under_way and self._in_a_row > IN_A_ROW
        else:
            alone = not self._under_way and time.perf_counter() - self._last_end > PAUSE
        self._under_way.add(id(request))
        return alone

    def end(self, request: InferenceRequest) -> None:
        """Remove a request that is answered, or was refused."""
        self._under_way.discard(id(request))
        self._last_end = time.perf_counter()
