"""`deliver`, the one place that hands a response to its client, for instances, schedulers, ensembles and the response
cache: it calls the hooks, then the client, then ends the request.
"""

from __future__ import annotations

import copy
import logging

from ..clock import Clock
from ..observe.instrument import Instruments
from ..status import TritonError
from .infer_request import InferenceRequest
from .infer_response import InferenceResponse

_log = logging.getLogger(__name__)


def deliver(request: InferenceRequest, response: InferenceResponse, instruments: Instruments, clock: Clock) -> None:
    """Hand the response to the client; a final one ends the request. An error of the client's callback is logged."""
    final = response.final
    if not final:
        request.responded = clock.now()
    if instruments.response_sent is not None:
        instruments.response_sent(request, response, clock.now())
    if instruments.stream_response is not None and (not final or response.empty or request.responded):
        instruments.stream_response(request, response, clock.now())
    if instruments.request_failed is not None and response.error is not None:
        instruments.request_failed(request, response, clock.now())
    try:
        request.respond(response)
    except Exception:
        _log.exception("the response callback of %r raised", request)
    if final and instruments.request_released is not None:
        instruments.request_released(request, clock.now())


def deliver_error(
    request: InferenceRequest, version: int, error: TritonError, instruments: Instruments, clock: Clock
) -> None:
    """End the request with a final response that carries `error`."""
    deliver(request, error_response(request, version, error), instruments, clock)


def error_response(request: InferenceRequest, version: int, error: TritonError) -> InferenceResponse:
    """Return the final response with the error of a failed request."""
    # Each response has its own exception object, as threads that raise a shared one would mix its traceback.
    own = copy.copy(error)
    return InferenceResponse(request.model_name, version, request.request_id, error=own, final=True)
