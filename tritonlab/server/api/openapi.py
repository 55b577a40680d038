"""The OpenAPI document of models: KServe's protocol, version 2, with Triton's extensions, as plain data.

It is made from configurations alone: `tritonlab serve --models-page` shows it for its models, and an export can write
it beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ...core.inference.data_type import DataType
from .model_signature import tensors_of

#: A configuration as JSON values, as `GET /v2/models/<model>/config` answers it.
Config = Mapping[str, Any]

#: Requests with more elements have no example: RapiDoc 9.3.8 shows a document with 10 in 1.2 s, with 4,096 in 3.2, with
#: 16,384 in 7.6, and fails at 150,528 (2026-11-28, two busy cores).
MAX_EXAMPLE_ELEMENTS = 1024

_NOT_IN_JSON = frozenset({DataType.FP16, DataType.BF16})  # rules 6.3.3, 6.3.4
_JSON, _BINARY, _EVENTS = "application/json", "application/octet-stream", "text/event-stream"
_TOKEN = "token"


def openapi_document(
    models: Sequence[Config],
    *,
    title: str = "Models",
    url: str = "",
    has_token: bool = False,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of models as JSON values.

    Args:
        models: their complete configurations, with `name`, `input`, `output` and `max_batch_size`.
        url: the address of the server, `http://host:port`; "" for the server that gives out the document.
        has_token: whether clients must send a bearer token.
        headers: the header that clients must send for a category of `--http-restricted-api`, such as `inference`.
    """
    headers = headers or {}
    paths = dict(_server_paths())
    for config in models:
        paths.update(_model_paths(config))
    schemes: dict[str, Any] = {_TOKEN: {"type": "http", "scheme": "bearer"}} if has_token else {}
    for category, header in headers.items():
        schemes[category] = {"type": "apiKey", "in": "header", "name": header}
    for operations in paths.values():
        for operation in operations.values():
            category = operation.pop("x-category")
            needed: dict[str, list[str]] = {name: [] for name in (_TOKEN, category) if name in schemes}
            if needed:
                operation["security"] = [needed]
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "2", "description": _ABOUT},
        **({"servers": [{"url": url}]} if url else {}),
        "tags": [*({"name": config["name"], "description": _model_text(config)} for config in models), _SERVER_TAG],
        "paths": paths,
        "components": {"schemas": _SHARED, **({"securitySchemes": schemes} if schemes else {})},
    }


def example_request(config: Config) -> dict[str, Any] | None:
    """Return a request that the model's configuration allows, as the JSON body of `infer`: one row of zeros, or of
    texts. None if it has no JSON form, or is too large to show."""
    inputs = []
    for name, datatype, shape in _required_inputs(config):
        data = _data(datatype, shape)
        if data is None:
            return None
        inputs.append({"name": name, "shape": shape, "datatype": datatype.name, "data": data})
    document: dict[str, Any] = {"inputs": inputs}
    if "sequence_batching" in config:
        document["parameters"] = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}
    if any(_datatype(output) in _NOT_IN_JSON for output in config["output"]):
        document["outputs"] = [{"name": each["name"], "parameters": {"binary_data": True}} for each in config["output"]]
    return document


def example_generate(config: Config) -> dict[str, Any] | None:
    """Return the JSON body of `generate` with the values of `example_request`; None for a model that it does not
    fit."""
    document: dict[str, Any] = {}
    for name, datatype, shape in _required_inputs(config):
        data = _data(datatype, shape)
        if data is None or name in ("parameters", "id"):
            return None
        document[name] = data[0] if len(data) == 1 else data
    tensors = [*config["input"], *config["output"]]
    if "sequence_batching" in config or any(_datatype(tensor) in _NOT_IN_JSON for tensor in tensors):
        return None
    # the element count is distributed over the fixed dimensions, and one variable dimension takes the rest (rule 6.8.1)
    return None if any(sum(dim < 0 for dim in _dims(tensor)) > 1 for tensor in config["input"]) else document


def _required_inputs(config: Config) -> Iterator[tuple[str, DataType, list[int]]]:
    batch = [1] if config["max_batch_size"] > 0 else []
    for tensor in config["input"]:
        if not tensor.get("optional"):
            yield tensor["name"], _datatype(tensor), batch + [1 if dim < 0 else dim for dim in _dims(tensor)]


def _data(datatype: DataType, shape: list[int]) -> list[Any] | None:
    count = prod(shape)
    if datatype in _NOT_IN_JSON or count > MAX_EXAMPLE_ELEMENTS:
        return None
    value: Any = "text" if datatype is DataType.BYTES else False if datatype is DataType.BOOL else 0
    return [float(value) if _is_float(datatype) else value] * count


def _datatype(tensor: Mapping[str, Any]) -> DataType:
    return DataType.from_config_name(tensor["data_type"])


def _dims(tensor: Mapping[str, Any]) -> list[int]:
    return [int(dim) for dim in tensor["dims"]]


