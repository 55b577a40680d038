"""The way to a server over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
from google.protobuf import json_format

from ...core.config.service_messages import SERVICE, messages
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import RequestSpec
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor, wire_elements
from ...core.status import Code, TritonError, UnavailableError, UnknownError, UnsupportedError
from ...frontends.grpc.errors import STATUS
from ..http_document import stated_parameters, tensor_of, version_text
from .transport import Transport

#: The error codes by the status of gRPC.
CODES = {status: code for code, status in STATUS.items()} | {grpc.StatusCode.DEADLINE_EXCEEDED: Code.UNAVAILABLE}
#: The field that holds the elements of a tensor that does not come raw.
_CONTENTS = {
    DataType.BOOL: "bool_contents",
    DataType.INT64: "int64_contents",
    DataType.UINT64: "uint64_contents",
    DataType.FP32: "fp32_contents",
    DataType.FP64: "fp64_contents",
    DataType.BYTES: "bytes_contents",
    **dict.fromkeys((DataType.INT8, DataType.INT16, DataType.INT32), "int_contents"),
    **dict.fromkeys((DataType.UINT8, DataType.UINT16, DataType.UINT32), "uint_contents"),
}
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class GrpcLink:
    """A server over gRPC: one channel for all calls, from any thread."""

    protocol = "gRPC"

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.address = transport.name
        self.headers = tuple((name.lower(), value) for name, value in transport.headers.items())
        self.timeout = transport.timeout
        self._channel = self.open_channel()
        self._calls = {method.name: _call(self._channel, method) for method in SERVICE.methods}

    def live(self, timeout: float) -> bool:
        """Return whether a gRPC server of this protocol answers. `timeout`: seconds."""
        try:
            self._ask("ServerLive", messages.ServerLiveRequest(), timeout)
        except TritonError as error:
            return not isinstance(error, UnavailableError | UnsupportedError)
        return True

    def server(self) -> dict[str, Any]:
        return _document(self._ask("ServerMetadata", messages.ServerMetadataRequest()))

    def metadata(self, name: str, version: str) -> dict[str, Any]:
        return _document(self._ask("ModelMetadata", messages.ModelMetadataRequest(name=name, version=version)))

    def config(self, name: str, version: str) -> dict[str, Any]:
        found = self._ask("ModelConfig", messages.ModelConfigRequest(name=name, version=version))
        return dict(_document(found)["config"])

    def statistics(self, name: str, version: str) -> dict[str, Any]:
        return _document(self._ask("ModelStatistics", messages.ModelStatisticsRequest(name=name, version=version)))

    def send(self, request: RequestSpec, decoupled: bool) -> Iterator[InferenceResponse]:
        message = infer_message(request)
        if not decoupled:
            yield read_answer(self._ask("ModelInfer", message))
            return
        message.parameters["triton_enable_empty_final_response"].bool_param = True
        try:
            for answer in self._calls["ModelStreamInfer"](iter([message]), metadata=self.headers, timeout=self.timeout):
                if answer.error_message:
                    # a stream has no code for the error of one of its requests
                    yield InferenceResponse(request.model_name, error=UnknownError(answer.error_message), final=False)
                    continue
                response = read_answer(answer.infer_response)
                yield response
                if response.final:
                    return
        except grpc.RpcError as error:
            raise grpc_error(error) from None

    def index(self) -> list[dict[str, Any]]:
        """Return the rows of the repository index."""
        return list(_document(self._ask("RepositoryIndex", messages.RepositoryIndexRequest()))["models"])

    def load(self, name: str, config: str | None, files: Mapping[str, bytes], timeout: float) -> None:
        """Load a model, with a configuration in its JSON form and files by their path in the model directory, and wait
        until it is READY. `timeout`: seconds."""
        message = messages.RepositoryModelLoadRequest(model_name=name)
        if config is not None:
            message.parameters["config"].string_param = config
        for path, data in files.items():
            message.parameters[f"file:{path}"].bytes_param = data
        self._ask("RepositoryModelLoad", message, timeout)

    def unload(self, name: str) -> None:
        """Unload a model. It returns before its requests have ended."""
        self._ask("RepositoryModelUnload", messages.RepositoryModelUnloadRequest(model_name=name))

    def open_channel(self) -> grpc.Channel:
        """Return another channel to the server."""
        address, tls = self.transport.address, self.transport.tls
        if tls is None:
            return grpc.insecure_channel(address, options=_UNLIMITED)
        name = [("grpc.ssl_target_name_override", tls.server_name)] * bool(tls.server_name)
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(*tls.files()), [*_UNLIMITED, *name])

    def close(self) -> None:
        self._channel.close()

    def _ask(self, call: str, message: Any, timeout: float | None = None) -> Any:
        try:
            return self._calls[call](message, metadata=self.headers, timeout=timeout or self.timeout)
        except grpc.RpcError as error:
            raise grpc_error(error) from None


def _call(channel: grpc.Channel, method: Any) -> Callable[..., Any]:
    """Return the function that makes calls of a method."""
    make = channel.stream_stream if method.client_streaming else channel.unary_unary
    request, response = (getattr(messages, each.name) for each in (method.input_type, method.output_type))
    path = f"/{method.containing_service.full_name}/{method.name}"
    return make(path, request_serializer=request.SerializeToString, response_deserializer=response.FromString)


def grpc_error(error: Any) -> TritonError:
    return TritonError.from_code(CODES.get(error.code(), Code.UNKNOWN), error.details() or str(error.code()))


def _document(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def infer_message(request: RequestSpec) -> Any:
    version = version_text(request.model_version)
    message = messages.ModelInferRequest(model_name=request.model_name, model_version=version, id=request.request_id)
    for name, tensor in request.inputs.items():
        message.inputs.add(name=name, datatype=tensor.datatype.name, shape=tensor.shape)
        message.raw_input_contents.append(tensor.data.tobytes())
    for name in request.requested_outputs:
        message.outputs.add(name=name)
    for key, value in stated_parameters(request).items():
        kind = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}[type(value)]
        is_priority = key == "priority" and request.priority
        setattr(message.parameters[key], "uint64_param" if is_priority else kind, value)
    return message


def read_answer(message: Any) -> InferenceResponse:
    """Read a ModelInferResponse."""
    raw = message.raw_output_contents
    outputs = {
        output.name: _tensor(output, raw[number] if number < len(raw) else None)
        for number, output in enumerate(message.outputs)
    }
    sent = message.parameters
    parameters = {
        key: getattr(value, kind) for key, value in sent.items() if (kind := value.WhichOneof("parameter_choice"))
    }
    final = bool(parameters.pop("triton_final_response", True))
    version = int(message.model_version) if message.model_version.isdecimal() else -1
    empty = final and not outputs and "triton_final_response" in sent
    return InferenceResponse(
        message.model_name,
        model_version=version,
        request_id=message.id,
        outputs=outputs,
        parameters=parameters,
        final=final,
        empty=empty,
    )


def _tensor(message: Any, raw: bytes | None) -> Tensor:
    datatype, shape = DataType[message.datatype], tuple(message.shape)
    if raw is not None:
        return Tensor(datatype, shape, wire_elements(raw, datatype))
    return tensor_of(list(getattr(message.contents, _CONTENTS[datatype])), datatype, shape)
