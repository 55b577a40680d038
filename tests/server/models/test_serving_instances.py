"""The instances that stay when their number or kind changes (rule 5.11.2); the rest is in test_model_control.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tritonlab.core.config.model_config import ModelConfig, parse_pbtxt
from tritonlab.core.config.model_config_rules import instance_specs, normalize_instance_groups
from tritonlab.core.inference.request_rules import RequestRules
from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.engine.execution.rate_limiter import RateLimiter
from tritonlab.server.models import serving_instances
from tritonlab.server.models.serving_instances import (
    ExecutionOptions,
    ServingInstances,
    Signature,
    _signature,
    match_instances,
)


def wanted(*groups: str) -> list[tuple[object, Signature]]:
    text = "\n".join(f"instance_group {{ kind: KIND_CPU {group} }}" for group in groups)
    config: ModelConfig = normalize_instance_groups(parse_pbtxt(f'name: "m" {text}', ""), gpu_ids=())
    return [(spec, _signature(config, spec)) for spec in instance_specs(config)]


def change(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[list[str], list[str]]:
    running = [(spec.name, signature) for spec, signature in wanted(*before)]  # type: ignore[attr-defined]
    kept, new = match_instances(running, wanted(*after))  # type: ignore[arg-type]
    return kept, [spec.name for spec in new]


@pytest.mark.parametrize(
    ("before", "after", "kept", "new"),
    [
        (("count: 1",), ("count: 1",), ["m_0_0"], []),
        (("count: 1",), ("count: 3",), ["m_0_0"], ["m_0_1", "m_0_2"]),
        (("count: 3",), ("count: 2",), ["m_0_2", "m_0_1"], []),
        (("count: 4",), ('name: "x" count: 2',), ["m_0_3", "m_0_2"], []),  # a name makes no difference
        (('name: "x" count: 2',), ('name: "x" count: 2', "count: 1"), ["x_1", "x_0"], ["m_1_0"]),
        (('name: "x"', "count: 1"), ("count: 1", 'name: "x"'), ["m_1_0", "x_0"], []),
        (("count: 1",), ("count: 1 rate_limiter { priority: 2 }",), [], ["m_0_0"]),
        (("count: 2",), ("count: 1 passive: true", "count: 1"), ["m_0_1"], ["m_0_0"]),
        (("count: 1",), ('count: 1 host_policy: "p"',), [], ["m_0_0"]),
    ],
)
def test_equal_instances_stay(
    before: tuple[str, ...], after: tuple[str, ...], kept: list[str], new: list[str]
) -> None:  # measured on 2.51
    assert change(before, after) == (kept, new)


def test_instances_whose_addition_is_interrupted_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version goes on with its other instances, so neither its scheduler nor the rate limiter may keep them."""
    limiter, ready, gone = RateLimiter({}), MagicMock(side_effect=[None, KeyboardInterrupt]), MagicMock()
    scheduler: Any = MagicMock(instance_ready=ready, instance_gone=gone)
    monkeypatch.setattr(serving_instances, "make_instances", lambda plans, *more: [MagicMock() for _ in plans])
    monkeypatch.setattr(serving_instances, "start_instances", lambda instances, first: None)
    text = 'name: "m" instance_group { kind: KIND_CPU count: 2 rate_limiter { resources { name: "R" count: 1 } } }'
    config = normalize_instance_groups(parse_pbtxt(text, ""), gpu_ids=())
    rules, source, none = RequestRules(config, model_name="m"), MagicMock(version=1), MagicMock()
    execution = ExecutionOptions(limiter=limiter)
    instances = ServingInstances(source, Path("m"), rules, scheduler, none, InferStats(), execution, False)
    with pytest.raises(KeyboardInterrupt):
        instances.update(config)
    assert instances.serving == [] and repr(limiter) == "<RateLimiter [nothing in use | 0 waiting]>"
    assert limiter._contexts == {}
    assert {call.args[0] for call in gone.call_args_list} >= {call.args[0] for call in ready.call_args_list}
