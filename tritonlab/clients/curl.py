"""A request as a command of curl: as JSON where the values are few and have a form in it, else with
the binary extension.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from ..core.inference.data_type import DataType
from ..core.inference.infer_request import RequestSpec
from .http_document import NOT_IN_JSON, json_value, request_document
from .literal import base64_lines, is_read


def curl_command(request: RequestSpec, address: str, header_file: str, outputs: Mapping[str, DataType]) -> str:
    """Return the command. `header_file`: a file whose header is sent, if there is one; on a command line every user
    could read it. `outputs`: the datatypes of the model's outputs; if one of them has no JSON form, the command saves
    the answer as it is.

    Raises TooLarge.
    """
    version = f"/versions/{request.model_version}" if request.model_version != -1 else ""
    url = f"http://{address}/v2/models/{request.model_name}{version}/infer"
    header = f" -H {shlex.quote(f'@{header_file}')}" if header_file else ""
    names = request.requested_outputs or list(outputs)
    binary = any(outputs.get(name) in NOT_IN_JSON for name in names)
    document = request_document(request, binary)
    command = f"curl -sS{header} {shlex.quote(url)}"
    saving = f" -D {request.model_name}.head -o {request.model_name}.answer" if binary else ""
    values = {name: json_value(tensor) if is_read(tensor) else None for name, tensor in request.inputs.items()}
    if None not in values.values():
        for entry in document["inputs"]:
            entry["data"] = values[entry["name"]]
        return f"{command}{saving} -d {shlex.quote(json.dumps(document, ensure_ascii=False))}\n"
    for entry in document["inputs"]:
        entry["parameters"] = {"binary_data_size": request.inputs[entry["name"]].byte_size}
    head = json.dumps(document).encode()
    body = head + b"".join(tensor.data.tobytes() for tensor in request.inputs.values())
    length = f"-H 'Inference-Header-Content-Length: {len(head)}' -H 'Content-Type: application/octet-stream'"
    return f"base64 -d <<'END' | {command}{saving} {length} --data-binary @-\n{base64_lines(body)}\nEND\n"
