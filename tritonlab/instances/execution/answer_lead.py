"""`AnswerLead` lets the thread that waits for a stub's answer read it itself, which spares it being woken, and decides
when it and the stub poll."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import get_ident
from time import perf_counter

from ...core.inference.infer_request import InferenceRequest
from ...core.metrics.execute_times import ExecuteTimes
from ...ipc.link.spin import PATIENCE, SPIN_US, STUB_SPIN_US, AnswerPace, SpinBudget
from ...ipc.link.stub_link import StubLink


class AnswerLead:
    """The reading of one stub's answers for the thread that waits. `key` names the stub to `spin`. Requests have this
    object as their executor while the stub has them."""

    def __init__(self, link: StubLink, spin: SpinBudget, key: int) -> None:
        #: whether the last execution was short enough to poll for its end
        self.quick = True
        self._link = link
        self._spin = spin
        self._key = key
        self._pace = AnswerPace()
        self._polls = True  # whether polling was allowed when the last batch was sent
        #: when the last batch was sent, in nanoseconds, if the stub polled for it; else 0
        self._polled = 0
        self._executed = 0  # when the last execution was over
        self._gives_way = False  # whether this thread is to `give_way` to the stub

    def sends(self, now: int) -> int:
        """Note that a batch is sent `now`, in nanoseconds. Returns for how many microseconds the stub is to poll for
        the next one."""
        self._spin.crowd.look(now)
        self._polls = polls = self._spin.allowed
        slept = now - self._executed >= STUB_SPIN_US * 1000
        self._polled = now if polls and not slept else 0
        self._gives_way = slept and self._link.held and self._spin.quiet(now)
        return STUB_SPIN_US if polls else 0

    def give_way(self) -> None:
        """Let the stub, which has just been sent a batch, run first if it slept, this thread waits for it, and the
        machine has little else to do.

        It was woken on this core, most times. If this thread slept at once, the stub's answer would wake it before the
        stub has gone to sleep, and the client that it then answers would be woken on another core, as two are at work
        on this one. Measured over HTTP on 2 cores with 100 requests a second: 1040 us p50 and 647 us of processor time
        a request instead of 1480 and 870 (Triton: 1320 and 776). Where both cores were busy with other things, which
        `IdleMachine` prevents, it took 2160 us instead of 680.
        """
        if self._gives_way:
            os.sched_yield()

    def executed(self, times: ExecuteTimes, now: int) -> None:
        """Note that the stub has executed the batch, and how long that took."""
        self._executed = now
        self.quick = times.compute_infer < SPIN_US * 1000
        if self._polled:
            took = times.compute_input + times.compute_infer + times.compute_output
            self._spin.crowd.answered(now - self._polled - took, now)

    def keep(self, request: InferenceRequest, now: int) -> None:
        """Reserve the answer for this thread if it is the one that waits for it. Otherwise the link reader would be
        woken for an answer that comes before the call that sends the batch has returned.

        After a pause (`now` is in nanoseconds) this thread finds nothing in the processor's caches, and so comes to
        `lead` only after the answer: with 100 requests a second that woke the link reader each time, for 6 % of the
        processor time of HTTP and gRPC requests."""
        if request.waiter == get_ident() and self.quick:
            pause = now - self._executed >= STUB_SPIN_US * 1000
            if self._link.hold(unwatch=pause):
                request.waiter, request.kept = 0, self

    def lead(self, done: Callable[[], bool], patient: bool = True) -> bool:
        """Read the answers as `core.infer_request.Leadable` says. It polls first if the last execution was short and a
        core is free. Once `execute` waits for another model the link reader reads the messages of both models."""
        link, budget, key = self._link, self._spin, self._key
        if not link.held and (budget.blocks(key) or not (patient or self.quick)):
            return False
        pace = self._pace
        spin = pace.begin(perf_counter()) if self.quick and self._polls else 0.0
        led = link.lead(lambda: budget.blocks(key) or done(), spin=spin, timeout=None if patient else PATIENCE)
        pace.end(perf_counter())
        return led

    def wait_for_another(self, waits: bool) -> None:
        """Note whether `execute` waits for another model's answer, during which it needs no core, and the link reader
        polls for the messages of both models."""
        if waits and self._link.reader is not None:
            self._link.read_by(None)
        (self._spin.block if waits else self._spin.unblock)(self._key)
