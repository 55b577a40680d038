"""The inputs and outputs in a model's file, compared with the config's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tritonlab_backend import BackendError, bracketed, default_max_batch_size, dims_of


class ModelTensor(NamedTuple):
    """An input or output of a model. A size of -1 is variable; `data_type` has the form of configs."""

    name: str
    data_type: str
    shape: list[int]


def complete(
    auto_complete: Any, inputs: Sequence[ModelTensor], outputs: Sequence[ModelTensor], *, can_batch: bool
) -> None:
    """Fill in the missing parts of a config: the batch size, the batcher, and the inputs and outputs."""
    config = auto_complete.as_dict()
    if can_batch:
        if config["max_batch_size"] == 0:
            auto_complete.set_max_batch_size(default_max_batch_size())
        if config["max_batch_size"] > 1 and "sequence_batching" not in config:
            auto_complete.set_dynamic_batching()
    for role, tensors in (("input", inputs), ("output", outputs)):
        if not config[role]:
            config[role] = [_describe(each, config["max_batch_size"] > 0) for each in tensors]


def _describe(tensor: ModelTensor, batches: bool) -> dict[str, Any]:
    dims = tensor.shape[1:] if batches else tensor.shape
    found: dict[str, Any] = {"name": tensor.name, "data_type": tensor.data_type, "dims": dims or [1]}
    if not dims and batches:
        found["reshape"] = {"shape": []}
    return found


def check_count(config: Mapping[str, Any], expected: int, provided: int) -> None:
    """Raise BackendError unless the model and the config have the same number of inputs."""
    if provided != expected:
        text = f"configuration expects {expected} inputs, model provides {provided}"
        raise BackendError(f"unable to load model '{config['name']}', {text}")


def check_tensor(
    config: Mapping[str, Any],
    described: Mapping[str, Any],
    known: Mapping[str, ModelTensor],
    role: str,
    data_types: Collection[str],
) -> None:
    """Compare a tensor of the config with the model's. A config's input may fix dimensions that are variable in the
    model. `data_types`: the types of the backend. Raises BackendError."""
    model, name, data_type = config["name"], described["name"], described["data_type"]
    tensor = known.get(name)
    if tensor is None:
        allowed = ", ".join(sorted(known))
        raise BackendError(f"unexpected inference {role} '{name}', allowed {role}s are: {allowed}")
    if data_type not in data_types:
        raise BackendError(f"unsupported datatype {data_type} for {role} '{name}' for model '{model}'", "Internal")
    if data_type != tensor.data_type:
        provides = tensor.data_type.replace("STRING", "BYTES")
        text = f"configuration expects datatype {data_type} for {role} '{name}', model provides {provides}"
        raise BackendError(f"unable to load model '{model}', {text}")
    dims = dims_of(described)
    if tensor.shape:
        _check_dims(model, tensor, dims, config["max_batch_size"] > 0, exact=role == "output")
    elif any(dim != 1 for dim in dims):
        text = (
            f"unable to load model '{model}', scalar tensor '{name}', should only provide 1 in the model configuration "
            f"when the model doesn't support batching. Model configuration provided: {bracketed(dims)}."
        )
        raise BackendError(text)


def _check_dims(model: str, tensor: ModelTensor, dims: list[int], batches: bool, *, exact: bool) -> None:
    shape = tensor.shape
    if batches and shape[0] != -1:
        text = (
            f"model '{model}', tensor '{tensor.name}': for the model to support batching the shape should have at "
            "least 1 dimension and the first dimension must be -1; but shape expected by the model is "
            f"{bracketed(shape)}"
        )
        raise BackendError(text)
    full = [-1, *dims] if batches else dims
    pairs = zip(shape, full, strict=False)
    if len(shape) == len(full) and all(have == want or (have == -1 and not exact) for have, want in pairs):
        return
    initial = (
        "(an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        f"complete shape {bracketed(full)})"
        if batches
        else f"(shape {bracketed(full)})"
    )
    text = (
        f"model '{model}', tensor '{tensor.name}': the model expects {len(shape)} dimensions (shape "
        f"{bracketed(shape)}) but the model configuration specifies {len(full)} dimensions {initial}"
    )
    raise BackendError(text)
