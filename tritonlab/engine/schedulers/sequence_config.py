"""`SequenceConfig`, the part of a sequence model's configuration about slots and batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.config.model_config import ModelConfig
from ...core.status import InvalidArgumentError
from .dynamic_batch import BatchConfig

#: 2.51 serves a model with a million, and does not finish with ten million (measured).
_MOST_SLOTS = 1 << 20


@dataclass(frozen=True)
class SequenceConfig:
    """The rules by which a sequence model's requests share instances and batches. Times are in nanoseconds.

    `slots` is the number of sequences of one instance at a time (rule 5.6.3). With `direct` a sequence's requests are
    at its slot's position in every batch; otherwise candidate sequences share a dynamic batcher (rules 5.6.7, 5.6.8).
    `batch` has that batcher's rules; for a direct model, only the inputs that must be equal in a batch. Once
    `minimum_ready` slots have a request a batch does not wait for `delay`; 0 never waits.
    """

    slots: int = 1
    direct: bool = True
    max_idle: int = 1_000_000_000
    iterative: bool = False
    minimum_ready: float = 0.0
    delay: int = 0
    preserve_ordering: bool = False
    batch: BatchConfig = field(default_factory=BatchConfig)

    @staticmethod
    def from_config(config: ModelConfig) -> SequenceConfig:
        """Return the rules of a normalised configuration with `sequence_batching`. The default strategy is direct.
        Raises InvalidArgumentError."""
        sequences = config.sequence_batching
        # the strategy that is not chosen is an empty message
        direct, oldest = sequences.direct, sequences.oldest
        is_direct = not sequences.HasField("oldest")
        batch = BatchConfig()
        if config.max_batch_size:
            batch = BatchConfig.of_strategy(config, oldest, oldest.max_queue_delay_microseconds * 1000)
        slots = max(1, config.max_batch_size)
        if oldest.max_candidate_sequences > 0:
            slots = oldest.max_candidate_sequences
        if slots > _MOST_SLOTS:
            raise InvalidArgumentError(
                f"model '{config.name}' has {slots} sequences per instance, and {_MOST_SLOTS} can be kept: set a "
                f"smaller {'max_batch_size' if is_direct else 'max_candidate_sequences'}"
            )
        return SequenceConfig(
            slots=slots,
            direct=is_direct,
            max_idle=sequences.max_sequence_idle_microseconds * 1000,
            iterative=sequences.iterative_sequence,
            # Without a delay the utilization has no effect, nor the delay without the utilization (measured on 2.51).
            minimum_ready=direct.minimum_slot_utilization * slots if direct.max_queue_delay_microseconds else 0.0,
            delay=direct.max_queue_delay_microseconds * 1000 if direct.minimum_slot_utilization else 0,
            preserve_ordering=oldest.preserve_ordering,
            batch=batch,
        )
