"""`make_scheduler`, which makes the scheduler for a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...core.clock import Clock
from ...core.config.model_config import ModelConfig
from ...core.metrics.infer_stats import InferStats
from ...core.observe.instrument import Instruments
from ..execution.rate_limiter import RateLimiter
from .dynamic_batch import BatchConfig
from .dynamic_batch_scheduler import DynamicBatchScheduler
from .policy_queue import QueuePolicies
from .scheduler import InstanceScheduler, WakeUp
from .sequence_batch_scheduler import SequenceBatchScheduler
from .sequence_config import SequenceConfig
from .sequence_inputs import SequenceInputs


@dataclass(frozen=True)
class SchedulerServices:
    """The services for every scheduler of a model version. `warn` is called with the lines that Triton would log;
    `limiter` is None if executions share no resources.
    """

    clock: Clock
    instruments: Instruments
    timer: WakeUp
    stats: InferStats
    warn: Callable[[str], None]
    limiter: RateLimiter | None = None


def make_scheduler(
    name: str, version: int, config: ModelConfig, directory: Path, services: SchedulerServices
) -> InstanceScheduler:
    """Make the scheduler of a normalised configuration; `directory` is the model's. Raises TritonError for initial
    states that cannot be read (rule 5.6.10)."""
    clock, instruments, timer = services.clock, services.instruments, services.timer
    if config.HasField("sequence_batching"):
        inputs = SequenceInputs(config, directory)
        rules = SequenceConfig.from_config(config)
        return SequenceBatchScheduler(
            name,
            version,
            config=rules,
            inputs=inputs,
            clock=clock,
            instruments=instruments,
            timer=timer,
            stats=services.stats,
            warn=services.warn,
            limiter=services.limiter,
        )
    # how many requests must wait before the first one executes, Triton's aid for batching tests (rule 5.5.11)
    text = os.environ.get("TRITONSERVER_DELAY_SCHEDULER", "")
    return DynamicBatchScheduler(
        name,
        version,
        config=BatchConfig.from_config(config),
        clock=clock,
        instruments=instruments,
        timer=timer,
        policies=QueuePolicies.from_config(config),
        preserve_ordering=config.dynamic_batching.preserve_ordering,
        stats=services.stats,
        limiter=services.limiter,
        hold_until=(int(text) if text.isdecimal() else 0) if config.HasField("dynamic_batching") else 0,
    )
