"""TorchScript models, run by torch as Triton's compiled `pytorch` backend runs them (section 2.15 of the rule book).

Written after the public sources of pytorch_backend (636a781) and its README. The server that tritonlab is measured
against has no such backend, so no text here is proved against it. Parameters without a public switch in torch's Python
package are checked, but have no effect: `ENABLE_JIT_EXECUTOR`, `ENABLE_JIT_PROFILING`, `ENABLE_TENSOR_FUSER` and
`ENABLE_NVFUSER` change a model's speed, not its answers. Instances are processes here, so `ENABLE_WEIGHT_SHARING`
shares nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from tritonlab_backend import BackendError, Batch, dims_of, parameters_of, refuse_unsupported, to_boolean, to_integer

_TYPES = {
    "TYPE_BOOL": torch.bool,
    "TYPE_UINT8": torch.uint8,
    "TYPE_INT8": torch.int8,
    "TYPE_INT16": torch.int16,
    "TYPE_INT32": torch.int32,
    "TYPE_INT64": torch.int64,
    "TYPE_FP16": torch.float16,
    "TYPE_FP32": torch.float32,
    "TYPE_FP64": torch.float64,
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_STRING = "TYPE_STRING"
_FLAGS = (
    "DISABLE_CUDNN",
    "DISABLE_OPTIMIZED_EXECUTION",
    "ENABLE_CACHE_CLEANING",
    "INFERENCE_MODE",
    "ENABLE_TENSOR_FUSER",
    "ENABLE_WEIGHT_SHARING",
    "ENABLE_JIT_PROFILING",
    "ENABLE_JIT_EXECUTOR",
    "ENABLE_NVFUSER",
)


class TritonPythonModel:
    """One instance of a model: its own module. Like Triton's backend, it does not complete configurations: TorchScript
    has neither types nor shapes."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        self._batches = config["max_batch_size"] > 0
        refuse_unsupported(config)
        parameters = parameters_of(config)
        flags = {name: to_boolean(parameters[name]) for name in _FLAGS if name in parameters}
        _set_threads(config)
        torch.backends.cudnn.enabled = not flags.get("DISABLE_CUDNN", False)
        self._is_optimized = not flags.get("DISABLE_OPTIMIZED_EXECUTION", False)
        self._mode = torch.inference_mode if flags.get("INFERENCE_MODE", False) else torch.no_grad
        self._cleans = flags.get("ENABLE_CACHE_CLEANING", False)
        self._device = _device(config, args)
        self._module = _module(config, args["model_instance_name"], self._device, self._mode)
        arguments = _arguments(config, self._module.forward.schema.arguments)
        #: the position of each input, None for a model that takes one dictionary
        self._positions = _input_positions(config, arguments) if arguments is not None else None
        _check_tensors(config, "output")
        self._outputs = _by_index([each["name"] for each in config["output"]])
        self._types = {each["name"]: each["data_type"] for each in config["output"]}

    def execute(self, requests: Sequence[Any]) -> Any:
        batch = Batch(requests, self._batches)
        try:
            values = self._run(batch.inputs())
        except Exception as error:
            return batch.failed(f"PyTorch execute failure: {error}", pb_utils.TritonError.INTERNAL)
        for name, position in self._outputs.items():
            if not 0 <= position < len(values):
                text = (
                    f"The output {name} in the model configuration refers to an output index which doesn't exist. This "
                    f"model has {len(values)} outputs"
                )
                return batch.failed(text, pb_utils.TritonError.INVALID_ARG)
        wanted = batch.wanted
        try:
            found = {name: self._array(name, values[at]) for name, at in self._outputs.items() if name in wanted}
        except _OutputError as error:
            return batch.failed(str(error), pb_utils.TritonError.INVALID_ARG)
        if self._cleans and self._device.type == "cuda":
            torch.cuda.empty_cache()
        return batch.responses(found)

    def _run(self, arrays: Mapping[str, Any]) -> list[Any]:
        """Return the results of the module for one batch. Raises the errors of the module."""
        inputs = {}
        for name, array in arrays.items():
            if array.dtype == object:
                inputs[name] = [element.decode() for element in array.reshape(-1)]
            else:
                inputs[name] = torch.from_numpy(array).to(self._device)
        with torch.jit.optimized_execution(self._is_optimized), self._mode():
            if self._positions is None:
                returned = self._module(inputs)
            else:
                returned = self._module(*[inputs[name] for name in sorted(inputs, key=self._positions.__getitem__)])
        return _values(returned)

    def _array(self, name: str, value: Any) -> Any:
        """Return an output as an array. Raises _OutputError if it does not fit the config."""
        if isinstance(value, list):
            array = np.empty(len(value), dtype=object)
            array[:] = [each.encode() for each in value]
            return array
        expected, provided = self._types[name], _NAMES.get(value.dtype, "TYPE_<invalid>")
        if expected != provided:
            text = f"configuration expects datatype {expected} for output '{name}', model provides {provided}"
            raise _OutputError(text.replace(_STRING, "TYPE_BYTES"))
        if value.dim() == 0:
            raise _OutputError(f"output '{name}' is a scalar which is not supported.")
        return value.detach().cpu().contiguous().numpy()


def _module(config: Mapping[str, Any], instance: str, device: torch.device, mode: Any) -> Any:
    path = os.path.join(pb_utils.get_model_dir(), config.get("default_model_filename") or "model.pt")
    if not os.path.exists(path):
        raise BackendError(f"unable to find '{path}' for model instance '{instance}'", "Unavailable")
    try:
        with warnings.catch_warnings(), mode():
            warnings.simplefilter("ignore", DeprecationWarning)  # from torch.jit, which TorchScript requires
            return torch.jit.load(path, map_location=device).eval()
    except Exception as error:
        raise BackendError(f"failed to load model '{instance}': {error}", "Internal") from None