def _is_float(datatype: DataType) -> bool:
    return datatype in (DataType.FP32, DataType.FP64)


# -- schemas


def _tensor_schema(tensor: Mapping[str, Any], max_batch_size: int, is_output: bool = False) -> dict[str, Any]:
    """Return the schema of one input of a request, or of one output of an answer."""
    datatype = _datatype(tensor)
    limits: list[dict[str, Any]] = [{"type": "integer", "minimum": 1, "maximum": max_batch_size}]
    sizes = limits if max_batch_size > 0 else []
    sizes = sizes + [{"type": "integer", **({"minimum": 0} if dim < 0 else {"const": dim})} for dim in _dims(tensor)]
    properties: dict[str, Any] = {
        "name": {"const": tensor["name"]},
        "datatype": {"const": datatype.name},
        "shape": {
            "type": "array",
            "minItems": len(sizes),
            "maxItems": len(sizes),
            "items": {"type": "integer"},
            **({"prefixItems": sizes} if sizes else {}),
        },
        "parameters": {"$ref": "#/components/schemas/Parameters"},
    }
    if datatype not in _NOT_IN_JSON:
        properties["data"] = {
            "type": "array",
            "items": _element_schema(datatype),
            "description": "The elements in row-major order, flat." + ("" if is_output else " Nested lists, too."),
        }
    return {"type": "object", "required": ["name", "datatype", "shape"], "properties": properties}


def _element_schema(datatype: DataType) -> dict[str, Any]:
    if datatype is DataType.BYTES:
        return {"type": "string"}
    if datatype is DataType.BOOL:
        return {"type": "boolean"}
    if _is_float(datatype):
        return {"type": "number", "format": "float" if datatype is DataType.FP32 else "double"}
    bits, is_signed = 8 * datatype.byte_size, datatype.name.startswith("INT")
    lowest = -(1 << (bits - 1)) if is_signed else 0
    return {"type": "integer", "minimum": lowest, "maximum": lowest + (1 << bits) - 1}


def _request_schema(config: Config) -> dict[str, Any]:
    inputs = [_tensor_schema(tensor, config["max_batch_size"]) for tensor in config["input"]]
    required = sum(1 for tensor in config["input"] if not tensor.get("optional"))
    names = [tensor["name"] for tensor in config["output"]]
    name: dict[str, Any] = {"enum": names} if names else {"type": "string"}
    output = {"name": name, "parameters": {"$ref": "#/components/schemas/Parameters"}}
    return {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "parameters": {"$ref": "#/components/schemas/Parameters"},
            "inputs": {
                "type": "array",
                "minItems": required,
                "maxItems": len(inputs),
                **({"items": {"oneOf": inputs}} if inputs else {}),
            },
            "outputs": {
                "type": "array",
                "description": "The outputs to return; all without it.",
                "items": {"type": "object", "required": ["name"], "properties": output},
            },
        },
    }


def _response_schema(config: Config) -> dict[str, Any]:
    outputs = [_tensor_schema(tensor, config["max_batch_size"], is_output=True) for tensor in config["output"]]
    return {
        "type": "object",
        "required": ["model_name", "model_version"],
        "properties": {
            "id": {"type": "string"},
            "model_name": {"const": config["name"]},
            "model_version": {"type": "string"},
            "parameters": {"$ref": "#/components/schemas/Parameters"},
            "outputs": {"type": "array", **({"items": {"oneOf": outputs}} if outputs else {})},
        },
    }


def _flat_schema(config: Config, key: str) -> dict[str, Any]:
    """Return the schema of the flat object of `generate`, in or out."""
    properties: dict[str, Any] = {"id": {"type": "string"}}
    for tensor in config[key]:
        element = _element_schema(_datatype(tensor))
        properties[tensor["name"]] = {"oneOf": [element, {"type": "array", "items": element}]}
    required = [tensor["name"] for tensor in config[key] if key == "input" and not tensor.get("optional")]
    return {"type": "object", **({"required": required} if required else {}), "properties": properties}


# -- paths


def _server_paths() -> Iterator[tuple[str, dict[str, Any]]]:
    server = _SERVER_TAG["name"]
    for path, name, category, summary, schema in (
        ("/v2/health/live", "server_live", "health", "Whether the server runs", None),
        ("/v2/health/ready", "server_ready", "health", "Whether the models can be asked", None),
        ("/v2", "server_metadata", "metadata", "The server's version and extensions", {"type": "object"}),
        ("/v2/models/stats", "statistics", "statistics", "How often models ran, and how long", {"type": "object"}),
    ):
        yield path, {"get": _read(server, name, category, summary, schema)}
    index = _read(server, "repository_index", "model-repository", "The models of the repository", {"type": "array"})
    yield "/v2/repository/index", {"post": index}


