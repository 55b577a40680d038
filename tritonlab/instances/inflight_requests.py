"""The requests an instance still has to answer, and how each of them ends."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterable

from ..core.clock import Clock
from ..core.infer_request import InferenceRequest, RequestEvent
from ..core.infer_response import InferenceResponse
from ..core.instrument import Instruments
from ..core.status import ModelError, TritonError

_log = logging.getLogger(__name__)


class InflightRequests(dict[int, InferenceRequest]):
    """Requests that may still get responses, by handle, in order of arrival.

    Guarantees: a request gets one final response; whatever comes for it later is dropped. `drained` is set whenever the
    last one has got its own.
    """

    def __init__(
        self,
        version: int,
        clock: Clock,
        instruments: Instruments,
        reschedule: Callable[[InferenceRequest], bool],
    ) -> None:
        super().__init__()
        self.drained = threading.Event()
        self._version = version
        self._clock = clock
        self._instruments = instruments
        self._reschedule = reschedule

    def respond(self, request: InferenceRequest, response: InferenceResponse) -> None:
        """Hands the response to the client; the final one ends the request here."""
        instruments = self._instruments
        if response.final:
            if self.pop(request.serial, None) is None:
                return  # it has had its final response
            request.executor = None
        else:
            request.responded = self._clock.now()
        if instruments.response_sent is not None:
            instruments.response_sent(request, response, self._clock.now())
        try:
            request.respond(response)
        except Exception:
            _log.exception("the response callback of %r raised", request)
        if response.final:
            if instruments.request_released is not None:
                instruments.request_released(request, self._clock.now())
            if not self:
                self.drained.set()

    def fail(self, requests: Iterable[InferenceRequest], error: TritonError) -> None:
        """Ends those of the requests that are still open with the error."""
        for request in requests:
            response = InferenceResponse(
                request.model_name,
                self._version,
                request.request_id,
                error=copy.copy(error),  # its own: an exception that several threads raise mixes their frames
                final=True,
            )
            self.respond(request, response)

    def give_back(self, request: InferenceRequest) -> None:
        """Returns a request that was released with RESCHEDULE to its scheduler; one that it does not take fails."""
        if self.pop(request.serial, None) is None:
            return  # it has had its final response, or fills a slot
        request.executor = None
        request.advance(RequestEvent.RESCHEDULE)
        error: TritonError
        try:
            if self._reschedule(request):
                if not self:
                    self.drained.set()
                return
            error = ModelError(
                "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not "
                "configured to handle such a flag."
            )
        except TritonError as refusal:
            error = refusal
        # Triton drops it with a log line and its client waits for ever (rule 3.9.5)
        self[request.serial] = request
        self.fail([request], error)