def _device(config: Mapping[str, Any], args: Mapping[str, str]) -> torch.device:
    if args["model_instance_kind"] != "GPU":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        text = (
            f"model '{config['name']}' has an instance on a GPU, and the torch installed here sees none: use KIND_CPU, "
            "or install a build of torch for this machine's GPU"
        )
        raise BackendError(text, "Unsupported")
    return torch.device("cuda", int(args["model_instance_device_id"]))


def _set_threads(config: Mapping[str, Any]) -> None:
    """Set the number of torch's threads. Raises BackendError."""
    parameters = parameters_of(config)
    for name, count_threads in (
        ("INTRA_OP_THREAD_COUNT", torch.set_num_threads),
        ("INTER_OP_THREAD_COUNT", torch.set_num_interop_threads),
    ):
        if (count := to_integer(parameters.get(name, "0"))) > 0:
            with contextlib.suppress(RuntimeError):  # torch takes the second number once; Triton ignores that, too
                count_threads(count)


# -- inputs and outputs


def _arguments(config: Mapping[str, Any], arguments: Sequence[Any]) -> list[str] | None:
    """Return the names of the arguments of `forward`; None for a model that takes a dictionary. Raises BackendError."""
    tensors = [each for number, each in enumerate(arguments) if number or each.type.kind() != "ClassType"]
    if len(tensors) == 1 and tensors[0].type.kind() == "DictType":
        return None
    if any(each.type.kind() == "DictType" for each in tensors[1:]):
        only = "Only a single input of type Dict(str, Tensor) is supported."
        text = f"Multiple inputs of kind DictType were detected. {only}"
        raise BackendError(text, "Internal")
    for each in tensors:
        if each.type.kind() not in ("TensorType", "ListType"):
            text = (
                f"An input of type '{each.type}' was detected in the model. Only a single input of type Dict(str, "
                "Tensor) or input(s) of type Tensor are supported."
            )
            raise BackendError(text, "Internal")
    expected = len(config["input"]) + sum(
        len(each["control"]) for each in config.get("sequence_batching", {}).get("control_input", ())
    )
    if tensors and len(tensors) != expected:
        text = (
            f"unable to load model '{config['name']}', configuration expects {expected} inputs, model provides "
            f"{len(tensors)}"
        )
        raise BackendError(text)
    return [each.name for each in tensors]


def _input_positions(config: Mapping[str, Any], arguments: Sequence[str]) -> dict[str, int]:
    """Return the position in `forward` of each input: by the name of its argument, by `<name>__<index>`, otherwise by
    the order of the config. Raises BackendError."""
    _check_tensors(config, "input")
    names = [each["name"] for each in config["input"]]
    positions = {}
    for each in config.get("sequence_batching", {}).get("control_input", ()):
        position = _index(each["name"])
        if position is None:
            text = f"input '{each['name']}' does not follow <name>__<index> naming convention."
            raise BackendError(text, "Internal")
        positions[each["name"]] = position
    if all(name in arguments for name in names):
        return {**positions, **{name: arguments.index(name) for name in names}}
    return {**positions, **_by_index(names)}


def _by_index(names: Sequence[str]) -> dict[str, int]:
    """Return the positions from `<name>__<index>`; the order if one of the names does not have that form."""
    found = {name: _index(name) for name in names}
    if None in found.values():
        return {name: number for number, name in enumerate(names)}
    return {name: position for name, position in found.items() if position is not None}


def _index(name: str) -> int | None:
    _, between, index = name.partition("__")
    if not between or not all(letter in "0123456789" for letter in index):
        return None
    return int(index or 0)


def _check_tensors(config: Mapping[str, Any], role: str) -> None:
    if not config[role]:
        text = f"model configuration must contain at least one {role}, none were specified."
        raise BackendError(text, "Internal")
    for each in config[role]:
        name, data_type = each["name"], each["data_type"]
        if data_type not in (*_TYPES, _STRING):
            text = f"unsupported datatype {data_type} for {role} '{name}' for model '{config['name']}'"
            raise BackendError(text, "Internal")
        if data_type == _STRING and len(dims_of(each)) + (config["max_batch_size"] > 0) > 1:
            text = (
                f"Triton only supports 1 dimensional List of String as {role} for '{name}' for model '{config['name']}'"
            )
            raise BackendError(text, "Internal")


def _values(returned: Any) -> list[Any]:
    """Return the outputs among the results of a module. Raises ValueError."""
    if isinstance(returned, tuple):
        for position, each in enumerate(returned):
            if isinstance(each, list) and not all(isinstance(text, str) for text in each):
                kind = f"List[{_element(each)}]"
                raise ValueError(f"output at index {position} must be of type Tensor or List[str], received {kind}")
            if not isinstance(each, (list, torch.Tensor)):
                raise ValueError(f"Expected Tensor but got {type(each).__name__}")
        return list(returned)
    if isinstance(returned, torch.Tensor):
        return [returned]
    if isinstance(returned, list):
        if not all(isinstance(text, str) for text in returned):
            raise ValueError(f"output must be of type Tensor or List[str], received List[{_element(returned)}]")
        return [returned]
    raise ValueError(
        "output must be of type Tensor, List[str] or Tuple containing one of these two types. It should not be a List "
        "/ Dictionary of Tensors or a Scalar"
    )


def _element(values: Sequence[Any]) -> str:
    return type(values[0]).__name__


class _OutputError(Exception):
    """An output that does not fit the config."""
