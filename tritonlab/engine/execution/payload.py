"""The unit of execution: the requests that go to one instance in one `execute` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.inference.infer_request import InferenceRequest


@dataclass(slots=True)
class Payload:
    """The requests of one `execute` call. `size` is the sum of their batch dimensions; `reason` is why the
    batch was closed there; `nulls` is how many of them are NullRequests.

    `late` is called when the batch is ready to go out. It ends requests whose time is up and returns them; the instance
    executes the others.
    """

    requests: Sequence[InferenceRequest]
    size: int
    reason: str
    nulls: int = 0
    late: Callable[[Sequence[InferenceRequest]], Sequence[InferenceRequest]] | None = None

    def without(self, late: Sequence[InferenceRequest]) -> Payload | None:
        """Return a payload of the other requests; None if there are none."""
        rest = [request for request in self.requests if request not in late]
        return Payload(rest, sum(request.batch_size for request in rest), self.reason, late=self.late) if rest else None
