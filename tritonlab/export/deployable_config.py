"""The config of an exported model: complete, but without what only describes this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..core.config.model_config import ModelConfig, messages, with_only
from ..core.config.model_config_rules import autofill, normalize_instance_groups
from .machine_bound import forget_backend_directory


def deployable_config(served: ModelConfig, authored: ModelConfig, *, files: Collection[str]) -> ModelConfig:
    """Return `served`, the config as this server normalised it, fit for another machine.

    `authored` is the author's own. Every input, output, instance group, batcher, policy and parameter stays. What a
    server fills in again by itself (rules 2.11.1, 5.1.1, 5.1.3, 5.1.4) is left out of what the author wrote, and so is
    what describes this machine: whether instances run on the CPU or on a GPU, and the numbers of its GPUs.
    """
    config = ModelConfig()
    config.CopyFrom(served)
    _forget_devices(config, authored)
    forget_backend_directory(config, authored)
    if not _wrote(authored, "model_transaction_policy") and not config.model_transaction_policy.decoupled:
        config.ClearField("model_transaction_policy")  # auto_complete_config said what holds anyway
    names = {_top(file.split("/", 1)[1]) for file in files if "/" in file}

    def filled_in(shorter: ModelConfig) -> list[ModelConfig]:
        """Return what a server makes of it, without a GPU and with one."""
        filled = autofill(shorter, model_name=served.name, files=names)
        return [normalize_instance_groups(filled, gpu_ids=gpus) for gpus in ((), (0,))]

    complete = filled_in(config)
    for shorter in _shorter(config, authored):
        if filled_in(shorter) == complete:
            config.CopyFrom(shorter)
    return config


def _shorter(config: ModelConfig, authored: ModelConfig) -> Iterator[ModelConfig]:
    """Yield copies of `config`, each without what was filled into one field; `config` may change between two."""
    for descriptor, _ in authored.ListFields():
        shorter = ModelConfig()
        shorter.CopyFrom(config)
        shorter.ClearField(descriptor.name)
        shorter.MergeFrom(with_only(authored, descriptor.name))
        yield shorter
    for field in _FILLED_IN:
        if not _wrote(authored, field):
            shorter = ModelConfig()
            shorter.CopyFrom(config)
            shorter.ClearField(field)
            yield shorter
    if config.HasField("dynamic_batching") and not authored.HasField("dynamic_batching"):
        shorter = ModelConfig()
        shorter.CopyFrom(config)
        shorter.dynamic_batching.ClearField("preferred_batch_size")
        yield shorter


def _top(file: str) -> str:
    """Return the first part of a path: `model.savedmodel/variables/x` -> `model.savedmodel/`."""
    first, slash, _ = file.partition("/")
    return first + slash


def _forget_devices(config: ModelConfig, authored: ModelConfig) -> None:
    """Take this machine's devices out of instance groups that did not name any (rule 5.1.4). The next machine has
    others: KIND_CPU from here would keep a model off its GPU."""
    for index, group in enumerate(config.instance_group):
        has_written = index < len(authored.instance_group)
        written = authored.instance_group[index] if has_written else messages.ModelInstanceGroup()
        group.kind = written.kind  # without one that is KIND_AUTO, which is not printed
        if not written.gpus:
            del group.gpus[:]


def _wrote(config: ModelConfig, field: str) -> bool:
    return any(descriptor.name == field for descriptor, _ in config.ListFields())


#: Fields that every server fills in where they are missing.
_FILLED_IN = ("version_policy", "optimization", "default_model_filename")
