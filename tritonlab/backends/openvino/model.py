"""OpenVINO models, run by OpenVINO on the CPU as Triton's compiled `openvino` backend runs them (section 2.18 of the
rule book).

Written after the public sources of openvino_backend (bdf9687) and its newer README. The server that tritonlab is
measured against has no such backend, so no text here is proved against it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino
import triton_python_backend_utils as pb_utils
from tritonlab_backend import BackendError, Batch, dims_of, parameters_of, refuse_unsupported
from tritonlab_signature import ModelTensor, check_count, check_tensor, complete

_TYPES = {
    "boolean": "TYPE_BOOL",
    "u8": "TYPE_UINT8",
    "u16": "TYPE_UINT16",
    "u32": "TYPE_UINT32",
    "u64": "TYPE_UINT64",
    "i8": "TYPE_INT8",
    "i16": "TYPE_INT16",
    "i32": "TYPE_INT32",
    "i64": "TYPE_INT64",
    "f16": "TYPE_FP16",
    "f32": "TYPE_FP32",
    "f64": "TYPE_FP64",
}
_NUMBERS = ("INFERENCE_NUM_THREADS", "COMPILATION_NUM_THREADS")


class TritonPythonModel:
    """One instance of a model: a compiled model of its own."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        config = auto_complete_model_config.as_dict()
        if not (config["input"] and config["output"]):
            model = _read(openvino.Core(), config)
            inputs, outputs = (list(_tensors(ports).values()) for ports in (model.inputs, model.outputs))
            can_batch = all(openvino.layout_helpers.has_batch(each.get_layout()) for each in model.get_parameters())
            complete(auto_complete_model_config, inputs, outputs, can_batch=can_batch)
        return auto_complete_model_config

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        refuse_unsupported(config)
        name, self._size = config["name"], config["max_batch_size"]
        if args["model_instance_kind"] != "CPU":
            raise BackendError(f"unable to load model '{name}', openVINO backend supports only CPU device")
        core, parameters = openvino.Core(), parameters_of(config)
        self._has_fixed_batch = self._size > 0 and _is_yes(parameters, "SKIP_OV_DYNAMIC_BATCHSIZE")
        self._pads = _is_yes(parameters, "ENABLE_BATCH_PADDING")
        self._outputs = [each["name"] for each in config["output"]]
        properties = _properties(parameters)
        if path := parameters.get("CPU_EXTENSION_PATH"):
            _call(" loading custom CPU extensions", core.add_extension, path)
        model = _read(core, config)
        self._reshape(model, config, is_by_config=_is_yes(parameters, "RESHAPE_IO_LAYERS"))
        self._check(model, config)
        compiled = _call("loading network", core.compile_model, model, "CPU", properties)
        self._request = _call("creating infer request object", compiled.create_infer_request)
        self._ports = {_name(port): port for port in compiled.outputs}

    def _reshape(self, model: Any, config: Mapping[str, Any], *, is_by_config: bool) -> None:
        """Make the batch variable and, if `is_by_config`, give the inputs the shapes of the config."""
        dims = {each["name"]: dims_of(each) for each in config["input"]} if is_by_config else {}
        shapes = {}
        for port in model.inputs:
            shape = dims.get(_name(port))
            if shape is not None:
                shapes[port] = openvino.PartialShape([-1, *shape] if self._size else shape)
            elif self._size and not self._has_fixed_batch and port.get_partial_shape().rank.get_length():
                shapes[port] = openvino.PartialShape([-1, *list(port.get_partial_shape())[1:]])
        if shapes:
            _call("setting max batch size", model.reshape, shapes)

    def _check(self, model: Any, config: Mapping[str, Any]) -> None:
        inputs, outputs = _tensors(model.inputs), _tensors(model.outputs)
        if self._has_fixed_batch:  # it counts as a batch of any size here: `execute` ensures that
            inputs, outputs = (
                {name: each._replace(shape=[-1, *each.shape[1:]]) for name, each in tensors.items()}
                for tensors in (inputs, outputs)
            )
        check_count(config, len(config["input"]), len(inputs))
        for role, known in (("input", inputs), ("output", outputs)):
            for each in config[role]:
                check_tensor(config, described=each, known=known, role=role, data_types=_TYPES.values())

    def execute(self, requests: Sequence[Any]) -> Any:
        batch = Batch(requests, self._size > 0)
        inputs = batch.inputs()
        if self._has_fixed_batch and (size := next(iter(inputs.values())).shape[0]) != self._size:
            if not self._pads:
                text = (
                    f"expected requests with batch size '{self._size}', got '{size}'... this error can be avoided by "
                    "setting 'ENABLE_BATCH_PADDING' parameter in model configuration to 'YES' at a performance cost."
                )
                return batch.failed(text, pb_utils.TritonError.INTERNAL)
            inputs = {name: _padded(array, self._size) for name, array in inputs.items()}
        try:
            found = self._request.infer(inputs, share_inputs=True, share_outputs=True)
        except RuntimeError as error:
            return batch.failed(_text("running inference", error), pb_utils.TritonError.INTERNAL)
        wanted = batch.wanted
        return batch.responses({name: found[self._ports[name]] for name in self._outputs if name in wanted})


