"""The rules of a batcher, as tests of schedulers write them."""

from __future__ import annotations

from typing import Any

from tritonlab.engine.schedulers.dynamic_batch import BatchConfig


def batching(
    max_batch_size: int = 8, preferred: tuple[int, ...] | None = None, delay: int = 0, **more: Any
) -> BatchConfig:
    return BatchConfig(
        max_batch_size=max_batch_size, dynamic=True, preferred=preferred or (max_batch_size,), delay=delay, **more
    )
