"""The unit of execution: the requests of one `execute` call to one instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.inference.infer_request import InferenceRequest


@dataclass(slots=True)
class Payload:
    """The requests of one `execute` call. `size` is the sum of their batch dimensions; `reason` is why the batch ends
    there; `nulls` is the number of NullRequests.

    `late` is called when the batch is ready to be sent. It ends and returns timed-out requests; the instance executes
    the others.
    """

    requests: Sequence[InferenceRequest]
    size: int
    reason: str
    nulls: int = 0
    late: Callable[[Sequence[InferenceRequest]], Sequence[InferenceRequest]] | None = None

    def without(self, late: Sequence[InferenceRequest]) -> Payload | None:
        """Return a payload of the other requests; None if none are left."""
        rest = [request for request in self.requests if request not in late]
        return Payload(rest, sum(request.batch_size for request in rest), self.reason, late=self.late) if rest else None
