"""The server's additions to a configuration before its model is started: defaults, normal forms, merged auto-complete,
instances.

Order on a load (rule 2.2): `polled` (`autofill`, `validate_poll`) -> the author's auto_complete_config ->
`merge_auto_complete` -> `final` (`normalize_instance_groups`, `validate_final`) -> one stub per `instance_specs`. Each
returns a new message.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..status import Code
from .model_config import ConfigError, ModelConfig, from_json, messages, to_json
from .model_config_validation import known_platforms, validate_final, validate_poll

_Group = messages.ModelInstanceGroup


class _KnownModel(NamedTuple):
    """A file in the first version directory that determines the backend: its name there (a directory's ends in `/`),
    and the backend's default_model_filename.
    """

    file: str
    backend: str
    platform: str
    listed: tuple[str, ...]


#: The files of rule 5.1.1; the first one found wins.
_BY_FILE = (
    _KnownModel("model.graphdef", "tensorflow", "tensorflow_graphdef", ("model.graphdef",)),
    _KnownModel("model.savedmodel", "tensorflow", "tensorflow_savedmodel", ("model.savedmodel/",)),
    _KnownModel("model.plan", "tensorrt", "tensorrt_plan", ("model.plan",)),
    _KnownModel("model.onnx", "onnxruntime", "onnxruntime_onnx", ("model.onnx", "model.onnx/")),
    _KnownModel("model.xml", "openvino", "", ("model.xml", "model.xml/")),
    _KnownModel("model.pt", "pytorch", "pytorch_libtorch", ("model.pt",)),
    _KnownModel("model.py", "python", "", ("model.py", "model.py/")),
)
#: The model file of each backend; TensorFlow models go by their platform, whatever the backend.
_FILES = {known.backend: known.file for known in _BY_FILE if known.backend != "tensorflow"}
_TENSORFLOW_FILES = {known.platform: known.file for known in _BY_FILE if known.backend == "tensorflow"}


def backend_of_file(name: str) -> str:
    """Return the backend whose model files end like `name`, `onnxruntime` for `head.onnx`; "" if none does."""
    ending = os.path.splitext(name)[1]
    return next((known.backend for known in _BY_FILE if ending and known.file.endswith(ending)), "")


def identifier(name: str, namespace: str = "") -> str:
    """Return the key of a model, which is unique even where several models have its name (rule 5.11.12)."""
    return f"{namespace}::{name}" if namespace else name


def step_model(step: Any) -> str:
    """Return the identifier of the model that a step of an ensemble names."""
    return identifier(step.model_name, step.model_namespace)


def polled(config: ModelConfig, *, model_name: str, files: Collection[str]) -> ModelConfig:
    """Return a configuration as the server completes it after reading (table 5.3.1). Raises ConfigError."""
    filled = autofill(config, model_name=model_name, files=files)
    validate_poll(filled, model_name=model_name)
    return filled


def final(config: ModelConfig, *, gpu_ids: Sequence[int]) -> ModelConfig:
    """Return the configuration a model runs with, after its auto_complete_config (table 5.3.2). Raises ConfigError."""
    grouped = normalize_instance_groups(config, gpu_ids=gpu_ids)
    validate_final(grouped, gpu_ids=gpu_ids)
    return grouped


def autofill(config: ModelConfig, *, model_name: str, files: Collection[str]) -> ModelConfig:
    """Fill in name, backend, default file name, and the defaults of schedulers and policies (rules 5.1.1 to 5.1.3).

    `files` are the names in the first version directory; a directory's ends in `/`. Raises ConfigError if the backend
    is unknown (5.1.2).
    """
    filled = copy.deepcopy(config)
    filled.name = filled.name or model_name
    if not is_ensemble(filled):
        _fill_backend(filled, model_name, files)
    _normalize(filled)
    return filled


def _fill_backend(config: ModelConfig, model_name: str, files: Collection[str]) -> None:
    """Fill in platform, backend and file name, each from the others and from `files` (rule 5.1.1)."""
    if config.platform and not config.backend:
        config.backend = known_platforms.get(config.platform, "")
    elif not config.platform:
        known = _known_model(config, files)
        if known is not None:
            config.backend, config.platform = known.backend, known.platform
        elif not config.backend and not config.default_model_filename:
            config.backend = _backend_of_name(model_name)
            config.default_model_filename = f"model.{config.backend}"
    if not config.default_model_filename:
        config.default_model_filename = _default_file(config)


def _known_model(config: ModelConfig, files: Collection[str]) -> _KnownModel | None:
    """Return the kind of model that a configuration without a platform describes; None if it is unknown."""
    backend, named = config.backend, config.default_model_filename
    found = [known for known in _BY_FILE if backend in ("", known.backend)]
    if len(found) == 1:
        return found[0]  # the backend has only one kind of model
    for known in found:
        if named == known.file if named else any(file in files for file in known.listed):
            return known
    return None


def _default_file(config: ModelConfig) -> str:
    if config.backend == "pytorch" and config.runtime == "model.py":
        return ""  # measured: Triton acts as if the file were a model.py
    if config.platform in _TENSORFLOW_FILES:
        return _TENSORFLOW_FILES[config.platform]
    return _FILES.get(config.backend, "")


def _backend_of_name(name: str) -> str:
    """Return the backend that a model's name ends in: `m.mine` -> `mine`, `m.of.mine` -> `of.mine` (rule 5.1.2)."""
    if "." not in name:
        raise ConfigError(
            f"Invalid model name: Could not determine backend for model '{name}' with no backend in model "
            "configuration. Expected model name of the form 'model.<backend_name>'."
        )
    return name.partition(".")[2]


def _normalize(config: ModelConfig) -> None:
    """Apply rule 5.1.3 in place."""
    if not config.HasField("version_policy"):
        config.version_policy.latest.num_versions = 1
    if config.HasField("dynamic_batching"):
        _default_preferred_size(config.dynamic_batching, config.max_batch_size)
    if config.HasField("sequence_batching"):
        batcher = config.sequence_batching
        batcher.max_sequence_idle_microseconds = batcher.max_sequence_idle_microseconds or 1_000_000
        if batcher.HasField("oldest"):
            _default_preferred_size(batcher.oldest, config.max_batch_size)
    if not is_ensemble(config):
        for buffer in ("input_pinned_memory", "output_pinned_memory"):
            if not config.optimization.HasField(buffer):
                getattr(config.optimization, buffer).enable = True


def _default_preferred_size(batcher: Any, max_batch_size: int) -> None:
    if not batcher.preferred_batch_size and max_batch_size > 0:
        batcher.preferred_batch_size.append(max_batch_size)


def merge_auto_complete(config: ModelConfig, returned: dict[str, Any]) -> ModelConfig:
    """Return `config` with the fields that Triton adopts from auto_complete_config's dict (rule 2.4.3).

    Raises ConfigError for a dict that is not a ModelConfig: `reason` is Triton's odd text (rule 1.17.4), `detail` the
    true cause. Triton fails like this only without a config.pbtxt; with one it drops the completion and continues.
    """
    try:
        update = from_json(returned)
    except ConfigError as error:
        reason = f"model configuration is not provided for model '{config.name}'"
        raise ConfigError(reason, detail=error.detail, code=Code.NOT_FOUND) from None
    merged = copy.deepcopy(config)
    merged.max_batch_size = update.max_batch_size
    for field in ("input", "output"):
        merged.ClearField(field)
        getattr(merged, field).MergeFrom(getattr(update, field))
    scheduler = update.WhichOneof("scheduling_choice")
    if scheduler and not merged.WhichOneof("scheduling_choice"):
        getattr(merged, scheduler).CopyFrom(getattr(update, scheduler))
    if update.HasField("model_transaction_policy"):
        merged.model_transaction_policy.CopyFrom(update.model_transaction_policy)
    _normalize(merged)
    return merged


def normalize_instance_groups(config: ModelConfig, *, gpu_ids: Sequence[int]) -> ModelConfig:
    """Give every group a name, a kind, a count and, for KIND_GPU, its GPUs (rule 5.1.4). Ensembles have no groups."""
    result = copy.deepcopy(config)
    if is_ensemble(config):
        return result
    if not result.instance_group:
        group = result.instance_group.add(name=config.name, kind=_Group.KIND_GPU if gpu_ids else _Group.KIND_CPU)
    for number, group in enumerate(result.instance_group):
        group.name = group.name or f"{config.name}_{number}"
        group.count = max(group.count, 1)
        if group.kind == _Group.KIND_AUTO:
            usable = bool(gpu_ids) and all(gpu in gpu_ids for gpu in group.gpus)
            group.kind = _Group.KIND_GPU if usable else _Group.KIND_CPU
        if group.kind == _Group.KIND_GPU and not group.gpus:
            group.gpus.extend(gpu_ids)
    return result


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """One model instance to start. `device_id` is the GPU ordinal for kind GPU, else 0. `rate_limiter` is its group's
    field of that name.
    """

    name: str
    kind: str
    device_id: int
    group: str
    passive: bool
    rate_limiter: Any = dataclasses.field(default=None, compare=False)


def instance_specs(config: ModelConfig) -> list[InstanceSpec]:
    """Return the instances to start: `<group>_<i>` for each of a group's `count`. Where a group has several GPUs,
    their instances share the name (rule 2.3.2)."""
    specs = []
    for group in config.instance_group:
        kind = _Group.Kind.Name(group.kind).removeprefix("KIND_")
        devices = group.gpus if group.kind == _Group.KIND_GPU else (0,)
        for number in range(group.count):
            for device in devices:
                specs.append(
                    InstanceSpec(
                        f"{group.name}_{number}",
                        kind,
                        device_id=device,
                        group=group.name,
                        passive=group.passive,
                        rate_limiter=group.rate_limiter,
                    )
                )
    return specs


#: The keys of the `args` of `initialize` (rule 2.3.1).
MODEL_ARGS = (
    "model_config",
    "model_instance_kind",
    "model_instance_name",
    "model_instance_device_id",
    "model_repository",
    "model_version",
    "model_name",
)


def instance_args(config: ModelConfig, spec: InstanceSpec, *, model_directory: str, version: int) -> dict[str, str]:
    """Return the `args` of `initialize` (rule 2.3.1). `model_directory` is `<repository>/<model>`."""
    device = str(spec.device_id)
    values = (to_json(config), spec.kind, spec.name, device, model_directory, str(version), config.name)
    return dict(zip(MODEL_ARGS, values, strict=True))


def is_decoupled(config: ModelConfig) -> bool:
    """Return whether a request may get none or several responses (rule 3.7.1)."""
    return bool(config.model_transaction_policy.decoupled)


def is_ensemble(config: ModelConfig) -> bool:
    """Return whether the model is an ensemble. Only its platform decides: an `ensemble_scheduling` block with any other
    platform is an error (rule 5.7.2).
    """
    return bool(config.platform == "ensemble")


def config_differs(old: ModelConfig, new: ModelConfig) -> set[str]:
    """Return the names of the top-level fields that differ; they decide which parts a reload replaces (rule 5.11.2)."""
    return {
        field.name
        for field in old.DESCRIPTOR.fields
        if _presence(old, field) != _presence(new, field) or getattr(old, field.name) != getattr(new, field.name)
    }


def _presence(config: ModelConfig, field: Any) -> bool:
    return bool(config.HasField(field.name)) if field.has_presence else True
