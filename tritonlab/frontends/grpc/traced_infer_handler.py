"""The gRPC endpoint adds to a request's trace what only it knows: when the message came and the answer went (rule
5.14.4)."""

from __future__ import annotations

import json
from typing import Any

from ...server.observe.tracer import RECEPTION, Reception
from .calls import Metadata
from .infer_handler import InferService, ModelInferCall

#: Metadata that continue a client's OpenTelemetry trace.
_CONTEXT = ("traceparent", "tracestate")


class TracedModelInferCall(ModelInferCall):
    """A call of ModelInfer while requests are traced."""

    def __init__(self, event: Any, service: InferService, compression: str = "") -> None:
        self._reception = Reception(_context(event.invocation_metadata))
        self._clock = service.exchange.core.clock
        self._stamp("GRPC_WAITREAD_START")
        super().__init__(event, service, compression)

    def _stamp(self, name: str) -> None:
        self._reception.stamp(name, self._clock.now())

    def handle(self, message: bytes) -> None:
        self._stamp("GRPC_WAITREAD_END")
        token = RECEPTION.set(self._reception)
        try:
            super().handle(message)
        finally:
            RECEPTION.reset(token)

    def _finish(self, *operations: Any) -> None:
        self._stamp("INFER_RESPONSE_COMPLETE")
        self._stamp("GRPC_SEND_START")
        with self._lock:
            if self._call is not None:
                self._call.start_server_batch(operations, self._on_sent)
                return
        self._reception.end()  # the client has gone

    def _on_sent(self, event: Any) -> None:
        self._stamp("GRPC_SEND_END")
        self._reception.end()


def _context(metadata: Metadata) -> str | None:
    found = {key: value for key, value in metadata if key in _CONTEXT}
    return json.dumps(found) if "traceparent" in found else None
