"""`AnswerLead` lets the thread that waits for a stub's answer read it itself, which spares it being woken."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter

from ...core.inference.infer_request import InferenceRequest
from ...ipc.link.stub_link import StubLink
from ...ipc.link.wait_policy import PATIENCE, WaitPolicy


class AnswerLead:
    """The reading of one stub's answers for the thread that waits, as its `policy` says. Requests have this object as
    their executor while the stub has them."""

    def __init__(self, link: StubLink, policy: WaitPolicy) -> None:
        self._link = link
        self._policy = policy

    def reserve(self, request: InferenceRequest) -> None:
        """Reserve the answer for this thread if it is the one that waits for it. Otherwise the link reader would be
        woken for an answer that comes before the call that sends the batch has returned.

        After a pause this thread finds nothing in the processor's caches, and so comes to `lead` only after the answer:
        with 100 requests a second that woke the link reader each time, for 6 % of the processor time of HTTP and gRPC
        requests."""
        policy = self._policy
        if request.waiting_thread == get_ident() and policy.is_quick and self._link.hold(unwatch=policy.has_slept):
            request.waiting_thread, request.reserved_lead = 0, self

    def lead(self, done: Callable[[], bool], patient: bool = True) -> bool:
        """Read the answers as `core.infer_request.Leadable` says. It polls first if the last execution was short and a
        core is free. Once `execute` waits for another model the link reader reads the messages of both models."""
        link, policy = self._link, self._policy
        if not link.held and (policy.is_blocked or not (patient or policy.is_quick)):
            return False
        pace = policy.pace
        spin = pace.begin(perf_counter()) if policy.polls else 0.0
        led = link.lead(lambda: policy.is_blocked or done(), spin=spin, timeout=None if patient else PATIENCE)
        pace.end(perf_counter())
        return led

    def wait_for_another(self, waits: bool) -> None:
        """Note whether `execute` waits for another model's answer, during which it needs no core, and the link reader
        polls for the messages of both models."""
        if waits and self._link.reader is not None:
            self._link.read_by(None)
        self._policy.block(waits)
