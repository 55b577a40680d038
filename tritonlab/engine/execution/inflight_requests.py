"""The requests that an instance has yet to answer, and their ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.clock import Clock
from ...core.inference.delivery import deliver, error_response
from ...core.inference.infer_request import InferenceRequest, RequestEvent
from ...core.inference.infer_response import InferenceResponse
from ...core.observe.instrument import Instruments
from ...core.status import ModelError, TritonError
from ...ipc.link.stub_link import RESCHEDULED


class InflightRequests(dict[int, InferenceRequest]):
    """The handles of the requests that may still get responses, in order of arrival.

    Guarantees: a request gets one final response; later responses are dropped. `drained` is set whenever the last
    request has its final response.
    """

    def __init__(
        self,
        version: int,
        clock: Clock,
        instruments: Instruments,
        reschedule: Callable[[InferenceRequest], bool],
    ) -> None:
        super().__init__()
        #: whether the stub is dead; then its burial fails the requests here
        self.dying = False
        #: the reason of its death, once it is buried
        self.death: TritonError | None = None
        self.drained = threading.Event()
        self._version = version
        self._clock = clock
        self._instruments = instruments
        self._reschedule = reschedule

    def respond(self, request: InferenceRequest, response: InferenceResponse) -> None:
        """Hand the response to the client; the final one ends the request here."""
        final = response.final
        if final:
            if self.pop(request.serial, None) is None:
                return  # the request has had its final response
            request.executor = None
        deliver(request, response, self._instruments, self._clock)
        if final and not self and not self.drained.is_set():  # checked first, because `set` is slow
            self.drained.set()

    def drain(self) -> None:
        """Block until each of them has its final response."""
        self.drained.clear()
        if self:
            self.drained.wait()

    def fail(self, requests: Iterable[InferenceRequest], error: TritonError) -> None:
        """End the open ones of the requests with the error."""
        for request in requests:
            self.respond(request, error_response(request, self._version, error))

    def give_back_released(self, requests: Sequence[InferenceRequest], outputs: Sequence[Any]) -> None:
        """Give back those of a batch's requests that were released with RESCHEDULE."""
        for request, output in zip(requests, outputs, strict=True):
            if output == RESCHEDULED:
                self.give_back(request)

    def give_back(self, request: InferenceRequest) -> None:
        """Return a request released with RESCHEDULE to its scheduler; a request that the scheduler refuses fails."""
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
        # Triton drops it with a log line, and its client waits for ever (rule 3.9.5)
        self[request.serial] = request
        if self.dying:  # the scheduler has ended the sequence for this reason, which the client must learn
            if self.death is None:
                return
            error = self.death
        self.fail([request], error)

    def bury(self, requests: Iterable[InferenceRequest], death: TritonError) -> None:
        """End the open ones of the requests, and all requests here, because the stub is dead."""
        self.death = death  # first, so that requests added by `give_back` meanwhile are failed by one of the two
        self.fail([*requests, *list(self.values())], death)
