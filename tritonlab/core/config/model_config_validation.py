"""Checks that refuse a wrong configuration with Triton's texts (tables 5.3.1, 5.3.2 and 5.7.2).

`validate_poll` runs before the model is touched; its clients see only `failed to load`, the reason is in the log.
`validate_final` runs after auto_complete_config; its clients see the text. Checks run in Triton's order, the first one
wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from .ensemble_config_validation import validate_ensemble
from .model_config import ConfigError, ModelConfig, messages

_DataType = messages.DataType
_Group = messages.ModelInstanceGroup
_Control = messages.ModelSequenceBatching.Control

#: More than a machine has room for. Each instance is listed before the first one starts.
_MOST_INSTANCES = 10_000
#: The platforms of backends that Triton knows by name.
known_platforms = {
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
}


def validate_poll(config: ModelConfig, *, model_name: str) -> None:
    """Check table 5.3.1. `model_name` is the directory's name, which is checked last. Raises ConfigError."""
    _check_structure(config)
    if config.name != model_name:
        raise ConfigError(
            f"unexpected directory name '{model_name}' for model '{config.name}', directory name must equal model name"
        )


def _check_structure(config: ModelConfig) -> None:
    """Check table 5.3.1 without the directory's name. It runs again after auto_complete_config, which can break a
    configuration (rule 2.4.4)."""
    name = config.name
    _check_platform(config)
    if config.max_batch_size < 0:
        raise ConfigError(f"'max_batch_size' must be non-negative value for {name}")
    if config.HasField("dynamic_batching"):
        _check_dynamic_batching(config)
    if config.HasField("sequence_batching"):
        _check_sequence_batching(config)
    if config.HasField("ensemble_scheduling"):
        validate_ensemble(config)
    elif config.platform == "ensemble":
        raise ConfigError(f"ensemble scheduling must be set for ensemble {name} whose platform is ensemble")
    if config.response_cache.enable and config.model_transaction_policy.decoupled:
        raise ConfigError(_no_cache(config, "'decoupled' transaction policy"))


def _check_platform(config: ModelConfig) -> None:
    name, platform, backend = config.name, config.platform, config.backend
    if not backend and platform != "ensemble":
        raise ConfigError(f"unexpected platform type '{platform}' for {name}")
    if backend and platform == "ensemble":
        raise ConfigError(f"Ensemble model '{name}' must have platform type 'ensemble' and empty backend type")
    if backend in known_platforms.values() and known_platforms.get(platform) != backend:
        raise ConfigError(f"unexpected 'platform' and 'backend' pair, got:{platform}, {backend}")


def _check_dynamic_batching(config: ModelConfig) -> None:
    name, batcher = config.name, config.dynamic_batching
    _check_preferred_sizes(batcher.preferred_batch_size, config, "dynamic batching preferred size")
    levels = batcher.priority_levels
    if levels:
        if not 1 <= batcher.default_priority_level <= levels:
            raise ConfigError(f"default priority level must be in range [1, {levels}] for {name}")
        if not all(1 <= level <= levels for level in batcher.priority_queue_policy):
            raise ConfigError(f"priority queue policy must have priority level in range [1, {levels}] for {name}")
    if batcher.preserve_ordering:
        if levels > 1:
            raise ConfigError(f"Only one priority level is allowed when 'preserve_ordering' is true for {name}")
        for policy in (batcher.default_queue_policy, *batcher.priority_queue_policy.values()):
            if policy.default_timeout_microseconds and policy.timeout_action == policy.DELAY:
                raise ConfigError(
                    f"Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {name}"
                )


def _check_preferred_sizes(sizes: Sequence[int], config: ModelConfig, what: str) -> None:
    for size in sizes:
        if size <= 0:
            raise ConfigError(f"{what} must be positive for {config.name}")
        if size > config.max_batch_size:
            raise ConfigError(f"{what} must be <= max batch size for {config.name}")


_FALSE_TRUE = ("int32_false_true", "fp32_false_true", "bool_false_true")
_CORRID_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


def _check_sequence_batching(config: ModelConfig) -> None:
    name, batcher = config.name, config.sequence_batching
    if config.response_cache.enable:
        raise ConfigError(_no_cache(config, "sequence batching scheduler"))
    for kind in ("START", "END", "READY", "CORRID"):
        _check_control_kind(name, batcher, f"CONTROL_SEQUENCE_{kind}")
    if batcher.HasField("oldest"):
        _check_preferred_sizes(batcher.oldest.preferred_batch_size, config, "sequence batching preferred batch size")
    if batcher.HasField("direct") and not 0 <= batcher.direct.minimum_slot_utilization <= 1:
        # 0.0 passes in spite of the text: it is the field's default.
        raise ConfigError(f"sequence batching minimum slot utilization must be in range (0.0, 1.0] for {name}")


