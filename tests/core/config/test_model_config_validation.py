from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import cases_config as cases
from tests.conformance.cases_config import FINAL, OK, POLL, ConfigCase
from tests.conformance.cases_ensemble import ENSEMBLE_CASES
from tritonlab.core.config.model_config import ConfigError, ModelConfig, from_json, parse_pbtxt, to_dict
from tritonlab.core.config.model_config_rules import (
    autofill,
    merge_auto_complete,
    normalize_instance_groups,
    validate_final,
    validate_poll,
)
from tritonlab.core.status import Code


def polled(config: ModelConfig) -> ModelConfig:
    filled = autofill(config, model_name="m", files=["model.py"])
    validate_poll(filled, model_name="m")
    return filled


def completed(config: ModelConfig, case: ConfigCase) -> ModelConfig:
    if case.completion:
        returned: dict[str, Any] = to_dict(config)
        exec(case.completion, {"d": returned})
        config = merge_auto_complete(config, returned)
    grouped = normalize_instance_groups(config, gpu_ids=())
    validate_final(grouped, gpu_ids=())
    return grouped


def ids(case: ConfigCase) -> str:
    return case.id


ONLY_CONFIG = [
    case
    for group in (
        cases.FILE_CASES,
        cases.ORDER_CASES,
        cases.DYNAMIC_CASES,
        cases.SEQUENCE_CASES,
        cases.FINAL_CASES,
        cases.NO_GPU_CASES,
        cases.COMPLETION_CASES,
        ENSEMBLE_CASES,
    )
    for case in group
    # What needs other files or models is decided elsewhere; a dropped completion is its caller's choice.
    if case.outcome in (OK, POLL, FINAL) and case.id not in ("agent", "unknown_key_dropped")
]


@pytest.mark.parametrize("case", ONLY_CONFIG, ids=ids)
def test_says_what_the_real_server_says(case: ConfigCase) -> None:
    config = ModelConfig() if case.config is None else parse_pbtxt(case.config, "config.pbtxt")
    outcome, text = OK, ""
    try:
        config = polled(config)
        outcome = FINAL
        completed(config, case)
        outcome = OK
    except ConfigError as error:
        outcome, text = (FINAL if outcome == FINAL else POLL), error.reason
        assert error.code is Code.INVALID_ARG
    assert (outcome, text) == (case.outcome, case.text.replace("{m}", "m"))


@pytest.mark.parametrize("case", cases.UNREADABLE_CASES, ids=ids)
def test_unreadable_text_names_the_file_and_keeps_the_place(case: ConfigCase) -> None:
    assert case.config is not None
    with pytest.raises(ConfigError) as caught:
        parse_pbtxt(case.config, "/models/m/config.pbtxt")
    assert caught.value.reason == "failed to read text proto from /models/m/config.pbtxt"
    assert caught.value.detail[0].isdigit()


@pytest.mark.parametrize("case", cases.UNUSABLE_COMPLETION_CASES, ids=ids)
def test_unusable_completion_keeps_the_true_cause(case: ConfigCase) -> None:
    config = polled(ModelConfig())
    with pytest.raises(ConfigError) as caught:
        completed(config, case)
    assert caught.value.reason == case.text.replace("{m}", "m")
    assert caught.value.code is Code.NOT_FOUND
    assert caught.value.detail


@pytest.mark.parametrize("case", cases.OVERRIDE_CASES, ids=ids)
def test_json_override(case: ConfigCase) -> None:
    assert case.config is not None
    if case.outcome == OK:
        completed(polled(from_json(case.config)), case)
    else:
        with pytest.raises(ConfigError) as caught:
            from_json(case.config)
        assert caught.value.reason.startswith(case.text)


def gpu_config(text: str) -> ModelConfig:
    return normalize_instance_groups(polled(parse_pbtxt(text, "")), gpu_ids=(0, 2))


def test_listed_gpus_must_be_there() -> None:
    validate_final(gpu_config("instance_group { kind: KIND_GPU gpus: [2] }"), gpu_ids=(0, 2))
    with pytest.raises(ConfigError, match=r"gpu id 1\. GPUs with at least .* are: 0, 2$"):
        validate_final(gpu_config("instance_group { kind: KIND_GPU gpus: [0, 1] }"), gpu_ids=(0, 2))
