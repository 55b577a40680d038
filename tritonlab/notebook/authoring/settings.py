"""`Settings`, the tunable settings of a model besides its code: the forming of batches, and the number of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...core.config.model_config import ModelConfig, print_pbtxt
from ...core.status import InvalidArgumentError, UnsupportedError
from ...engine.schedulers.dynamic_batch import BatchConfig


@dataclass(frozen=True)
class Settings:
    """One choice of settings. `preferred` is sorted; empty means no preferred sizes. `delay_us` and `preferred` have no
    meaning without `dynamic`, dynamic batching. `devices`: the number of instances for each 1 in the `count` of the
    instance group, one on each of its GPUs; 0 if there are several groups, which then stay unchanged.
    """

    max_batch_size: int = 0
    dynamic: bool = False
    preferred: tuple[int, ...] = ()
    delay_us: int = 0
    instances: int = 1
    devices: int = 1

    @staticmethod
    def from_config(config: ModelConfig) -> Settings:
        """Read a normalised configuration. Raises UnsupportedError for a model without the dynamic batcher: a sequence
        model, an ensemble.
        """
        if config.HasField("sequence_batching") or config.HasField("ensemble_scheduling"):
            kind = "a sequence model" if config.HasField("sequence_batching") else "an ensemble"
            raise UnsupportedError(f"'{config.name}' is {kind}: only the dynamic batcher's batches can be replayed")
        groups = [group for group in config.instance_group if not group.passive]
        single = len(config.instance_group) <= 1
        batching = config.dynamic_batching
        preferred = tuple(sorted(set(batching.preferred_batch_size)))
        if preferred == (config.max_batch_size,):
            preferred = ()  # equivalent to no preferred sizes
        return Settings(
            config.max_batch_size,
            dynamic=config.HasField("dynamic_batching") and config.max_batch_size > 0,
            preferred=preferred,
            delay_us=batching.max_queue_delay_microseconds,
            instances=sum(group.count * max(len(group.gpus), 1) for group in groups) or 1,
            devices=max([len(group.gpus) for group in groups] + [1]) if single else 0,
        )

    def changed(
        self,
        max_queue_delay_microseconds: int | None = None,
        preferred_batch_size: Sequence[int] | int | None = None,
        max_batch_size: int | None = None,
        instances: int | None = None,
    ) -> Settings:
        """Return the settings with changes; a delay or preferred sizes switch dynamic batching on. Raises
        InvalidArgumentError for values that no configuration can have, and the errors of `on`.
        """
        largest = self.max_batch_size if max_batch_size is None else max_batch_size
        if largest < (1 if self.max_batch_size else 0) or (largest and not self.max_batch_size):
            raise InvalidArgumentError("whether a model batches at all is not a setting: its tensors would change")
        if isinstance(preferred_batch_size, int):
            preferred_batch_size = (preferred_batch_size,)
        preferred = self.preferred if preferred_batch_size is None else tuple(sorted(set(preferred_batch_size)))
        if preferred_batch_size is None and max_batch_size is not None:
            preferred = tuple(size for size in preferred if size <= largest)
        batches = max_queue_delay_microseconds is not None or preferred_batch_size is not None
        made = replace(
            self,
            max_batch_size=largest,
            dynamic=self.dynamic or (batches and largest > 0),
            preferred=preferred,
            delay_us=self.delay_us if max_queue_delay_microseconds is None else max_queue_delay_microseconds,
        ).on(self.instances if instances is None else instances)
        if made.delay_us < 0 or made.instances < 1:
            raise InvalidArgumentError("the delay must be 0 microseconds or more, and instances 1 or more")
        if batches and not largest:
            raise InvalidArgumentError("the model does not batch (max_batch_size is 0): only its instances can change")
        if any(not 0 < size <= largest for size in preferred):
            raise InvalidArgumentError(f"preferred sizes must be 1 to max_batch_size, {largest}: {list(preferred)}")
        return made

    def on(self, instances: int) -> Settings:
        """Return the settings with this number of instances. Raises UnsupportedError for another number than now if
        there are several instance groups, as it is unknown which one is meant; InvalidArgumentError if the instances
        cannot be spread evenly over the model's GPUs.
        """
        if instances != self.instances and not self.devices:
            raise UnsupportedError("the model has several instance groups: change their counts in its config")
        if self.devices and instances > 0 and instances % self.devices:
            near = " or ".join(map(str, self.counts(instances + self.devices)[-2:]))
            each = f"the model has as many instances on each of its {self.devices} GPUs"
            raise InvalidArgumentError(f"{each}: {near}, not {instances}")
        return replace(self, instances=instances)

    def counts(self, most: int) -> range:
        """Return the possible numbers of instances, up to `most`: the same number on each GPU."""
        each = self.devices or 1
        return range(each, most + 1, each)

    def check_serving(self, ensembles: Mapping[str, int]) -> None:
        """Raise InvalidArgumentError if an ensemble that contains the model would stop serving (rule 5.7.4), because it
        needs a larger `max_batch_size`."""
        for ensemble, size in ensembles.items():
            if self.max_batch_size < size:
                raise InvalidArgumentError(
                    f"max_batch_size is {size} or more while ensemble '{ensemble}' is loaded, not "
                    f"{self.max_batch_size}: with less it would stop serving. Unload it to try less."
                )

    def written(self, config: ModelConfig) -> ModelConfig:
        """Return a copy of a configuration, normalised or as its author wrote it, with these settings; only the count
        of an instance group changes.
        """
        copy = ModelConfig()
        copy.CopyFrom(config)
        copy.max_batch_size = self.max_batch_size
        if self.dynamic:
            copy.dynamic_batching.SetInParent()
            copy.dynamic_batching.max_queue_delay_microseconds = self.delay_us
            del copy.dynamic_batching.preferred_batch_size[:]
            copy.dynamic_batching.preferred_batch_size.extend(self.preferred)
        else:
            copy.ClearField("dynamic_batching")
        count = self.instances // self.devices if self.devices else None
        if count is not None and count != (max(config.instance_group[0].count, 1) if config.instance_group else 1):
            group = copy.instance_group[0] if copy.instance_group else copy.instance_group.add()
            group.count = count
        return copy

    def batch_config(self, config: ModelConfig) -> BatchConfig:
        """Return the batcher's rules for a normalised configuration with these settings."""
        return BatchConfig.from_config(self.written(config))

    def pbtxt(self, authored: ModelConfig) -> str:
        """Return the config.pbtxt lines of these settings for the model with this configuration. The instance groups
        are as the author wrote them: the additions of this machine's server may be wrong on another machine.
        """
        written, lines = self.written(authored), ModelConfig()
        lines.max_batch_size = written.max_batch_size
        if self.dynamic:
            lines.dynamic_batching.CopyFrom(written.dynamic_batching)
            lines.dynamic_batching.SetInParent()
        lines.instance_group.extend(written.instance_group)
        return print_pbtxt(lines)

    def to_dict(self) -> dict[str, int | list[int] | bool]:
        """Return the settings as JSON values under the names of config.pbtxt."""
        return {
            "max_batch_size": self.max_batch_size,
            "dynamic_batching": self.dynamic,
            "preferred_batch_size": list(self.preferred),
            "max_queue_delay_microseconds": self.delay_us,
            "instances": self.instances,
        }

    def __str__(self) -> str:
        words = [f"{self.instances} instance{'s' * (self.instances > 1)}"]
        if self.max_batch_size:
            words.append(f"batches up to {self.max_batch_size}" if self.dynamic else "no dynamic batching")
        if self.dynamic:
            words.append(f"delay {self.delay_us:,} µs")
            if self.preferred:
                words.append(f"preferred {', '.join(map(str, self.preferred))}")
        return ", ".join(words)
