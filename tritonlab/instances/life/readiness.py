"""`ReadinessCheck` asks the author's `is_ready()` over the monitor socket, which answers even during `execute` (rule
2.7)."""

from __future__ import annotations

import threading
from typing import NamedTuple

from ...core.status import UnavailableError
from ...ipc.link.stub_connection import Answer
from ...ipc.link.stub_link import MonitorLink

#: Seconds a query waits for `is_ready()` (rule 2.7.3).
READY_TIMEOUT = 5.0


class ReadyQuery(NamedTuple):
    """One query on its way. `joined` means that it shares the call of an earlier query that is not answered yet."""

    answer: Answer
    joined: bool


class ReadinessCheck:
    """The readiness of one stub. Queries that come while `is_ready()` runs share its answer, so a slow one is never run
    twice at once.

    Guarantees: `ask` and `await_ready` may be called from any thread.
    """

    def __init__(self, monitor: MonitorLink, instance: str) -> None:
        self._monitor = monitor
        self._instance = instance
        self._lock = threading.Lock()  # guards _running
        self._running: Answer | None = None

    def ask(self) -> ReadyQuery:
        """Start `is_ready()`, or joins the call that runs."""
        with self._lock:
            joined = self._running is not None and not self._running.done()
            if not joined:
                self._running = self._monitor.is_ready()
            assert self._running is not None
            return ReadyQuery(self._running, joined)

    def await_ready(self, query: ReadyQuery, timeout: float = READY_TIMEOUT) -> bool:
        """Wait for the answer and return if the model is ready; False if it has no `is_ready`, and so always is.

        Raises UnavailableError with Triton's text if it is not ready: `is_ready` returned False or no bool, raised, or
        took more than `timeout` seconds.
        """
        if not self._monitor.await_answer(query.answer, timeout):
            whose = "in-flight" if query.joined else "user-defined"
            raise UnavailableError(f"Timed out waiting for {whose} is_ready() response")
        if query.answer.lost:
            raise UnavailableError(f"Stub process '{self._instance}' is not healthy.")
        if query.answer.failure is not None:
            raise UnavailableError(query.answer.failure.text)
        if query.answer.value is False:
            raise UnavailableError(f"Model '{self._instance}' is not ready (user-defined check failed).")
        return query.answer.value is not None