def _read(core: Any, config: Mapping[str, Any]) -> Any:
    path = os.path.join(pb_utils.get_model_dir(), config.get("default_model_filename") or "model.xml")
    if not os.path.exists(path):
        raise BackendError(f"unable to find '{path}' for model '{config['name']}'", "Unavailable")
    return _call("reading network", core.read_model, path)


def _call(what: str, function: Any, *arguments: Any) -> Any:
    """Call OpenVINO. Raises BackendError with its refusal."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        raise BackendError(_text(what, error), "Internal") from None


def _text(what: str, error: Exception) -> str:
    return f"openVINO error in {what}: {error}"


def _padded(array: Any, size: int) -> Any:
    padding = [(0, size - array.shape[0]), *[(0, 0)] * (array.ndim - 1)]
    return np.pad(array, padding)


def _tensors(ports: Sequence[Any]) -> dict[str, ModelTensor]:
    found = {}
    for port in ports:
        shape = [int(dim.get_length()) if dim.is_static else -1 for dim in port.get_partial_shape()]
        data_type = _TYPES.get(port.get_element_type().get_type_name(), "TYPE_INVALID")
        found[_name(port)] = ModelTensor(_name(port), data_type, shape)
    return found


def _name(port: Any) -> str:
    return str(port.get_any_name() if port.get_names() else port.get_node().get_friendly_name())


# -- parameters


def _is_yes(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "").lower() == "yes"


def _properties(parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties with which OpenVINO compiles the model. Raises BackendError."""
    found: dict[str, Any] = {}
    for name in (*_NUMBERS, "NUM_STREAMS"):
        value = parameters.get(name, "").upper()
        is_word = name == "NUM_STREAMS" and value in ("AUTO", "NUMA")
        if value and not (value.isascii() and value.isdigit()) and not is_word:
            expected = "a non-negative number" + " or AUTO/NUMA" * (name == "NUM_STREAMS")
            raise BackendError(f"expected the parameter '{name}' to be {expected}, got {parameters[name]}")
        if value:
            found[name] = value if is_word else int(value)
    hint = parameters.get("PERFORMANCE_HINT", "").upper()
    if hint and hint not in ("LATENCY", "THROUGHPUT"):
        text = f"expected the parameter 'PERFORMANCE_HINT' to be LATENCY or THROUGHPUT, got {hint}"
        raise BackendError(text)
    if hint:
        found["PERFORMANCE_HINT"] = hint
    if _is_yes(parameters, "HINT_BF16"):
        found["INFERENCE_PRECISION_HINT"] = "bf16"
    return found
