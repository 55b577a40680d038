"""The rules and services of a scheduler, as tests write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritonlab.core.clock import Clock
from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.core.observe.instrument import Instruments
from tritonlab.engine.execution.rate_limiter import RateLimiter
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.scheduler import SchedulerServices, WakeUp


def batching(
    max_batch_size: int = 8, preferred: tuple[int, ...] | None = None, delay: int = 0, **more: Any
) -> BatchConfig:
    return BatchConfig(
        max_batch_size=max_batch_size, dynamic=True, preferred=preferred or (max_batch_size,), delay=delay, **more
    )


def services(
    clock: Clock,
    timer: WakeUp,
    *,
    instruments: Instruments | None = None,
    stats: InferStats | None = None,
    warn: Callable[[str], None] = print,
    limiter: RateLimiter | None = None,
) -> SchedulerServices:
    return SchedulerServices(clock, instruments or Instruments(), timer, stats or InferStats(), warn, limiter)
