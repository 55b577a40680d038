from __future__ import annotations

import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.sequence_config import SequenceConfig

SECOND = 1_000_000_000


def config_of(sequences: str, max_batch_size: int = 4, more: str = "") -> SequenceConfig:
    text = f"max_batch_size: {max_batch_size} sequence_batching {{ {sequences} }} {more}"
    return SequenceConfig.from_config(autofill(parse_pbtxt(text, "config.pbtxt"), model_name="m", files=["model.py"]))


def test_neither_strategy_means_direct() -> None:  # rule 5.6.8
    assert config_of("") == config_of("direct { }")
    assert config_of("").direct
    assert not config_of("oldest { }").direct


@pytest.mark.parametrize(
    ("sequences", "max_batch_size", "slots"),
    [
        ("direct { }", 4, 4),
        ("direct { }", 0, 1),
        ("oldest { }", 4, 4),
        ("oldest { max_candidate_sequences: 2 }", 4, 2),
        ("oldest { max_candidate_sequences: 9 }", 4, 9),
        ("oldest { max_candidate_sequences: 3 }", 0, 3),
    ],
)
def test_slots_per_instance(sequences: str, max_batch_size: int, slots: int) -> None:  # rule 5.6.3
    assert config_of(sequences, max_batch_size).slots == slots


def test_idle_time_has_a_default_of_a_second() -> None:
    assert config_of("").max_idle == SECOND
    assert config_of("max_sequence_idle_microseconds: 5000").max_idle == 5_000_000


@pytest.mark.parametrize(
    ("direct", "minimum_ready", "delay"),
    [
        ("minimum_slot_utilization: 0.75 max_queue_delay_microseconds: 500", 3.0, 500_000),
        ("minimum_slot_utilization: 0.75", 0.0, 0),
        ("max_queue_delay_microseconds: 500", 0.0, 0),
    ],
)
def test_utilization_and_delay_need_each_other(direct: str, minimum_ready: float, delay: int) -> None:  # rule 5.6.7
    config = config_of(f"direct {{ {direct} }}")
    assert (config.minimum_ready, config.delay) == (minimum_ready, delay)


def test_the_batcher_of_the_oldest_strategy() -> None:  # rule 5.6.8
    config = config_of(
        "oldest { preferred_batch_size: [ 4, 2 ] max_queue_delay_microseconds: 500 preserve_ordering: true }",
        more='input { name: "V" data_type: TYPE_FP32 dims: [ -1 ] } '
        'input { name: "R" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }',
    )
    assert config.batch == BatchConfig(4, True, (2, 4), 500_000, ("V",), False)
    assert config.preserve_ordering


def test_without_a_batch_dimension_requests_go_alone() -> None:
    assert config_of("oldest { max_candidate_sequences: 3 }", 0).batch == BatchConfig(0)
