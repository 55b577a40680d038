"""Messages as they go over the wire, for what a client library would not send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from .clients import DEADLINE

#: Two FP32 elements.
PAIR = np.array([1, 2], np.float32).tobytes()

_KINDS = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param", bytes: "bytes_param"}


class Rpc:
    """The generated stub of one server. Answers are messages, errors `(CODE, text)`."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def __call__(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Make a unary call; the request is made of the fields if there is none."""
        if request is None:
            request = getattr(service_pb2, f"{method}Request")(**fields)
        return answer(getattr(self.stub, method), request)

    def raw(self, method: str, message: bytes) -> Any:
        """Make a unary call with bytes for a message, and return bytes."""
        return answer(self.channel.unary_unary(method, None, None), message)

    def infer(self, *arguments: Any, **fields: Any) -> Any:
        return self("ModelInfer", message(*arguments, **fields))

    def stream(self, requests: Iterable[Any], metadata: Sequence[tuple[str, str]] = (), timeout: float = 5) -> Any:
        """Return all messages of one stream; the last is the error that ended it, if one did."""
        found: list[Any] = []
        try:
            found.extend(self.stub.ModelStreamInfer(iter(requests), metadata=metadata, timeout=timeout))
        except grpc.RpcError as error:
            found.append(_error(error))
        return found


def answer(call: Any, request: Any) -> Any:
    try:
        return call(request, timeout=DEADLINE)
    except grpc.RpcError as error:
        return _error(error)


def _error(error: Any) -> tuple[str, str]:
    return error.code().name, error.details() or ""


def with_parameters(message: Any, **parameters: Any) -> Any:
    for key, value in parameters.items():
        setattr(message.parameters[key], _KINDS[type(value)], value)
    return message


def tensor(
    name: str = "IN", datatype: str = "FP32", shape: Sequence[int] = (2,), parameters: Any = None, **contents: Any
) -> Any:
    """Return an input; `contents` as in InferTensorContents, `typed=True` for ones that are there and empty."""
    found = service_pb2.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=shape)
    if contents.pop("typed", False):
        found.contents.SetInParent()
    for field, values in contents.items():
        getattr(found.contents, field).extend(values)
    return with_parameters(found, **(parameters or {}))


def output(name: str = "IN", **parameters: Any) -> Any:
    found = service_pb2.ModelInferRequest.InferRequestedOutputTensor(name=name)
    return with_parameters(found, **parameters)


def message(
    model: str = "echo",
    inputs: Sequence[Any] = (),
    raw: Sequence[bytes] = (),
    *,
    version: str = "",
    id: str = "",
    outputs: Sequence[Any] = (),
    **parameters: Any,
) -> Any:
    """Return a ModelInferRequest."""
    request = service_pb2.ModelInferRequest(model_name=model, model_version=version, id=id)
    request.inputs.extend(inputs)
    request.outputs.extend(outputs)
    request.raw_input_contents.extend(raw)
    return with_parameters(request, **parameters)


def ok(request: Any) -> Any:
    """Return the answer, which must not be an error."""
    assert not isinstance(request, tuple), request
    return request