def _check_control_kind(name: str, batcher: Any, kind: str) -> None:
    """Check the controls of one kind. Like Triton it checks the names of all tensors again for each kind."""
    tensors: set[str] = set()
    found = False
    for control_input in batcher.control_input:
        if not control_input.name:
            raise ConfigError(f"sequence batching control tensor must have a name for {name}")
        if control_input.name in tensors:
            raise ConfigError(
                f"sequence batching control tensor '{control_input.name}' is specified for multiple control kinds "
                f"for {name}"
            )
        tensors.add(control_input.name)
        for control in control_input.control:
            if control.kind != _Control.Kind.Value(kind):
                continue
            if found:
                raise ConfigError(f"sequence batching specifies multiple {kind} tensors for {name}")
            found = True
            _check_control(name, control, kind)


def _check_control(name: str, control: Any, kind: str) -> None:
    fields = [field for field in _FALSE_TRUE if getattr(control, field)]
    choice = "'int32_false_true', 'fp32_false_true' or 'bool_false_true'"
    if kind == "CONTROL_SEQUENCE_CORRID":
        if fields:
            raise ConfigError(f"sequence batching must not specify either {choice} for {kind} for {name}")
        if _DataType.Name(control.data_type) not in _CORRID_TYPES:
            raise ConfigError(
                f"unexpected data type for control {kind} for {name}. Allowed data types are "
                "TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING"
            )
        return
    if not fields:
        raise ConfigError(f"sequence batching must specify either {choice} for {kind} for {name}")
    if len(fields) > 1:
        raise ConfigError(
            "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and "
            f"'bool_false_true' for {kind} for {name}"
        )
    if len(getattr(control, fields[0])) != 2:
        raise ConfigError(f"sequence batching control '{fields[0]}' must have exactly 2 entries for {kind} for {name}")


def _no_cache(config: ModelConfig, why: str) -> str:
    return (
        f"Response Cache does not currently support model {config.name} with {why}. Please disable the response cache."
    )


def validate_final(config: ModelConfig, *, gpu_ids: Sequence[int]) -> None:
    """Check table 5.3.2, table 5.3.1 once more, and the states of rule 5.6.11. `gpu_ids` are this machine's GPUs.

    Raises ConfigError.
    """
    _check_structure(config)
    validate_instance_groups(config, gpu_ids=gpu_ids)
    for tensor in config.input:
        _check_tensor(config, tensor, "model input")
        if tensor.format in (tensor.FORMAT_NHWC, tensor.FORMAT_NCHW) and len(tensor.dims) != 3:
            raise ConfigError(f"model input NHWC/NCHW require 3 dims for {config.name}")
        _check_tensorrt_only(config, tensor)
    for tensor in config.output:
        _check_tensor(config, tensor, "model output")
        _check_tensorrt_only(config, tensor)
    if config.batch_input or config.batch_output:
        _check_batch_tensors(config)
    if config.HasField("sequence_batching"):
        _check_states(config.sequence_batching.state)


def validate_instance_groups(config: ModelConfig, *, gpu_ids: Sequence[int]) -> None:
    """Check the instance groups of a normalised configuration alone. Raises ConfigError."""
    count = sum(group.count for group in config.instance_group)
    if count > _MOST_INSTANCES:
        raise ConfigError(
            f"model {config.name} has {count} instances, each of them a process, and {_MOST_INSTANCES} can be started: "
            "set a smaller 'count' in its instance groups"
        )
    for group in config.instance_group:
        _check_instance_group(config, group, gpu_ids)


def _check_tensor(config: ModelConfig, tensor: Any, what: str) -> None:
    name = config.name
    if not tensor.name:
        raise ConfigError(f"{what} must specify 'name' for {name}")
    what = f"{what} '{tensor.name}'"
    if tensor.data_type == _DataType.TYPE_INVALID:
        raise ConfigError(f"{what} must specify 'data_type' for {name}")
    if not tensor.dims:
        raise ConfigError(f"{what} must specify 'dims' for {name}")
    wanted = "must be integer >= 1, or -1 to indicate a variable-size dimension for"
    if 0 in tensor.dims or min(tensor.dims) < -1:
        raise ConfigError(f"{what} dimension {wanted} {name}")
    if not tensor.HasField("reshape"):
        return
    shape = tensor.reshape.shape
    if not shape and config.max_batch_size == 0:
        raise ConfigError(
            f"{what} cannot have empty reshape for non-batching model as scalar tensors are not supported for {name}"
        )
    if 0 in shape or min(shape, default=1) < -1:
        raise ConfigError(f"{what} reshape dimensions {wanted} {name}")
    _check_reshape(name, what, tensor.dims, shape)


def _check_reshape(name: str, what: str, dims: Sequence[int], shape: Sequence[int]) -> None:
    """Check that a reshape keeps the element count of each run of dimensions between two variable-size ones."""
    different_size = f"{what} has different size for dims and reshape for {name}"
    if (-1 in dims) != (-1 in shape):
        raise ConfigError(different_size)
    runs, new_runs = _fixed_runs(dims), _fixed_runs(shape)
    if len(runs) != len(new_runs):
        raise ConfigError(f"{what} has different number of variable-size dimensions for dims and reshape for {name}")
    if runs != new_runs:
        raise ConfigError(different_size)


