"""The call of a model as Python's own tools see it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.models import executes
from tritonlab import Model, Server
from tritonlab.server.api.model_signature import call_help, call_signature

CONFIG = """
max_batch_size: 8
input [ { name: "A" data_type: TYPE_FP32 dims: [4] }, { name: "in:0" data_type: TYPE_STRING dims: [-1] } ]
input { name: "MASK" data_type: TYPE_BOOL dims: [1] optional: true }
output { name: "OUT" data_type: TYPE_FP16 dims: [-1, 2] }
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    repository = tmp_path_factory.mktemp("models")
    (repository / "m" / "1").mkdir(parents=True)
    (repository / "m" / "1" / "model.py").write_text(executes("return []"))
    (repository / "m" / "config.pbtxt").write_text(CONFIG)
    with Server(repository) as server:
        yield server.model("m")


def tensor(name: str, optional: bool = False) -> dict[str, Any]:
    return {"name": name, "data_type": "TYPE_INT8", "dims": [2], "optional": optional}


def config(*inputs: str, decoupled: bool = False) -> dict[str, Any]:
    return {
        "max_batch_size": 0,
        "input": list(map(tensor, inputs)),
        "output": [tensor("OUT")],
        "model_transaction_policy": {"decoupled": decoupled},
    }


def test_the_signature_has_the_inputs_with_datatypes_and_shapes(model: Model) -> None:
    assert str(inspect.signature(model)) == (
        "(*, A: FP32[batch ≤ 8, 4], MASK: BOOL[batch ≤ 8, 1] = optional, **inputs) -> {OUT: FP16[batch, any, 2]}"
    )


def test_help_has_the_names_that_are_no_identifiers_too(model: Model) -> None:
    assert inspect.getdoc(model) == (
        "The model 'm'.\n\n"
        "m(A=…, **{'in:0': …})['OUT']\n\n"
        "send  A     FP32[batch ≤ 8, 4]\n"
        "send  in:0  BYTES[batch ≤ 8, any]\n"
        "send  MASK  BOOL[batch ≤ 8, 1]  optional\n"
        "get   OUT   FP16[batch, any, 2]"
    )


def test_the_class_and_a_model_that_is_not_loaded_keep_their_own(model: Model) -> None:
    absent = model.server.model("absent")
    assert list(inspect.signature(Model).parameters) == ["server", "name", "version", "workspace"]
    assert str(inspect.getdoc(Model)).startswith("A model of a server")
    assert list(inspect.signature(absent).parameters) == ["inputs"]
    assert inspect.getdoc(absent) == inspect.getdoc(Model)


@pytest.mark.parametrize("method", ["infer", "async_infer", "create_request"])
def test_the_fields_of_a_request_are_in_the_signature(model: Model, method: str) -> None:
    parameters = inspect.signature(getattr(model, method)).parameters
    assert {"inputs", "request_id", "timeout", "requested_outputs"} <= set(parameters)
    assert str(parameters["timeout"]) == "timeout: int = …"


def test_inputs_may_be_called_anything(model: Model) -> None:
    assert list(call_signature(config("a b", "inputs", "class")).parameters) == ["inputs", "inputs_"]
    assert "m(inputs=…, **{'a b': …, 'class': …})['OUT']" in call_help("m", config("a b", "inputs", "class"))
    assert "model(self=…)" in call_help("a model", config("self"))


def test_of_a_decoupled_model_help_shows_the_loop() -> None:
    assert "for response in m.infer(inputs={'A': …}): …" in call_help("m", config("A", decoupled=True))
