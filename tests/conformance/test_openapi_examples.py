"""The examples and schemas of the OpenAPI document, tried on both servers with the configuration that each answers."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tritonlab.server.api.openapi import openapi_document

from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, config, model
from .raw_http import RawHTTP
from .test_http_generate import DECOUPLED, STREAMS

TYPES = (
    "F FP32 -1;D FP64 2,2;I INT8 1;J INT64 -1,2;U UINT8 3;V UINT64 1;S STRING -1;B BOOL 2",
    "F FP32 -1;D FP64 2,2;I INT8 1;J INT64 -1,2;U UINT8 3;V UINT64 1;S STRING -1;B BOOL 2",
)
MODELS = {
    "add_sub": model(ADD_SUB, ADD_SUB_CONFIG),
    "types": model(ECHO, config(*TYPES)),
    "rows": model(ECHO, config("IN FP32 4", "IN FP32 4", "max_batch_size: 8", CPU)),
    "steps": model(ECHO, config("IN INT32 1", "IN INT32 1", "max_batch_size: 8", "sequence_batching { }", CPU)),
    "flow": model(STREAMS, config("IN STRING -1", "OUT STRING 1", DECOUPLED, CPU)),
}


@pytest.mark.parametrize("name", MODELS)
def test_examples_are_answered_as_the_schemas_say(http: RawHTTP, name: str) -> None:
    document = openapi_document([http.request("GET", f"/v2/models/{name}/config").document])
    tried = []
    for path, operations in document["paths"].items():
        content = operations.get("post", {}).get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            continue
        schema = content["application/json"]["schema"]
        example = content["application/json"]["examples"]["example"]["value"]
        _validate(document, schema, example)
        reply = http.post(path, example)
        assert reply.status == 200, reply.body
        if reply.kind == "application/json":
            answer = operations["post"]["responses"]["200"]["content"][reply.kind]["schema"]
            _validate(document, answer, reply.document)
        else:
            assert reply.body.startswith(b"data: {")
        tried.append(path.rpartition("/")[2])
    assert tried == {"flow": ["generate", "generate_stream"], "steps": ["infer"]}.get(
        name, ["infer", "generate", "generate_stream"]
    )


def _validate(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    Draft202012Validator({**schema, "components": document["components"]}).validate(value)
