from __future__ import annotations

import pytest

from tritonlab.core.config.model_config import ModelConfig, messages, parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill, normalize_instance_groups
from tritonlab.tools.deploy.model_build import deployable_config

FILES = ["1/model.py", "config.pbtxt"]


def normalized(text: str, gpus: list[int]) -> ModelConfig:
    config = autofill(parse_pbtxt(text, ""), model_name="m", files={"model.py"})
    return normalize_instance_groups(config, gpu_ids=gpus)


def deployed(text: str, gpus: list[int] | None = None) -> ModelConfig:
    served = normalized(text, gpus or [])
    return deployable_config(served, parse_pbtxt(text, ""), files=FILES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "max_batch_size: 8 dynamic_batching { }",
        "max_batch_size: 8 dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 5 }",
        "version_policy { all { } }",
        "optimization { input_pinned_memory { enable: false } }",
        "model_transaction_policy { decoupled: true }",
        'instance_group { count: 2 } parameters { key: "k" value { string_value: "v" } }',
    ],
)
def test_a_server_makes_the_same_of_it(text: str) -> None:
    exported = deployed(text)
    again = normalize_instance_groups(autofill(exported, model_name="m", files={"model.py"}), gpu_ids=[])
    assert again == normalized(text, [])


@pytest.mark.parametrize(("authored", "kept"), [("", False), ("model_transaction_policy { }", True)])
def test_a_policy_that_says_nothing_is_left_out_unless_its_author_wrote_it(authored: str, kept: bool) -> None:
    served = normalized("model_transaction_policy { decoupled: false }", [])  # of auto_complete_config
    exported = deployable_config(served, parse_pbtxt(authored, ""), files=FILES)
    assert exported.HasField("model_transaction_policy") is kept


def test_what_every_server_fills_in_is_left_out() -> None:
    exported = deployed("max_batch_size: 8 dynamic_batching { }")
    assert not exported.HasField("optimization")
    assert not exported.HasField("version_policy")
    assert list(exported.dynamic_batching.preferred_batch_size) == []
    assert (exported.name, exported.backend) == ("m", "python")
    assert exported.instance_group[0].count == 1


@pytest.mark.parametrize(
    "text",
    [
        "instance_group [ { count: 2 kind: KIND_CPU }, { } ]",
        'instance_group { name: "mine" }',
        "instance_group { kind: KIND_GPU }",
        "instance_group { kind: KIND_GPU gpus: [ 1 ] }",
        "optimization { graph { level: 1 } }",
        "max_batch_size: 8 sequence_batching { oldest { max_candidate_sequences: 4 } }",
        "version_policy { latest { num_versions: 2 } } instance_group { }",
    ],
)
@pytest.mark.parametrize("gpus", [[], [0, 1]])
def test_nothing_is_filled_into_what_the_author_wrote(text: str, gpus: list[int]) -> None:
    authored = parse_pbtxt(f'name: "m" backend: "python" {text}', "")
    exported = deployed(f'name: "m" backend: "python" {text}', gpus)
    for field, value in authored.ListFields():
        assert getattr(exported, field.name) == value
    assert normalize_instance_groups(autofill(exported, model_name="m", files={"model.py"}), gpu_ids=gpus) == (
        normalized(text, gpus)
    )


def test_what_the_author_wrote_stays() -> None:
    exported = deployed("max_batch_size: 8 dynamic_batching { preferred_batch_size: 8 }")
    assert list(exported.dynamic_batching.preferred_batch_size) == [8]


def test_the_gpus_of_this_machine_stay_here() -> None:
    assert list(deployed("instance_group { kind: KIND_GPU }", [0, 1]).instance_group[0].gpus) == []
    assert list(deployed("instance_group { kind: KIND_GPU gpus: [1] }", [0, 1]).instance_group[0].gpus) == [1]


def test_the_kind_is_the_authors_choice_or_the_next_machines() -> None:
    groups = "instance_group [ { count: 2 }, { kind: KIND_CPU }, { kind: KIND_AUTO }, { kind: KIND_MODEL } ]"
    kinds = messages.ModelInstanceGroup
    expected = [kinds.KIND_AUTO, kinds.KIND_CPU, kinds.KIND_AUTO, kinds.KIND_MODEL]
    assert [group.kind for group in deployed(groups).instance_group] == expected
    assert [group.kind for group in deployed(groups, [0]).instance_group] == expected
    assert deployed("").instance_group[0].kind == kinds.KIND_AUTO
    elsewhere = normalize_instance_groups(deployed(groups), gpu_ids=[0])
    assert elsewhere.instance_group[0].kind == kinds.KIND_GPU
    assert elsewhere.instance_group[1].kind == kinds.KIND_CPU
