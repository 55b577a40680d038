"""Requests and responses in the form of the exchange between Dynamo's frontend and a worker: tensors as lists of
numbers, parameters as `{name: {kind: value}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.inference.data_type import DataType
from ..core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ..core.inference.infer_response import InferenceResponse, ParameterValue
from ..core.inference.tensor import Tensor
from ..core.status import InvalidArgumentError, UnsupportedError

#: The parameter of a requested output that requests its highest elements.
CLASSIFICATION = "classification"

_BY_NAME = {
    "Bool": DataType.BOOL, "Uint8": DataType.UINT8, "Uint16": DataType.UINT16, "Uint32": DataType.UINT32,
    "Uint64": DataType.UINT64, "Int8": DataType.INT8, "Int16": DataType.INT16, "Int32": DataType.INT32,
    "Int64": DataType.INT64, "Float16": DataType.FP16, "BFloat16": DataType.BF16, "Float32": DataType.FP32,
    "Float64": DataType.FP64, "Bytes": DataType.BYTES,
}  # fmt: skip
_NAMES = {datatype: name for name, datatype in _BY_NAME.items()}
#: The datatypes that are sent as the bits of their elements.
_BITS = (DataType.FP16, DataType.BF16)
#: The parameters that are fields of a request.
_FIELDS = ("sequence_id", "sequence_start", "sequence_end", "priority", "timeout")
_REGION = "shared_memory_region"


def read_request(sent: Mapping[str, Any], model: str) -> InferenceRequest:
    """Return the request from a frontend. Raises InvalidArgumentError for a request without tensors or with a wrong
    parameter, UnsupportedError for a tensor in shared memory."""
    if "tensors" not in sent:
        raise InvalidArgumentError(f"the model '{model}' takes tensors, and the request has none")
    inputs = {each["metadata"]["name"]: _read_tensor(each) for each in sent["tensors"]}
    parameters = read_parameters(sent.get("parameters"))
    fields = {name: parameters.pop(name) for name in _FIELDS if name in parameters}
    flags = SEQUENCE_START if fields.get("sequence_start") else 0
    flags |= SEQUENCE_END if fields.get("sequence_end") else 0
    sequence = fields.get("sequence_id", 0)
    return InferenceRequest(
        model,
        inputs,
        request_id=sent.get("id") or "",
        correlation_id=sequence if isinstance(sequence, str) else int(sequence),
        flags=flags,
        priority=_read_unsigned(fields, "priority"),
        timeout=_read_unsigned(fields, "timeout"),
        parameters={name: value for name, value in parameters.items() if not name.startswith("triton_")} or None,
        requested_outputs=[each["name"] for each in sent.get("outputs") or ()],
    )


def _read_unsigned(fields: Mapping[str, ParameterValue], name: str) -> int:
    sent = fields.get(name, 0)
    try:
        value = int(sent)
    except (ValueError, OverflowError):  # a text, not a number, infinity
        value = -1
    if value < 0:
        raise InvalidArgumentError(f"parameter '{name}' must be a number, 0 or more: {sent}")
    return value


def read_classes(sent: Mapping[str, Any]) -> dict[str, int]:
    """Return the outputs whose highest elements are requested, and how many of these."""
    found = {}
    for output in sent.get("outputs") or ():
        count = read_parameters(output.get("parameters")).get(CLASSIFICATION)
        if count is not None:
            if isinstance(count, (str, float)) or int(count) <= 0:
                raise InvalidArgumentError(f"classification of output '{output['name']}' must be above 0: {count}")
            found[output["name"]] = int(count)
    return found


def read_parameters(sent: Mapping[str, Any] | None) -> dict[str, ParameterValue]:
    """Return parameters as plain values."""
    return {name: next(iter(value.values())) for name, value in (sent or {}).items()}


def write_response(response: InferenceResponse, outputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return a response without an error in the frontend's form; `outputs` are the outputs to send, on the host."""
    written: dict[str, Any] = {
        "id": response.request_id,
        "model": response.model_name,
        "tensors": [_write_tensor(name, tensor) for name, tensor in outputs.items()],
    }
    if response.parameters:
        written["parameters"] = {name: _write_parameter(value) for name, value in response.parameters.items()}
    return written


def _read_tensor(sent: Mapping[str, Any]) -> Tensor:
    about, values = sent["metadata"], sent["data"]["values"]
    name = about["name"]
    if _REGION in (about.get("parameters") or {}):
        raise UnsupportedError(f"input '{name}': clients of Dynamo cannot use shared memory; send the tensor itself")
    datatype = _BY_NAME.get(about["data_type"])
    if datatype is None:
        raise InvalidArgumentError(f"input '{name}' has the datatype '{about['data_type']}', which Triton does not")
    shape = tuple(about["shape"])
    try:
        if datatype is DataType.BYTES:
            elements = np.empty(len(values), dtype=object)
            elements[:] = [bytes(each) if not isinstance(each, str) else each.encode() for each in values]
            return Tensor.from_numpy(elements.reshape(shape))
        if datatype in _BITS:
            bits = np.asarray(values, np.uint16).reshape(shape)
            return Tensor(datatype, shape, bits if datatype is DataType.BF16 else bits.view(np.float16))
        return Tensor.from_numpy(np.asarray(values, datatype.numpy).reshape(shape))
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidArgumentError(f"input '{name}' of shape {list(shape)}: {error}") from None


def _write_tensor(name: str, tensor: Tensor) -> dict[str, Any]:
    kind = _NAMES[tensor.datatype]
    if tensor.datatype is DataType.BYTES:
        values: list[Any] = [list(each) for each in tensor.to_bytes_array().reshape(-1)]
    elif tensor.datatype in _BITS:
        values = np.ascontiguousarray(tensor.data).view(np.uint16).reshape(-1).tolist()
    else:
        values = tensor.numpy().reshape(-1).tolist()
    return {
        "metadata": {"name": name, "shape": list(tensor.shape), "data_type": kind},
        "data": {"data_type": kind, "values": values},
    }


def _write_parameter(value: ParameterValue) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int64": value} if value < 1 << 63 else {"uint64": value}
    return {"double": value} if isinstance(value, float) else {"string": value}
