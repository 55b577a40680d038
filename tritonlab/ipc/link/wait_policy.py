"""The decision whether a thread polls for an answer or sleeps. It is made once for each batch that is sent to a stub
(`WaitPolicy.plan`).

Polling for an answer is worth a core while fewer stubs execute than there are cores, polling has done no harm lately,
and the answer is due in a moment.

At 100 requests a second the stub is asleep when a request comes, and answers after 300-500 us: polling burns 200 us in
vain. Measured on 2 cores with such a client over HTTP: with polling the processor time per request is 1.70 x Triton's
and p50 1.45 x, without it 1.16 x and 1.13 x.

While other processes use the cores, polling takes one from the very process that has to answer, so it pauses (`Cores`).
Measured on 2 cores, medians in us, polling / not polling:

                      nobody else      one busy process beside
    HTTP                266 / 329             565 / 299
    gRPC                394 / 469             501 / 428
    one BLS exec        123 / 205             375 / 166
    in the kernel        63 / 113             325 / 110   (p99 1370 / 173)

A stub also polls when several clients send requests, though it takes the core from a client. JSON over 8 connections
with dynamic batching, requests a second compared in turn with the version before event loops read links: 1.8 to 2.0
times as many with polling (load average 3 to 9), 1.1 times without (load average 5), for 5 % less processor time.

A thread of an endpoint waits for an answer itself only if its requests come one at a time (`SoleSender`).
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
#: Longest poll of a stub for its next command, if the last one came within that time; the stub measures how long it had
#: nothing to do, and polls less if less is enough (`main_loop`). A client over the network takes 300 us between two
#: requests. Measured over HTTP when this was added: add_sub took 640 us p50 with 200 us here, 540 us with this value.
STUB_SPIN_US = 1000
#: Seconds that a frontend's thread, which has others to serve, sleeps for an answer that should come at once.
PATIENCE = 2e-3
#: An answer is late if it comes more than this many nanoseconds after the stub is done. Of 100 answers polled for, 3 to
#: 7 are late on a free machine (HTTP and gRPC, one caller), and 40 to 60 next to a busy process.
_LATE = 150_000
#: Polling does harm if, of the second number of answers, at least the first number are late.
_TOO_MANY, _WINDOW = 5, 16
#: Nanoseconds without polling after the first harm, and the most that this grows to.
_SHORTEST_REST, _LONGEST_REST = 10_000_000, 1_280_000_000
#: How long a sleeping thread takes to wake, at most.
_WAKE = 150e-6
#: The machine has little to do if, on average, at most this many of all its cores are in use.
_LITTLE = 0.5
#: Nanoseconds for which a measurement of that is valid. The system counts in hundredths of a second.
_LOOK = 1_000_000_000
#: Requests of one sender in a row after which it is taken for the only one.
IN_A_ROW = 4
#: Seconds that most clients need from an answer to their next request; an earlier request may have been waiting.
PAUSE = 150e-6

_UPTIME = Path("/proc/uptime")


class Cores:
    """The use of the machine's cores: which stubs execute, whether polling has done harm, whether there is little to
    do.

    Polling does harm where answers come long after they were due, because the poller had the core that the stub needed.
    Then nothing polls for a while, longer each time that it does harm again. The answers decide, not the number of
    running threads: on 2 cores a single busy process is too many, and a client that is about to sleep looks like a busy
    process.

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
        """Return whether the server and the executing stubs leave a core for each poller, at `now` in nanoseconds.
        Polling is tried again when its pause is over."""
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
        """Return whether the machine has little to do `now`: the use of its cores since the last call, or at the first
        call since it started. Return False if the operating system does not report it."""
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
    """Whether answers come soon enough to be polled for: those of one stub, or all that one thread reads."""

    def __init__(self) -> None:
        self._soon = True  # whether the last answer of a stub that was awake came soon
        self._awake = False
        self._began = self._ended = 0.0

    def begin(self, now: float) -> float:
        """Note that an answer is awaited from `now` (seconds) on. Return for how many seconds to poll for it."""
        self._began = now
        self._awake = now - self._ended < STUB_SPIN_US * 1e-6
        return SPIN_US * 1e-6 if self._awake and self._soon else 0.0

    def end(self, now: float) -> None:
        """Note that the answer came at `now` (seconds)."""
        self._ended = now
        if self._awake:
            self._soon = now - self._began < SPIN_US * 1e-6 + (0.0 if self._soon else _WAKE)


class WaitPolicy:
    """The decisions whether to poll for the answers of one stub. `plan` makes them for each batch; the attributes hold
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
        """Decide whether to poll for the answer to the batch that is sent `now`, in nanoseconds."""
        self.has_slept = slept = now - self._executed >= STUB_SPIN_US * 1000
        polls = self._cores.may_poll(now)
        self.stub_spin_us = STUB_SPIN_US if polls else 0
        self._polled = now if polls and not slept else 0

    def gives_way(self, now: int) -> bool:
        """Return whether a thread that has woken a stub with a batch should first yield the core to it: the machine has
        little else to do.

        The stub is mostly woken on this core. If this thread slept at once, the stub's answer would wake it before the
        stub sleeps. Then two threads work on this core, and the client to be answered is woken on another one. Measured
        over HTTP on 2 cores with 100 requests a second: 1040 us p50 and 647 us of processor time a request instead of
        1480 and 870 (Triton: 1320 and 776). Where both cores were busy with other things, it took 2160 us instead of
        680.
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
    """A record of whether the requests of an endpoint come one at a time. If so, the thread that received one may read
    the stub's answer itself (`InferenceServer.infer_here`), so that no two threads have to wake each other. One thread
    may call `begin`, any thread `end`.

    If several clients send at once the thread must not wait, because batches are made of the requests that come
    meanwhile. Measured when this was added, add_sub over HTTP with one caller on two cores took 310 us p50 instead of
    450.

    A connection that sends one request after the other names itself as `sender`, and is alone once it has sent some in
    a row. Without that, a quick client that is back before PAUSE is over was taken for several: with tritonclient 40 %
    of the requests of a loop, and p50 was a quarter longer. The time alone is not enough where one thread reads both
    the clients and the stubs: with 8 connections many requests came long enough after the last answer, and the thread
    polled for an answer while the other 7 clients waited to be read.
    """

    def __init__(self) -> None:
        self._under_way: set[int] = set()
        self._last_end = 0.0
        self._sender: object = None
        self._in_a_row = 0

    def begin(self, request: InferenceRequest, sender: object = None) -> bool:
        """Add a request; return whether it is alone. `sender`: a connection with one request under way at a time, whose
        next request cannot have been waiting already."""
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
        """Remove a request that was answered or refused."""
        self._under_way.discard(id(request))
        self._last_end = time.perf_counter()
