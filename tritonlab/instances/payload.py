"""The unit of execution: requests that go to one instance in one `execute` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.infer_request import InferenceRequest


@dataclass(slots=True)
class Payload:
    """`size` is the sum of the requests' batch dimensions; `reason` says why the batch was closed there. `nulls`: how
    many of the requests are NullRequests.

    `late`: asked when the batch is ready to go out. It ends requests whose time is up and returns them; the instance
    goes on with the others.
    """

    requests: Sequence[InferenceRequest]
    size: int
    reason: str
    nulls: int = 0
    late: Callable[[Sequence[InferenceRequest]], Sequence[InferenceRequest]] | None = None
