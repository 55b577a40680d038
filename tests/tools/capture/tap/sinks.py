"""A sink that reads requests at once and keeps them, for the tests of connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.tools.capture.capture_file import CapturedRequest
from tritonlab.tools.capture.tap.request_reading import CaptureSink, UpstreamModels

METADATA = {
    "inputs": [{"name": "IN", "datatype": "INT32", "shape": [1]}],
    "outputs": [{"name": "OUT", "datatype": "FP32", "shape": [1]}],
}


class KeptRequests:
    """The part of `CaptureWriter` that connections call."""

    def __init__(self) -> None:
        self.found: list[CapturedRequest] = []
        self.left_out: Counter[str] = Counter()

    def chooses(self, at_ns: int, request: InferenceRequest | None = None) -> bool:
        return True

    def add(self, read: Callable[[], CapturedRequest], byte_size: int) -> None:
        self.found.append(read())

    def leave_out(self, reason: str, count: int = 1) -> None:
        self.left_out[reason] += count


class KnownModels(UpstreamModels):
    """A server whose models all have METADATA."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")

    def metadata(self, model: str, version: str) -> dict[str, Any]:
        return METADATA


def sink_of(kept: KeptRequests) -> CaptureSink:
    writer: Any = kept
    sink = CaptureSink(writer, 0)
    sink.models["server"] = KnownModels()
    return sink
