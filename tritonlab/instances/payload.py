"""The unit of execution: requests that go to one instance in one `execute` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.infer_request import InferenceRequest
from ..stub._pb_stub.wire.serialization import encode_parameters
from ..stub._pb_stub.wire.tensor_block import Header


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
    batch_id: int = 0
    nulls: int = 0
    late: Callable[[Sequence[InferenceRequest]], Sequence[InferenceRequest]] | None = None

    def entries(self, headers: Sequence[Header]) -> list[list[Any]]:
        """The requests as EXECUTE carries them; `headers` are those of all their inputs, in order."""
        entries = []
        position = 0
        for request in self.requests:
            end = position + len(request.inputs)
            entry = [
                request.serial,
                request.request_id,
                request.correlation_id,
                request.flags,
                request.timeout,
                encode_parameters(request.parameters),
                list(request.requested_outputs) if request.requested_outputs or request.null else None,
                headers[position:end],
            ]
            if request.trace is not None:
                entry.append(request.trace.wire())
            entries.append(entry)
            position = end
        return entries
