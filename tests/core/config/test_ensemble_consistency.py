"""Errors of ensembles and their models; tests/conformance/test_ensemble.py compares those that Triton has too."""

from __future__ import annotations

import pytest

from tests.ensembles import DECOUPLED, composing, config, ensemble_text, model_text, step, tensor
from tritonlab.core.config.ensemble_consistency import (
    ComposingModel,
    check_composing_models,
    complete_ensemble,
    connections,
)
from tritonlab.core.config.model_config import ConfigError, ModelConfig

MODELS = {
    "echo": model_text(),
    "join": model_text("A B"),
    "split": model_text(outputs="OUT OUT2"),
    "stream": model_text(more=DECOUPLED),
    "batch4": model_text(batch=4),
}


def refusal(text: str, models: dict[str, ComposingModel] | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        check_composing_models(config(text, "e"), models or composing(MODELS))
    return error.value.reason


def test_a_model_that_is_nowhere() -> None:
    two = ensemble_text(step("echo", "IN=X", "OUT=Z"), step("nope", "IN=Z", "OUT=W"), step("also", "IN=W", "OUT=Y"))
    assert refusal(two) == "ensemble e contains models that are not available or ambiguous: nope"


def test_a_model_that_failed_to_load_and_an_ensemble_that_is_not_valid() -> None:
    models = {
        "broken": ComposingModel(failure="version 1 is at UNAVAILABLE state: Internal: x;"),
        "invalid": ComposingModel(failure="ensemble 'invalid' is wrong", is_ensemble=True),
    }
    assert refusal(ensemble_text(step("broken", "IN=X", "OUT=Y")), models) == (
        "ensemble 'e' depends on 'broken' which has no loaded version. Model 'broken' loading failed with error: "
        "version 1 is at UNAVAILABLE state: Internal: x;"
    )
    assert refusal(ensemble_text(step("invalid", "IN=X", "OUT=Y")), models) == (
        "ensemble 'e' depends on 'invalid' which is not valid. Model 'invalid' failed with error: "
        "ensemble 'invalid' is wrong"
    )


def test_a_version_is_looked_for_only_where_the_step_names_one() -> None:
    models = {"echo": ComposingModel({1: config(model_text(), "echo"), 3: config(model_text(batch=4), "echo")})}
    assert models["echo"].config().max_batch_size == 4
    assert models["echo"].config(1).max_batch_size == 0
    for version in (-1, 1, 3):
        check_composing_models(config(ensemble_text(step("echo", "IN=X", "OUT=Y", version)), "e"), models)
    assert refusal(ensemble_text(step("echo", "IN=X", "OUT=Y", 2)), models) == (
        "ensemble 'e' depends on 'echo' whose required version 2 is not loaded."
    )


def test_connections_say_what_each_step_uses_and_what_is_wrong_with_it() -> None:
    io = tensor("input", "X", datatype="INT8") + tensor("output", "Y")
    text = ensemble_text(step("batch4", "IN=X", "OUT=Z"), step("echo", "IN=Z NO=X", "OUT=Y"), io=io)
    found = connections(config(text, "e"), composing(MODELS))
    assert [(c.step, c.model, c.kind, c.name, c.tensor, c.datatype, c.shape) for c in found] == [
        (0, "batch4", "input", "IN", "X", "TYPE_FP32", (-1, -1)),
        (0, "batch4", "output", "OUT", "Z", "TYPE_FP32", (-1, -1)),
        (1, "echo", "input", "IN", "Z", "TYPE_FP32", (-1,)),
        (1, "echo", "input", "NO", "X", "", ()),
        (1, "echo", "output", "OUT", "Y", "TYPE_FP32", (-1,)),
    ]
    assert [c.problem for c in found if c.problem] == [
        "in ensemble e, ensemble tensor X: inconsistent data type: TYPE_INT8 is inferred from model e while TYPE_FP32 "
        "is inferred from model batch4",
        "in ensemble e, ensemble tensor X is mapping to non-existing input NO in model echo",
    ]


@pytest.mark.parametrize(
    "steps",
    [
        (step("stream", "IN=X", "OUT=Z"), step("join", "A=Z B=X", "OUT=Y")),
        (step("stream", "IN=X", "OUT=V"), step("stream", "IN=V", "OUT=W"), step("join", "A=V B=W", "OUT=Y")),
        (step("stream", "IN=X", "OUT=V"), step("stream", "IN=X", "OUT=W"), step("join", "A=V B=W", "OUT=Y")),
    ],
)
def test_tensors_that_come_another_number_of_times_cannot_be_joined(steps: tuple[str, ...]) -> None:
    assert refusal(ensemble_text(*steps)) == (
        "in ensemble e, step of model 'e' receives inputs originated from different decoupled models"
    )


def test_outputs_that_come_another_number_of_times_cannot_be_one_response() -> None:
    text = ensemble_text(step("stream", "IN=X", "OUT=Y"), step("echo", "IN=X", "OUT=Y2"), outputs="Y Y2")
    assert refusal(text).endswith("different decoupled models")


def test_what_follows_from_one_response_can_be_joined() -> None:
    text = ensemble_text(
        step("stream", "IN=X", "OUT=Z"),
        step("echo", "IN=Z", "OUT=V"),
        step("join", "A=V B=Z", "OUT=Y"),
        outputs="Y Z",
    )
    check_composing_models(config(text, "e"), composing(MODELS))


@pytest.mark.parametrize(("model", "decoupled"), [("stream", True), ("echo", False)])
def test_an_ensemble_is_decoupled_if_a_model_is_whatever_it_says_itself(model: str, decoupled: bool) -> None:
    for policy in ("", DECOUPLED):
        ensemble = config(ensemble_text(step("echo", "IN=X", "OUT=Z"), step(model, "IN=Z", "OUT=Y"), more=policy), "e")
        before = ModelConfig()
        before.CopyFrom(ensemble)
        complete = complete_ensemble(ensemble, composing(MODELS))
        assert complete.HasField("model_transaction_policy")
        assert complete.model_transaction_policy.decoupled is decoupled
        assert ensemble == before
