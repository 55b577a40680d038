"""The unit of execution: requests that go to one instance in one `execute` call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.infer_request import InferenceRequest


@dataclass(slots=True)
class Payload:
    """`size` is the sum of the requests' batch dimensions; `reason` says why the batch was closed there."""

    requests: Sequence[InferenceRequest]
    size: int
    reason: str
    batch_id: int = 0
