"""`make_scheduler`, which makes the scheduler for a configuration."""

from __future__ import annotations

import os
from pathlib import Path

from ...core.config.model_config import ModelConfig
from .dynamic_batch import BatchConfig
from .dynamic_batch_scheduler import DynamicBatchScheduler
from .policy_queue import QueuePolicies
from .scheduler import InstanceScheduler, SchedulerServices
from .sequence_batch_scheduler import SequenceBatchScheduler
from .sequence_config import SequenceConfig
from .sequence_inputs import SequenceInputs


def make_scheduler(
    name: str, version: int, config: ModelConfig, directory: Path, services: SchedulerServices
) -> InstanceScheduler:
    """Make the scheduler of a normalised configuration; `directory` is the model's. Raises TritonError for initial
    states that cannot be read (rule 5.6.10)."""
    if config.HasField("sequence_batching"):
        inputs, rules = SequenceInputs(config, directory), SequenceConfig.from_config(config)
        return SequenceBatchScheduler(name, version, rules, inputs, services)
    # how many requests must wait before the first one executes, Triton's aid for batching tests (rule 5.5.11)
    text = os.environ.get("TRITONSERVER_DELAY_SCHEDULER", "")
    return DynamicBatchScheduler(
        name,
        version,
        BatchConfig.from_config(config),
        services,
        policies=QueuePolicies.from_config(config),
        preserve_ordering=config.dynamic_batching.preserve_ordering,
        hold_until=(int(text) if text.isdecimal() else 0) if config.HasField("dynamic_batching") else 0,
    )
