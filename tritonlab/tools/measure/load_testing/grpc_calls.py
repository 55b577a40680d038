"""The calls of a load test over gRPC."""

from __future__ import annotations

from time import monotonic_ns

import grpc

from ....core.inference.infer_request import InferenceRequest
from ....core.status import TritonError
from ....exchanges.remote.grpc_link import GrpcLink, grpc_error, infer_message
from .http_calls import CallTimes, EncodedBodies
from .token_times import TokenStream

_MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"


class GrpcCalls:
    """The calls of all threads over one gRPC channel. Answers to unary calls are not decoded, unless their tokens are
    counted (`counts`): only times are kept.
    """

    def __init__(self, link: GrpcLink, bodies: EncodedBodies, decoupled: bool, counts: bool) -> None:
        self._link, self._bodies, self._decoupled = link, bodies, decoupled
        self._channel = link.open_channel()
        self._streams = GrpcLink(link.transport) if decoupled or counts else None
        self._infer = self._channel.unary_unary(_MODEL_INFER, None, None)

    def release(self) -> None:
        """Do nothing: the channel is for all threads."""

    def close(self) -> None:
        self._channel.close()
        if self._streams is not None:
            self._streams.close()

    def call(self, request: InferenceRequest, stream: TokenStream | None) -> CallTimes:
        return self._call_unary(request) if self._streams is None else self._call_stream(request, self._streams, stream)

    def _call_unary(self, request: InferenceRequest) -> CallTimes:
        began = monotonic_ns()
        message = self._bodies.encode(request, lambda request: infer_message(request).SerializeToString())
        sent = monotonic_ns()
        try:
            self._infer(message, metadata=self._link.headers, timeout=self._link.timeout)
        except grpc.RpcError as problem:
            return CallTimes(began, 0, monotonic_ns(), error=grpc_error(problem).message)
        except ValueError as problem:  # the channel was closed
            return CallTimes(began, 0, monotonic_ns(), error=str(problem))
        done = monotonic_ns()
        return CallTimes(began, done, done, sent - began)

    def _call_stream(self, request: InferenceRequest, link: GrpcLink, stream: TokenStream | None) -> CallTimes:
        sent, first, count, error = monotonic_ns(), 0, 0, ""
        try:
            for response in link.send(request, self._decoupled):
                if response.error is not None:
                    error = response.error.message
                elif not response.empty:
                    now = monotonic_ns()
                    first = first or now
                    count += 1
                    if stream is not None:
                        stream.take(response.outputs, now)
        except TritonError as problem:
            error = problem.message
        except ValueError as problem:  # the channel was closed
            error = str(problem)
        return CallTimes(sent, first, monotonic_ns(), responses=count, error=error)
