"""Requests and executions as a recorder gets them, without a server."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritonlab.core.inference.delivery import deliver
from tritonlab.core.inference.infer_request import InferenceRequest, ModelRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.core.observe.instrument import Instruments
from tritonlab.record.recorder import Recorder
from tritonlab.testing import MS, MockClock


def make_request(serial: int, at: int = 0, columns: int = 2, model: str = "add", **fields: Any) -> InferenceRequest:
    """Return a request that came at `at` milliseconds."""
    request = InferenceRequest(model, {"IN": Tensor.from_numpy(np.zeros((1, columns), np.int32))}, **fields)
    request.serial, request.request_start, request.queue_start = serial, at * MS, at * MS
    return request


def make_call(serial: int, instance: str, batch: int, at: int = 0, model: str = "add") -> ModelRequest:
    """Return a request that a model made in that execution of that instance."""
    request = ModelRequest(model, make_request(serial).inputs)
    request.serial, request.request_start, request.queue_start = serial, at * MS, at * MS
    request.caller = instance, batch
    return request


class RecorderHooks:
    """The hooks of a server with a recorder, without the server. Times are milliseconds."""

    def __init__(self, events: int = 100_000) -> None:
        self.clock = MockClock(0)
        self.instruments = Instruments()
        self.recorder = Recorder(events)
        self.instruments.add(self.recorder)
        self.recording = self.recorder.recording
        self._batches = 0

    def execute(
        self,
        *requests: InferenceRequest,
        start: int,
        end: int,
        reason: str = "full",
        instance: str = "add_0_0",
        version: int = 1,
        failed: bool = False,
    ) -> None:
        """Report one execution of these requests."""
        self._batches += 1
        for request in requests:
            request.execute_start = start * MS
        times = ExecuteTimes(MS // 10, (end - start) * MS - MS // 5, MS // 10)
        hook = self.instruments.batch_executed
        assert hook is not None
        size, model = sum(request.batch_size for request in requests), requests[0].model_name
        hook(model, version, instance, self._batches, requests, size, reason, times, failed, end * MS)

    def respond(self, request: InferenceRequest, at: int, **fields: Any) -> None:
        """Report one response to a request; `fields` are those of the response."""
        self.clock.advance(at * MS - self.clock.now())
        deliver(request, InferenceResponse(request.model_name, 1, **fields), self.instruments, self.clock)
