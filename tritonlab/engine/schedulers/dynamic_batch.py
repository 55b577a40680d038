"""`take_batch`, the dynamic batcher's decision: the requests of a queue for the next batch, and why it ends there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from ...core.config.model_config import ModelConfig
from ...core.inference.tensor import Tensor
from .policy_queue import QueuePolicies


@dataclass(frozen=True)
class BatchConfig:
    """The fields of a model's configuration that determine its batches. `delay` is in nanoseconds."""

    max_batch_size: int = 0
    dynamic: bool = False
    preferred: tuple[int, ...] = ()
    delay: int = 0
    #: inputs whose shapes must be equal within a batch (rule 5.5.5); empty if shapes cannot differ
    equal_shape_inputs: tuple[str, ...] = ()
    #: whether requests may carry different inputs (rule 5.5.6)
    optional_inputs: bool = False
    #: whether younger requests may be before older ones, because of priorities or delayed requests
    ranked: bool = False
    #: whether a request that was cancelled while it waited is executed anyway (rule 3.10.2)
    keeps_cancelled: bool = False

    @staticmethod
    def from_config(config: ModelConfig) -> BatchConfig:
        """Return the batching rules of a normalised configuration."""
        queued = config.HasField("dynamic_batching")
        if not queued or config.max_batch_size == 0:
            return BatchConfig(config.max_batch_size, keeps_cancelled=not queued)  # rule 5.5.12
        delay = config.dynamic_batching.max_queue_delay_microseconds * 1000 % (1 << 64)  # as Triton counts (rule 5.5.4)
        ranked = QueuePolicies.from_config(config) is not None
        return BatchConfig.of_strategy(config, config.dynamic_batching, delay, ranked=ranked)

    @staticmethod
    def of_strategy(config: ModelConfig, strategy: Any, delay: int, *, ranked: bool = False) -> BatchConfig:
        """Return the rules of a batching model by its `dynamic_batching`, or by its `oldest` for sequences."""
        return BatchConfig(
            max_batch_size=config.max_batch_size,
            dynamic=True,
            preferred=tuple(sorted(set(strategy.preferred_batch_size))) or (config.max_batch_size,),
            delay=delay,
            equal_shape_inputs=tuple(i.name for i in config.input if not i.allow_ragged_batch and -1 in i.dims),
            optional_inputs=any(i.optional for i in config.input),
            ranked=ranked,
        )


@dataclass(slots=True)  # not frozen, which would triple the time to make one
class Batch:
    """A decision: the first `count` requests of the queue go now; `reason` is why the batch ends there."""

    count: int
    size: int
    reason: str


@dataclass(slots=True)
class WaitUntil:
    """A decision: no batch before `until` (`Clock.now()` nanoseconds), unless another request arrives."""

    until: int


class Batchable(Protocol):
    """A request, or a sequence's candidate, for a batch. `queue_start` is the time of its arrival at the batcher."""

    batch_size: int
    queue_start: int
    inputs: dict[str, Tensor]


def take_batch(queue: Iterable[Batchable], config: BatchConfig, now: int) -> Batch | WaitUntil | None:
    """Return the decision for an idle instance on the queue, oldest request first; None if the queue is empty.

    Rules 5.5.2 to 5.5.6: with a delay a batch goes as soon as it has a preferred size, the next request would make it
    exceed all preferred sizes or `max_batch_size`, the next request does not fit, or its oldest request has waited for
    the delay. Without a delay all waiting requests go at once.
    """
    if not config.dynamic:
        for request in queue:
            return Batch(1, request.batch_size, "no dynamic batching")
        return None
    first: Batchable | None = None
    key: tuple[Any, Any] = (None, None)
    count = size = 0
    reason = ""
    preferred: Batch | None = None
    largest = config.preferred[-1] if config.preferred else 0
    comparable = bool(config.equal_shape_inputs) or config.optional_inputs
    for request in queue:
        if first is None:
            first = request
            key = batch_key(request, config) if comparable else key
        else:
            if size + request.batch_size > largest and preferred is None:
                full = size + request.batch_size > config.max_batch_size
                preferred = Batch(count, size, "full" if full else "next exceeds preferred")
            if size + request.batch_size > config.max_batch_size:
                reason = "full"
                break
            other = batch_key(request, config) if comparable else key
            if other != key:
                reason = "optional inputs" if other[0] != key[0] else "shape"
                break
        count += 1
        size += request.batch_size
        if size in config.preferred:
            preferred = Batch(count, size, "full" if size == config.max_batch_size else "preferred")
    if first is None:
        return None
    due = first.queue_start + config.delay
    if config.ranked:
        due = min(request.queue_start for request in islice(queue, count)) + config.delay
    expired = config.delay > 0 and now >= due
    if preferred is not None and not expired:
        return preferred
    if reason or size >= config.max_batch_size:
        return Batch(count, size, reason or "full")
    if expired:
        return Batch(count, size, "delay")
    if size >= largest:
        return Batch(count, size, "exceeds preferred")
    return Batch(count, size, "no delay") if config.delay == 0 else WaitUntil(due)


def batch_key(request: Batchable, config: BatchConfig) -> tuple[Any, Any]:
    """Return (present inputs, shapes without the batch dimension); requests with equal keys may share a batch."""
    inputs = request.inputs
    present = frozenset(inputs) if config.optional_inputs else None
    if not config.equal_shape_inputs:
        return present, None
    return present, tuple([inputs[n].shape[1:] if n in inputs else None for n in config.equal_shape_inputs])
