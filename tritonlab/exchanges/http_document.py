"""A request as the JSON of KServe's protocol, version 2, and the reading of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import numpy as np

from ..core.inference.data_type import DataType
from ..core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, RequestSpec
from ..core.inference.infer_response import InferenceResponse, ParameterValue
from ..core.inference.tensor import Tensor, wire_elements
from ..core.status import InternalError

#: Datatypes that Triton refuses in JSON (rules 6.3.3, 6.3.4).
NOT_IN_JSON = (DataType.FP16, DataType.BF16)


def model_path(name: str, version: str) -> str:
    """Return the path of a model, or of one of its versions, without the server's address."""
    return f"/v2/models/{quote(name, safe='')}" + (f"/versions/{version}" if version else "")


def version_text(version: int) -> str:
    """Return a version as requests name it: empty for the latest one, -1."""
    return str(version) if version != -1 else ""


def infer_path(request: RequestSpec) -> str:
    """Return the path that a request is sent to, without the server's address."""
    return f"{model_path(request.model_name, version_text(request.model_version))}/infer"


def stated_parameters(request: RequestSpec) -> dict[str, ParameterValue]:
    """Return the parameters of a request in either protocol: its own, its sequence, priority and timeout."""
    parameters = dict(request.parameters or {})
    if request.correlation_id:
        parameters["sequence_id"] = request.correlation_id
        parameters["sequence_start"] = bool(request.flags & SEQUENCE_START)
        parameters["sequence_end"] = bool(request.flags & SEQUENCE_END)
    parameters |= {"priority": request.priority} if request.priority else {}
    return parameters | ({"timeout": request.timeout} if request.timeout else {})


def request_document(request: RequestSpec, binary: bool) -> dict[str, Any]:
    """Return the document of a request without the data of its inputs."""
    parameters = stated_parameters(request)
    parameters |= {"binary_data_output": True} if binary and not request.requested_outputs else {}
    document: dict[str, Any] = {"id": request.request_id} if request.request_id else {}
    document |= {"parameters": parameters} if parameters else {}
    document["inputs"] = [
        {"name": name, "datatype": tensor.datatype.name, "shape": list(tensor.shape)}
        for name, tensor in request.inputs.items()
    ]
    if request.requested_outputs:
        more = {"parameters": {"binary_data": True}} if binary else {}
        document["outputs"] = [{"name": name, **more} for name in request.requested_outputs]
    return document


def json_value(tensor: Tensor) -> list[Any] | None:
    """Return the elements as a flat list; None for a tensor without a JSON form."""
    if tensor.datatype in NOT_IN_JSON:
        return None
    if tensor.datatype is DataType.BYTES:
        try:
            return [element.decode() for element in tensor.numpy().flat]
        except UnicodeDecodeError:
            return None
    array = tensor.numpy()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return None
    return [float(str(value)) if array.dtype.kind == "f" else value.item() for value in array.flat]


def request_body(request: RequestSpec, binary: bool) -> tuple[bytes, int | None]:
    """Return the body, and the length of its JSON if tensors follow it. `binary`: whether the server has that
    extension.

    Raises InternalError for values without a JSON form.
    """
    document = request_document(request, binary)
    if binary:
        for entry in document["inputs"]:
            entry["parameters"] = {"binary_data_size": request.inputs[entry["name"]].byte_size}
        head = json.dumps(document).encode()
        return head + b"".join(tensor.data.tobytes() for tensor in request.inputs.values()), len(head)
    for entry in document["inputs"]:
        entry["data"] = json_value(request.inputs[entry["name"]])
        if entry["data"] is None:
            raise InternalError(f"the server takes JSON only, which cannot carry the values of '{entry['name']}'")
    return json.dumps(document).encode(), None


def read_response(body: bytes, head: int | None) -> InferenceResponse:
    """Read the body of an answer. `head`: the length of the JSON, if tensors follow it."""
    document = json.loads(body[:head])
    position = head or len(body)
    outputs: dict[str, Tensor] = {}
    for entry in document.get("outputs", ()):
        datatype, shape = DataType[entry["datatype"]], tuple(entry["shape"])
        size = entry.get("parameters", {}).get("binary_data_size")
        if size is not None:
            outputs[entry["name"]] = Tensor(datatype, shape, wire_elements(body[position : position + size], datatype))
            position += size
        elif "data" in entry:  # else it is in the client's shared memory
            outputs[entry["name"]] = tensor_of(entry["data"], datatype, shape)
    parameters: Mapping[str, Any] = document.get("parameters", {})
    version = document.get("model_version", "")
    return InferenceResponse(
        model_name=document.get("model_name", ""),
        model_version=int(version) if version.isdecimal() else -1,
        request_id=document.get("id", ""),
        outputs=outputs,
        parameters=dict(parameters),
    )


def tensor_of(values: Any, datatype: DataType, shape: tuple[int, ...]) -> Tensor:
    """Make a tensor of values that came one by one, nested or flat."""
    if datatype is not DataType.BYTES:
        return Tensor(datatype, shape, np.array(values, datatype.numpy).reshape(shape))
    elements = np.array(values, dtype=np.object_).reshape(shape)
    return Tensor.from_numpy(elements)
