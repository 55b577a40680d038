"""The documents of `generate` and `generate_stream`: one flat JSON object in, one out per
response (rules 6.8 and 6.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse, ParameterValue
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError, TritonError
from . import json_tensor, json_writer
from .infer_decoder import model_parameter, set_id
from .infer_encoder import json_data
from .json_document import about, as_object, members, parse
from .large_json import LargeArray

#: The one key whose object is unpacked.
_NESTED = "parameters"

#: The error text of an answer with status 200 (rule 6.8.6).
NOT_ONE_RESPONSE = (
    "generate expects model to produce exactly 1 response, use generate stream for model that generates various number "
    "of responses"
)


def decode(body: bytes | bytearray, model: str, version: int, metadata: Mapping[str, Any]) -> InferenceRequest:
    """Make the request of a body; `metadata` is the model's (rule 6.1.2). Raises TritonError with Triton's text."""
    document = parse(body or b"{}")  # since 2026-04 an empty body is an empty object (rule 6.8.4)
    request = InferenceRequest(model, {}, model_version=version)
    wanted = {tensor["name"]: tensor for tensor in metadata["inputs"]}
    parameters: dict[str, ParameterValue] = {}
    values = members(document)
    set_id(request, document)
    _convert(request, values, wanted, parameters, nested=False)
    if parameters:
        request.parameters = parameters
    return request


def _convert(
    request: InferenceRequest,
    values: Mapping[str, Any],
    wanted: Mapping[str, Any],
    parameters: dict[str, ParameterValue],
    *,
    nested: bool,
) -> None:
    for key, value in values.items():
        if key == _NESTED and not nested:
            _unpack(request, value, wanted, parameters)
        elif key in wanted:
            if key in request.inputs:
                raise InvalidArgumentError(f"{request.prefix}input '{key}' already exists in request")
            request.inputs[key] = _tensor(key, wanted[key], value)
        else:
            parameters[key] = model_parameter(key, value)


def _unpack(
    request: InferenceRequest, value: Any, wanted: Mapping[str, Any], parameters: dict[str, ParameterValue]
) -> None:
    if _NESTED in wanted:
        raise InvalidArgumentError(f"Keyword '{_NESTED}' for nested schema also given as input tensor name")
    try:
        inner = as_object(value)
    except TritonError as error:
        raise about(f"Expected JSON object for keyword: '{_NESTED}'", error) from None
    try:
        _convert(request, inner, wanted, parameters, nested=True)
    except TritonError as error:
        raise about(f"Converting keyword: '{_NESTED}'", error) from None


def _tensor(name: str, wanted: Mapping[str, Any], value: Any) -> Tensor:
    datatype = DataType[wanted["datatype"]]
    count = len(value) if type(value) is list else value.length if type(value) is LargeArray else 1
    if datatype is DataType.BYTES:  # of these Triton reads the texts before it counts them
        data = json_tensor.elements(name, datatype, value, count)
        return Tensor(datatype, _shape(name, wanted["shape"], count), data)
    shape = _shape(name, wanted["shape"], count)
    return Tensor(datatype, shape, json_tensor.elements(name, datatype, value, count))


def _shape(name: str, dims: list[int], count: int) -> tuple[int, ...]:
    """Spread `count` elements over the fixed dimensions; the innermost variable dimension takes the rest."""
    left = count
    for size in reversed(dims):
        if size != -1:
            left, remainder = divmod(left, size)
            if remainder:
                raise _no_shape(name)
    shape = list(dims)
    for index in range(len(dims) - 1, -1, -1):
        if shape[index] == -1:
            shape[index], left = left, 1
    if left != 1:
        raise _no_shape(name)
    return tuple(shape)


def _no_shape(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"The schema can not convert input '{name}' to tensor with proper shape")


def encode(response: InferenceResponse) -> bytes:
    """Return the JSON of one response: its members in the order of their names, as on Triton (measured)."""
    found: dict[str, bytes] = {}
    for name, tensor in response.outputs.items():
        data = json_data(name, tensor)
        single = tensor.datatype is not DataType.BYTES and tensor.data.size == 1
        found[name] = data[1:-1] if single or _one_string(tensor) else data
    for name, value in response.parameters.items():
        found[name] = json_writer.value(value)
    if response.request_id:
        found["id"] = json_writer.text(response.request_id)
    found["model_name"] = json_writer.text(response.model_name)
    found["model_version"] = b'"%d"' % response.model_version
    return json_writer.members(sorted(found.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")))


def _one_string(tensor: Tensor) -> bool:
    return tensor.datatype is DataType.BYTES and tensor.numpy().size == 1
