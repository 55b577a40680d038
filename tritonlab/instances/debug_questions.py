"""These functions ask a stub for its debuggers: for the exception that it keeps, and for a port for an editor."""

from __future__ import annotations

from ..core.status import ModelError
from .model_stub import ModelStub
from .response_factory import failure_of


def last_error_age(stub: ModelStub, timeout: float, *, begin: bool) -> float | None:
    """Returns how many seconds ago `execute` raised the exception that the stub keeps, None if it keeps none; with
    `begin` a debugger looks at it."""
    monitor = stub.process.monitor
    answer = monitor.postmortem(begin)
    if not monitor.await_answer(answer, timeout) or answer.lost or answer.failure:
        return None
    return float(answer.value) if answer.value is not None else None


def editor_port(stub: ModelStub, timeout: float) -> int:
    """Returns the port on which debugpy listens in the stub. Raises ModelError if it cannot."""
    monitor = stub.process.monitor
    answer = monitor.attach()
    if not monitor.await_answer(answer, timeout) or answer.lost:
        raise ModelError(f"'{stub.instance}' did not let a debugger listen within {timeout:g} s")
    if answer.failure is not None:
        raise failure_of(answer.failure, ())
    return int(answer.value)
