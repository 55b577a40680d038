"""The OpenAPI document of models. `tests/conformance/test_openapi_examples.py` sends its examples to both servers."""

from __future__ import annotations

from typing import Any

import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.server.api.openapi import MAX_EXAMPLE_ELEMENTS, example_generate, example_request, openapi_document


def tensor(name: str, datatype: str, *dims: int, optional: bool = False) -> dict[str, Any]:
    return {"name": name, "data_type": f"TYPE_{datatype}", "dims": list(dims), "optional": optional}


def model(*inputs: dict[str, Any], outputs: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {"name": "m", "max_batch_size": 0, "input": list(inputs), "output": list(outputs), **more}


DECOUPLED: dict[str, Any] = {"model_transaction_policy": {"decoupled": True}}
MODELS = [
    model(tensor("A", datatype.config_name.removeprefix("TYPE_"), -1, 2), name=datatype.name)
    for datatype in DataType
    if datatype is not DataType.INVALID
] + [
    model(tensor("A", "FP32", 4), outputs=(tensor("B", "FP16", -1, 2),), name="half", max_batch_size=8),
    model(tensor("A", "STRING", -1), name="flow", **DECOUPLED),
    model(tensor("A", "INT32", 1), name="sequence", sequence_batching={}),
    model(name="without tensors"),
]


@pytest.mark.parametrize("kwargs", [{}, {"url": "http://h:8000", "has_token": True, "headers": {"inference": "x-key"}}])
def test_document_is_valid(kwargs: dict[str, Any]) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(openapi_document(MODELS, **kwargs))
    validator.validate(openapi_document([], **kwargs))


def test_paths_follow_the_kind_of_model() -> None:
    def endpoints(config: dict[str, Any]) -> list[str]:
        start = f"/v2/models/{config['name']}/"
        paths = openapi_document([config])["paths"]
        return [path.removeprefix(start) for path, does in paths.items() if path.startswith(start) and "post" in does]

    plain, pair = tensor("A", "FP32", -1, 2), tensor("A", "FP32", -1, -1)
    assert endpoints(model(plain)) == ["infer", "generate", "generate_stream"]
    assert endpoints(model(plain, **DECOUPLED)) == ["generate", "generate_stream"]
    for config in (model(pair), model(plain, sequence_batching={}), model(tensor("A", "FP16", 2))):
        assert endpoints(config) == ["infer"]


def test_examples() -> None:
    config = model(tensor("A", "FP32", -1, 2), tensor("S", "STRING", 1), tensor("O", "BOOL", 1, optional=True))
    assert example_request({**config, "max_batch_size": 4}) == {
        "inputs": [
            {"name": "A", "shape": [1, 1, 2], "datatype": "FP32", "data": [0.0, 0.0]},
            {"name": "S", "shape": [1, 1], "datatype": "BYTES", "data": ["text"]},
        ]
    }
    assert example_generate(config) == {"A": [0.0, 0.0], "S": "text"}
    sequence = example_request({**config, "sequence_batching": {}})
    assert sequence is not None and sequence["parameters"]["sequence_start"]
    half = example_request({**config, "output": [tensor("B", "BF16", 2)]})
    assert half is not None and half["outputs"] == [{"name": "B", "parameters": {"binary_data": True}}]


@pytest.mark.parametrize("huge", [tensor("A", "FP16", 2), tensor("A", "UINT8", MAX_EXAMPLE_ELEMENTS + 1)])
def test_what_has_no_example(huge: dict[str, Any]) -> None:
    config = model(huge)
    assert example_request(config) is None
    assert example_generate(config) is None
    content = openapi_document([config])["paths"]["/v2/models/m/infer"]["post"]["requestBody"]["content"]
    assert ("application/json" in content) == (huge["data_type"] != "TYPE_FP16")


def test_security_names_the_token_and_the_restricted_header() -> None:
    document = openapi_document([model()], has_token=True, headers={"inference": "x-key"})
    assert document["components"]["securitySchemes"]["inference"]["name"] == "x-key"
    assert document["paths"]["/v2/models/m/infer"]["post"]["security"] == [{"token": [], "inference": []}]
    assert document["paths"]["/v2"]["get"]["security"] == [{"token": []}]
    assert "securitySchemes" not in openapi_document([model()])["components"]
