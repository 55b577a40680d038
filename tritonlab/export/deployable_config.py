"""This module makes the config of an exported model: complete, but without what only describes this machine."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..core.model_config import ModelConfig, messages
from ..core.model_config_rules import autofill
from .machine_bound import forget_backend_directory

Prune = Callable[[ModelConfig], None]


def deployable_config(served: ModelConfig, authored: ModelConfig, *, files: Collection[str]) -> ModelConfig:
    """Makes `served`, the config as this server normalised it, fit for another machine. `authored` is the author's own.

    Every input, output, instance group, batcher, policy and parameter stays. Two things that the author did not write
    are left out: what a server fills in again by itself (rules 2.11.1, 5.1.1, 5.1.3), and what describes this machine:
    whether instances run on the CPU or on a GPU, and the numbers of its GPUs.
    """
    config = ModelConfig()
    config.CopyFrom(served)
    _forget_devices(config, authored)
    forget_backend_directory(config, authored)
    names = {_top(file.split("/", 1)[1]) for file in files if "/" in file}
    filled = autofill(config, model_name=served.name, files=names)
    for field, prune in _FILLED_IN.items():
        if _wrote(authored, field):
            continue
        shorter = ModelConfig()
        shorter.CopyFrom(config)
        prune(shorter)
        if autofill(shorter, model_name=served.name, files=names) == filled:
            config = shorter
    return config


def _top(file: str) -> str:
    """Returns the first part of a path: `model.savedmodel/variables/x` -> `model.savedmodel/`."""
    first, slash, _ = file.partition("/")
    return first + slash


def _forget_devices(config: ModelConfig, authored: ModelConfig) -> None:
    """Takes this machine's devices out of instance groups that did not name any (rule 5.1.4). The next machine has
    others: KIND_CPU from here would keep a model off its GPU."""
    for index, group in enumerate(config.instance_group):
        said = authored.instance_group[index] if index < len(authored.instance_group) else messages.ModelInstanceGroup()
        group.kind = said.kind  # without one that is KIND_AUTO, which is not printed
        if not said.gpus:
            del group.gpus[:]


def _wrote(config: ModelConfig, field: str) -> bool:
    """Tells whether the config sets `field`, a path of names with dots."""
    name, _, rest = field.partition(".")
    present = any(descriptor.name == name for descriptor, _ in config.ListFields())
    return present and (not rest or _wrote(getattr(config, name), rest))


def _clear_preferred(config: ModelConfig) -> None:
    if config.HasField("dynamic_batching"):
        config.dynamic_batching.ClearField("preferred_batch_size")


_FILLED_IN: dict[str, Prune] = {
    "version_policy": lambda config: config.ClearField("version_policy"),
    "optimization": lambda config: config.ClearField("optimization"),
    "default_model_filename": lambda config: config.ClearField("default_model_filename"),
    "dynamic_batching.preferred_batch_size": _clear_preferred,
}