def _fixed_runs(dims: Sequence[int]) -> list[int]:
    """Return the element counts of the runs between variable-size dimensions: `[2, 3, -1, 4]` -> `[6, 4]`."""
    runs: list[list[int]] = [[]]
    for dim in dims:
        if dim == -1:
            runs.append([])
        else:
            runs[-1].append(dim)
    return [prod(run) for run in runs]


def _check_tensorrt_only(config: ModelConfig, tensor: Any) -> None:
    if config.platform == "tensorrt_plan":
        return
    if tensor.is_shape_tensor:
        raise ConfigError(f"shape tensors are only supported for TensorRT platform for {config.name}")
    if tensor.is_non_linear_format_io:
        raise ConfigError(f"Non-linear IO format is only supported for the TensorRT platform for {config.name}")


def _check_batch_tensors(config: ModelConfig) -> None:
    """Check `batch_input` and `batch_output`. They do nothing for a Python model, but Triton checks them, too."""
    inputs = {tensor.name for tensor in config.input}
    outputs = {tensor.name for tensor in config.output}
    for batch_input in config.batch_input:
        kind = messages.BatchInput.Kind.Name(batch_input.kind)
        _check_source_count(config.name, f"batch input kind '{kind}'", batch_input)
        if batch_input.data_type not in (_DataType.TYPE_INT32, _DataType.TYPE_FP32):
            raise ConfigError(f"batch input data type must be TYPE_INT32 or TYPE_FP32 for {config.name}")
        _check_known(config.name, "source input", batch_input.source_input, inputs)
    for batch_output in config.batch_output:
        kind = messages.BatchOutput.Kind.Name(batch_output.kind)
        _check_source_count(config.name, f"batch output kind '{kind}'", batch_output)
        _check_known(config.name, "source input", batch_output.source_input, inputs)
        _check_known(config.name, "target output", batch_output.target_name, outputs)


def _check_source_count(name: str, what: str, batch_tensor: Any) -> None:
    if len(batch_tensor.source_input) != 1:
        raise ConfigError(f"{what} expects 1 source input, got {len(batch_tensor.source_input)} for {name}")


def _check_known(name: str, what: str, tensors: Sequence[str], known: set[str]) -> None:
    for tensor in tensors:
        if tensor not in known:
            raise ConfigError(f"unknown {what} name '{tensor}' for {name}")


def _check_instance_group(config: ModelConfig, group: Any, gpu_ids: Sequence[int]) -> None:
    what = f"instance group {group.name} of model {config.name}"
    kind = _Group.Kind.Name(group.kind)
    if group.kind == _Group.KIND_GPU:
        if not group.gpus:
            raise ConfigError(f"{what} has kind {kind} but no GPUs are available")
        for gpu in group.gpus:
            if gpu not in gpu_ids:
                raise ConfigError(
                    f"{what} specifies invalid or unsupported gpu id {gpu}. GPUs with at least the minimum required "
                    f"CUDA compute compatibility of 6.000000 are: {', '.join(map(str, gpu_ids))}"
                )
    elif group.gpus:
        raise ConfigError(f"{what} has kind {kind} but specifies one or more GPUs")
    if group.profile and config.platform != "tensorrt_plan":
        # The missing blank is Triton's.
        raise ConfigError(
            f"{what} and platform {config.platform}specifies profile field which is only supported for TensorRT models"
        )


def _check_states(states: Sequence[Any]) -> None:
    """Check rule 5.6.11. Only `initial_state` matters: a state without type, dims or names loads."""
    for state in states:
        name = state.input_name
        if len(state.initial_state) > 1:
            raise ConfigError(
                f"initial_state field for state input '{name}' must contain exactly one or zero element. "
                f"Found '{len(state.initial_state)}' elements."
            )
        for initial in state.initial_state:
            _check_initial_state(state, initial)


def _check_initial_state(state: Any, initial: Any) -> None:
    name = state.input_name
    if not initial.name:
        raise ConfigError(f"Field 'name' must be set when using initial_state for state input '{name}'.")
    if initial.data_type != state.data_type:
        raise ConfigError(
            f"The data type used for 'initial_state' field of state '{name}' does not match the state data type."
        )
    if len(initial.dims) != len(state.dims):
        raise ConfigError(
            "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input "
            f"'{name}'. {len(initial.dims)} != {len(state.dims)}"
        )
    for dim, wanted in zip(initial.dims, state.dims, strict=True):
        if dim == -1:
            raise ConfigError(f"'initial_state' field for state input name '{name}' contains variable dimensions.")
        if wanted not in (-1, dim):
            raise ConfigError(
                f"'initial_state' dim for input name '{name}' doesn't match 'state' dim description. {dim} != {wanted}"
            )
    if initial.WhichOneof("state_data") is None:
        raise ConfigError(f"initial_state setting expects state'{name}' to have state_data set")
