"""A request as a command of curl: JSON where the values are few and have a form in it, else the binary extension."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.data_type import DataType
from ..core.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ..core.tensor import Tensor
from .literal import base64_lines, is_read

#: What Triton refuses in JSON (rules 6.3.3, 6.3.4).
_NOT_IN_JSON = (DataType.FP16, DataType.BF16)


def curl_command(
    request: InferenceRequest, address: str, headers: Mapping[str, str], outputs: Mapping[str, DataType]
) -> str:
    """`outputs`: the datatypes of the model's outputs; with one that has no JSON form, the answer is saved as it is.

    Raises TooLarge."""
    version = f"/versions/{request.model_version}" if request.model_version != -1 else ""
    url = f"http://{address}/v2/models/{request.model_name}{version}/infer"
    said = "".join(f" -H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items())
    names = request.requested_outputs or list(outputs)
    binary = any(outputs.get(name) in _NOT_IN_JSON for name in names)
    document = _document(request, binary)
    command = f"curl -sS{said} {shlex.quote(url)}"
    kept = f" -D {request.model_name}.head -o {request.model_name}.answer" if binary else ""
    values = {name: _json_value(tensor) for name, tensor in request.inputs.items()}
    if None not in values.values():
        for said_input in document["inputs"]:
            said_input["data"] = values[said_input["name"]]
        return f"{command}{kept} -d {shlex.quote(json.dumps(document, ensure_ascii=False))}\n"
    for said_input in document["inputs"]:
        said_input["parameters"] = {"binary_data_size": request.inputs[said_input["name"]].byte_size}
    head = json.dumps(document).encode()
    body = head + b"".join(tensor.data.tobytes() for tensor in request.inputs.values())
    length = f"-H 'Inference-Header-Content-Length: {len(head)}' -H 'Content-Type: application/octet-stream'"
    return f"base64 -d <<'END' | {command}{kept} {length} --data-binary @-\n{base64_lines(body)}\nEND\n"


def _document(request: InferenceRequest, binary: bool) -> dict[str, Any]:
    """All but the data of the inputs."""
    parameters: dict[str, Any] = dict(request.parameters or {})
    if request.correlation_id:
        parameters["sequence_id"] = request.correlation_id
        parameters["sequence_start"] = bool(request.flags & SEQUENCE_START)
        parameters["sequence_end"] = bool(request.flags & SEQUENCE_END)
    parameters |= {"priority": request.priority} if request.priority else {}
    parameters |= {"timeout": request.timeout} if request.timeout else {}
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


def _json_value(tensor: Tensor) -> list[Any] | None:
    """The elements, flat; None for those that JSON has no form of, or too many of them."""
    if tensor.datatype in _NOT_IN_JSON or not is_read(tensor):
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
