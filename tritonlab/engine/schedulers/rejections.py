"""`Rejections`, the end of requests that a scheduler does not execute, queued or refused."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from ...core.inference.delivery import deliver_error
from ...core.inference.infer_request import InferenceRequest
from ...core.status import CancelledError, TritonError, UnavailableError
from .response_order import ResponseOrder
from .scheduler import SchedulerServices


class Rejections:
    """The end of requests of one model version. The statistics count the cancelled and timed-out ones; `order` does not
    hold back their errors.
    """

    def __init__(self, version: int, services: SchedulerServices, order: ResponseOrder | None = None) -> None:
        self._version = version
        self._services = services
        self._order = order

    def cancel(self, requests: Iterable[InferenceRequest], now: int) -> None:
        """End requests that their clients have cancelled (rule 3.10.2)."""
        for request in requests:
            self.tell(request, "cancelled", now)
            self.reject(request, CancelledError(request.prefix + "Request cancelled"), now)

    def time_out(self, requests: Iterable[InferenceRequest], now: int, decided: int = 0) -> None:
        """End requests that timed out (rule 5.5.9). `decided`: when it was decided to execute them, if it was."""
        for request in requests:
            self.tell(request, "timeout", decided or now)
            self.reject(request, UnavailableError("Request timeout expired"), now)

    def tell(self, request: InferenceRequest, reason: str, now: int) -> None:
        """Report to the instruments that a request ends without an execution."""
        hook = self._services.instruments.request_rejected
        if hook is not None:
            hook(request, reason, now)

    def reject(self, request: InferenceRequest, error: TritonError, now: int) -> None:
        """End a request that waited. Errors of cancellation count as CANCELED, of unavailability as REJECTED."""
        if self._order is not None:
            self._order.leave(request)
        if isinstance(error, (CancelledError, UnavailableError)):
            reason = "CANCELED" if isinstance(error, CancelledError) else "REJECTED"
            self._services.stats.record_rejected(reason, now - request.request_start)
        self.fail(request, error)

    def fail(self, request: InferenceRequest, error: TritonError) -> None:
        """End a request that waited, without counting it."""
        deliver_error(request, self._version, error, self._services.instruments, self._services.clock)


def refusal_of(request: InferenceRequest, refusal: TritonError) -> TritonError:
    """Return the refusal as this request's own exception: threads that raise a shared one would mix its traceback."""
    if isinstance(refusal, UnavailableError):
        return UnavailableError(request.prefix + refusal.message)
    return copy.copy(refusal)