def _model_paths(config: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    tag = config["name"]
    path = f"/v2/models/{tag}"
    is_decoupled = bool(config.get("model_transaction_policy", {}).get("decoupled"))
    if not is_decoupled:  # which `infer` refuses (rule 3.7.4)
        yield f"{path}/infer", {"post": _infer(tag, config)}
    generate = example_generate(config)
    if generate is not None:
        content = {_JSON: {"schema": _flat_schema(config, "input"), "examples": {"example": {"value": generate}}}}
        body = {"required": True, "content": content}
        for name, summary, kind, schema in (
            ("generate", "Send one flat JSON object, get one", _JSON, _flat_schema(config, "output")),
            (
                "generate_stream",
                "Send one flat JSON object, get an event for each response",
                _EVENTS,
                {"type": "string"},
            ),
        ):
            operation = _operation(tag, f"{tag}_{name}", "inference", summary, {kind: {"schema": schema}})
            yield f"{path}/{name}", {"post": {**operation, "requestBody": body}}
    for name, category, summary, answered in (
        ("", "metadata", "Inputs, outputs and versions", {"type": "object"}),
        ("config", "model-config", "The configuration that it runs with", {"type": "object"}),
        ("stats", "statistics", "How often it ran, and how long", {"type": "object"}),
        ("ready", "health", "Whether it can be asked", None),
    ):
        yield (
            f"{path}/{name}".rstrip("/"),
            {"get": _read(tag, f"{tag}_{name or 'metadata'}", category, summary, answered)},
        )


def _infer(tag: str, config: Config) -> dict[str, Any]:
    example = example_request(config)
    content: dict[str, Any] = {_BINARY: {"schema": {"type": "string", "format": "binary"}}}
    if all(_datatype(tensor) not in _NOT_IN_JSON for tensor in config["input"] if not tensor.get("optional")):
        shown = {} if example is None else {"examples": {"example": {"value": example}}}
        content = {_JSON: {"schema": _request_schema(config), **shown}, **content}
    answer = {_JSON: {"schema": _response_schema(config)}, _BINARY: content[_BINARY]}
    operation = _operation(tag, f"{tag}_infer", "inference", "Send a request", answer)
    return {
        **operation,
        "description": _INFER,
        "parameters": [
            {
                "name": "Inference-Header-Content-Length",
                "in": "header",
                "description": "Bytes of the JSON in front of binary tensors; none for JSON alone.",
                "schema": {"type": "integer", "minimum": 0},
            }
        ],
        "requestBody": {"required": True, "content": content},
    }


def _read(tag: str, name: str, category: str, summary: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return an operation without a body; `schema` is None for an answer that is only a status."""
    return _operation(tag, name, category, summary, {} if schema is None else {_JSON: {"schema": schema}})


def _operation(tag: str, name: str, category: str, summary: str, answer: dict[str, Any]) -> dict[str, Any]:
    failure = {"description": "Refused or failed", "content": {_JSON: {"schema": _ERROR}}}
    return {
        "tags": [tag],
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": "Done", **({"content": answer} if answer else {})}, "default": failure},
        "x-category": category,
    }


# -- texts


def _model_text(config: Config) -> str:
    """Return Markdown about a model: a table of its inputs and outputs, and how it takes requests."""
    rows = [
        f"| {role} | `{name}` | `{text}`{', optional' if optional else ''} |"
        for role, key in (("send", "input"), ("get", "output"))
        for name, text, optional in tensors_of(config, key)
    ]
    lines = ["| | tensor | datatype and shape |", "|---|---|---|", *rows]
    if config.get("model_transaction_policy", {}).get("decoupled"):
        lines += ["", _DECOUPLED]
    if "sequence_batching" in config:
        lines += ["", _SEQUENCES]
    if any(_datatype(tensor) in _NOT_IN_JSON for tensor in (*config["input"], *config["output"])):
        lines += ["", "FP16 and BF16 go as binary data: JSON has no form for them."]
    return "\n".join(lines)


_ABOUT = (
    "KServe's inference protocol, version 2, with Triton's extensions. A path under `/v2/models/NAME` asks the model's "
    "version that its version policy chooses; `/v2/models/NAME/versions/N` asks version N."
)
_INFER = (
    "JSON alone, or JSON and behind it the bytes of those tensors that have `binary_data_size` among their parameters, "
    "in their order."
)
_DECOUPLED = (
    "It answers with any number of responses: over HTTP with `generate_stream`, over gRPC with `ModelStreamInfer`."
)
_SEQUENCES = (
    "Its requests belong to sequences: `sequence_id`, `sequence_start` and `sequence_end` among the parameters."
)
_SERVER_TAG = {"name": "server", "description": "The server itself."}
_ERROR = {"$ref": "#/components/schemas/Error"}
_SHARED: dict[str, Any] = {
    "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
    "Parameters": {
        "type": "object",
        "description": (
            "`sequence_id`, `sequence_start`, `sequence_end`, `priority` and `timeout` (microseconds) are for the "
            "server; the model reads the others."
        ),
        "additionalProperties": {"type": ["boolean", "integer", "number", "string"]},
    },
}
