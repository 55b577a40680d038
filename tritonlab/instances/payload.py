"""The unit of execution: requests that go to one instance in one `execute` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.infer_request import InferenceRequest
from ..core.infer_stats import InferStats


@dataclass(slots=True)
class Payload:
    """`size` is the sum of the requests' batch dimensions; `reason` says why the batch was closed there. `nulls`: how
    many of the requests are NullRequests.

    `late`: asked when the batch is ready to go out. It ends requests whose time is up and returns them; the instance
    goes on with the others. `stats`: of an instance's warm-up, where it is recorded; no scheduler knows of the instance
    yet.
    """

    requests: Sequence[InferenceRequest]
    size: int
    reason: str
    batch_id: int = 0
    nulls: int = 0
    stats: InferStats | None = None
    late: Callable[[Sequence[InferenceRequest]], Sequence[InferenceRequest]] | None = None
