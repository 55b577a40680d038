"""The last requests of each model, kept with their tensors so that they can be sent again.

Copies are made of one request in a tenth of a second and model, so that an author's own requests are kept and a load
test is not slowed down: for all other requests this costs one look into a dict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ..core.inference.infer_request import SEQUENCE_START, InferenceRequest
from ..core.observe.failure_capsule import KeptRequest, keep_requests

#: How many are kept of a model, and the least nanoseconds between two of them.
MOST = 4
SPACING_NS = 100_000_000


class LastRequests:
    """The last requests of each model. Those with larger tensors than a failure keeps are not among them, nor those in
    the memory of a GPU, which nothing copies to the host for a record."""

    def __init__(self) -> None:
        #: by model, the time from which on the next request is kept; read for each execution
        self.due: dict[str, int] = {}
        self._records: dict[str, deque[KeptRequest]] = {}

    def keep(self, model: str, requests: Sequence[InferenceRequest], now: int) -> None:
        """Keep the first of the requests."""
        self.due[model] = now + SPACING_NS
        first = requests[0]
        if first.null or any(tensor.memory_type for tensor in first.inputs.values()):
            return
        ((record,), _) = keep_requests([first])
        if not record.cut:
            self._records.setdefault(model, deque(maxlen=MOST)).append(record)

    def of_models(self) -> Mapping[str, list[KeptRequest]]:
        """Return the requests by their models, the oldest first. Those of a sequence whose first request is not kept
        are left out: alone they mean nothing."""
        return {model: _whole([*records]) for model, records in [*self._records.items()]}


def _whole(records: Sequence[KeptRequest]) -> list[KeptRequest]:
    found: list[KeptRequest] = []
    started: set[int | str] = set()
    for request in records:
        if request.flags & SEQUENCE_START:
            started.add(request.correlation_id)
        if not request.correlation_id or request.correlation_id in started:
            found.append(request)
    return found
