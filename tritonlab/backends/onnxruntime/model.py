"""ONNX models, run by ONNX Runtime as Triton's compiled `onnxruntime` backend runs them (section 2.14 of the rule
book).

Written after the public sources of onnxruntime_backend (02ffb9e) and its README. The server that tritonlab is measured
against has no such backend, so no text here is proved against it. Two differences are on purpose: the features that
`refuse_unsupported` refuses, and the thread pool of `enable-global-threadpool`, which is per instance, as each instance
is a process.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils
from tritonlab_backend import (
    BackendError,
    Batch,
    bracketed,
    dims_of,
    parameters_of,
    refuse_unsupported,
    server_settings,
    to_boolean,
    to_integer,
)
from tritonlab_signature import ModelTensor, check_count, check_tensor, complete

#: ONNX Runtime's names for the types that Triton's backend takes. It refuses all others, BF16 and complex among them.
_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
}
_KINDS = {"seq": "SEQUENCE", "map": "MAP", "sparse_tensor": "SPARSETENSOR", "optional": "UNKNOWN"}
#: The levels of optimization.graph.level, according to the backend's README.
_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
#: The form in which ONNX Runtime's Python package writes the C API's code and text.
_ORT_ERROR = re.compile(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", re.DOTALL)


class TritonPythonModel:
    """One instance of a model: its own session."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        config = auto_complete_model_config.as_dict()
        if (config["input"] or config.get("batch_input")) and config["output"]:
            return auto_complete_model_config
        session = _session(config, config["name"], "CPU")
        inputs, outputs = (list(_tensors(nodes).values()) for nodes in (session.get_inputs(), session.get_outputs()))
        can_batch = all(tensor.shape and tensor.shape[0] == -1 for tensor in (*inputs, *outputs))
        if config["max_batch_size"] and not can_batch:
            text = "model does not support batching while non-zero max_batch_size is specified"
            raise BackendError(f"autofill failed for model '{config['name']}': {text}")
        complete(auto_complete_model_config, inputs, outputs, can_batch=can_batch)
        return auto_complete_model_config

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        self._batches = config["max_batch_size"] > 0
        refuse_unsupported(config)
        self._session = _session(config, args["model_instance_name"], args["model_instance_kind"])
        inputs, outputs = _tensors(self._session.get_inputs()), _tensors(self._session.get_outputs())
        initializers = _tensors(self._session.get_overridable_initializers())
        _check_inputs(config, inputs, initializers)
        for each in config["output"]:
            check_tensor(config, described=each, known=outputs, role="output", data_types=_TYPES.values())
        self._inputs = {**inputs, **initializers}
        self._strings = {name for name, each in self._inputs.items() if each.data_type == "TYPE_STRING"}
        self._outputs = [each["name"] for each in config["output"]]
        #: the configured shape of each output that is a scalar in the model
        self._scalars = {each["name"]: dims_of(each) for each in config["output"] if not outputs[each["name"]].shape}
        self._run_options = _run_options(parameters_of(config))

    def execute(self, requests: Sequence[Any]) -> Any:
        batch = Batch(requests, self._batches)
        wanted = batch.wanted
        names = [name for name in self._outputs if name in wanted]
        try:
            feeds = {name: self._fed(name, array) for name, array in batch.inputs().items()}
            found = self._session.run(names, feeds, self._run_options) if names else []
        except _TextError as error:
            return batch.failed(str(error), pb_utils.TritonError.INVALID_ARG)
        except Exception as error:  # ONNX Runtime has a class per code, without a common base
            return batch.failed(_ort_text(error), pb_utils.TritonError.INTERNAL)
        return batch.responses({name: self._sent(name, each) for name, each in zip(names, found, strict=True)})

    def _fed(self, name: str, array: Any) -> Any:
        """Return an input in the form for ONNX Runtime."""
        if name in self._strings:
            array = _texts(name, array)
        tensor = self._inputs.get(name)
        return array.reshape(()) if tensor is not None and not tensor.shape else array

    def _sent(self, name: str, array: Any) -> Any:
        """Return an output in the form of the config."""
        if not array.shape:
            array = array.reshape(self._scalars.get(name) or (1,))
        return array.astype(object) if array.dtype.kind in "US" else array


# -- the session


def _session(config: Mapping[str, Any], instance: str, kind: str) -> Any:
    path = os.path.join(pb_utils.get_model_dir(), config.get("default_model_filename") or "model.onnx")
    if os.path.isdir(path):
        path = os.path.join(path, "model.onnx")
    if not os.path.exists(path):
        raise BackendError(f"unable to find '{path}' for model instance '{instance}'", "Unavailable")
    options = _session_options(config)
    providers = _providers(config, kind)
    try:
        for library in config.get("model_operations", {}).get("op_library_filename", ()):
            options.register_custom_ops_library(library)
        return onnxruntime.InferenceSession(path, options, providers=providers)
    except Exception as error:
        raise BackendError(_ort_text(error), "Internal") from None


def _session_options(config: Mapping[str, Any]) -> Any:
    parameters, options = parameters_of(config), onnxruntime.SessionOptions()
    level = config.get("optimization", {}).get("graph", {}).get("level", 0)
    options.graph_optimization_level = _LEVELS.get(level, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    mode = to_integer(parameters.get("execution_mode", "0"))
    if mode not in (0, 1):
        text = f"Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got {mode} ."
        raise BackendError(text)
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL if mode else options.execution_mode
    settings = server_settings()
    has_pool = to_boolean(settings.get("enable-global-threadpool", "false"))
    for name, field in (
        ("intra_op_thread_count", "intra_op_num_threads"),
        ("inter_op_thread_count", "inter_op_num_threads"),
    ):
        # the server's settings count the threads of the shared pool; the model's settings have no effect then
        if (count := to_integer((settings if has_pool else parameters).get(name, "0"))) > 0:
            setattr(options, field, count)
    for name, field in (("enable_mem_arena", "enable_cpu_mem_arena"), ("enable_mem_pattern", "enable_mem_pattern")):
        if name in parameters:
            setattr(options, field, to_boolean(parameters[name]))
    # Other processes need the cores while this one waits: with threads that spin after a run, three small layers took 3
    # times as long on two busy cores (2026-11-25, 1.4 against 0.4 ms at best; tests.benchmarks.backends)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Triton's instances may share a session; here each is a process of its own
    to_boolean(parameters.get("share_session_between_instances", "false"))
    entry = "session.use_device_allocator_for_initializers"
    if entry in parameters:
        options.add_session_config_entry(entry, parameters[entry])
    return options


def _run_options(parameters: Mapping[str, str]) -> Any:
    entry = "memory.enable_memory_arena_shrinkage"
    if entry not in parameters:
        return None
    options = onnxruntime.RunOptions()
    options.add_run_config_entry(entry, parameters[entry])
    return options


def _providers(config: Mapping[str, Any], kind: str) -> list[Any]:
    """Return the execution providers of an instance, the preferred first. As in Triton, GPU providers apply only to
    instances on a GPU."""
    accelerators = config.get("optimization", {}).get("execution_accelerators", {})
    available = onnxruntime.get_available_providers()
    found: list[Any] = []
    if kind == "GPU":
        cuda: dict[str, str] = {}
        for each in accelerators.get("gpu_execution_accelerator", ()):
            if each["name"] == "cuda":
                cuda = each.get("parameters", {})
            elif each["name"] == "tensorrt" and "TensorrtExecutionProvider" in available:
                found.append(("TensorrtExecutionProvider", _tensorrt_options(each.get("parameters", {}))))
            else:
                raise _unknown_accelerator(each["name"])
        if "CUDAExecutionProvider" not in available:
            raise BackendError(
                f"model '{config['name']}' has an instance on a GPU, and the onnxruntime installed here has no "
                "CUDAExecutionProvider: install onnxruntime-gpu, or use KIND_CPU",
                "Unsupported",
            )
        found.append(("CUDAExecutionProvider", cuda))
    for each in accelerators.get("cpu_execution_accelerator", ()):
        if each["name"] != "openvino" or "OpenVINOExecutionProvider" not in available:
            raise _unknown_accelerator(each["name"])
        found.append(("OpenVINOExecutionProvider", {"device_type": "CPU"}))
    return [*found, "CPUExecutionProvider"]


def _tensorrt_options(parameters: Mapping[str, str]) -> dict[str, str]:
    options = {}
    for key, value in parameters.items():
        if key == "precision_mode":
            if value not in ("FP32", "FP16", "BF16", "INT8"):
                raise BackendError(f"unsupported precision mode '{value}' is requested")
            if value != "FP32":
                options[f"trt_{value.lower()}_enable"] = "1"
        elif key == "max_workspace_size_bytes":
            options["trt_max_workspace_size"] = value
        else:
            options[key if key.startswith("trt_") else f"trt_{key}"] = value
    return options


def _unknown_accelerator(name: str) -> BackendError:
    return BackendError(f"unknown Execution Accelerator '{name}' is requested")


# -- the configuration


def _check_inputs(
    config: Mapping[str, Any], inputs: Mapping[str, ModelTensor], initializers: Mapping[str, ModelTensor]
) -> None:
    model, batches = config["name"], config["max_batch_size"] > 0
    controls = _controls(config)
    for name, data_type in controls:
        _check_control(model, name, data_type=data_type, tensor=inputs.get(name), batches=batches)
    check_count(config, sum(not each.get("optional") for each in config["input"]) + len(controls), len(inputs))
    known = {**inputs, **initializers}
    for each in config["input"]:
        if each.get("optional") and batches:
            raise BackendError(
                f"unable to load model '{model}', optional input '{each['name']}' is not supported for models that "
                "support batching",
            )
        check_tensor(config, described=each, known=known, role="input", data_types=_TYPES.values())


def _controls(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name and the data type of each control input of the sequence batcher."""
    found = []
    for each in config.get("sequence_batching", {}).get("control_input", ()):
        for control in each["control"]:
            data_type = control.get("data_type", "TYPE_INVALID")
            for field in ("int32", "fp32", "bool"):
                data_type = f"TYPE_{field.upper()}" if control.get(f"{field}_false_true") else data_type
            found.append((each["name"], data_type))
    return found


def _check_control(model: str, name: str, data_type: str, tensor: ModelTensor | None, batches: bool) -> None:
    if tensor is None:
        text = f"configuration specified sequence control '{name}', but model does not provide that input"
        raise BackendError(text, "Internal")
    shape = tensor.shape[1:] if batches else tensor.shape
    of_control = f"unable to load model '{model}', sequence control '{name}'"
    if shape != [1]:
        text = f"{of_control} in model has dims {bracketed(shape)} but dims [1] is expected"
        raise BackendError(text)
    if data_type != tensor.data_type:
        provided = tensor.data_type.removeprefix("TYPE_").replace("FP32", "FLOAT").replace("FP64", "DOUBLE")
        text = (
            f"{of_control}, the model expects data-type {provided} but the model configuration specifies data-type "
            f"{data_type}"
        )
        raise BackendError(text)


# -- helpers


def _tensors(nodes: Sequence[Any]) -> dict[str, ModelTensor]:
    """Return the inputs or outputs of a session by their names. Raises BackendError if one is not a tensor."""
    return {node.name: ModelTensor(node.name, _data_type(node), _shape(node)) for node in nodes}


def _shape(node: Any) -> list[int]:
    return [dim if isinstance(dim, int) else -1 for dim in node.shape]


def _data_type(node: Any) -> str:
    """Return the type in the form of a config; TYPE_INVALID if Triton does not take it."""
    kind = node.type.partition("(")[0]
    if kind != "tensor":
        text = f"Unsupported ONNX Type 'ONNX_TYPE_{_KINDS.get(kind, 'UNKNOWN')}' for I/O '{node.name}', expected "
        raise BackendError(f"{text}'ONNX_TYPE_TENSOR'.", "Unsupported")
    return _TYPES.get(node.type, "TYPE_INVALID")


class _TextError(Exception):
    """A string that ONNX Runtime's Python package does not accept."""


def _texts(name: str, array: Any) -> Any:
    """Return the bytes of a BYTES input as text for ONNX Runtime. Each element ends at its first NUL, as in Triton's
    backend, which passes C strings. Raises _TextError."""
    texts = np.empty(array.shape, dtype=object)
    for index, element in np.ndenumerate(array):
        try:
            texts[index] = element.partition(b"\0")[0].decode()
        except UnicodeDecodeError as error:
            text = f"element {list(index)} of input '{name}' is not UTF-8, which onnxruntime's Python package requires"
            raise _TextError(f"{text}: {error}") from None
    return texts


def _ort_text(error: Exception) -> str:
    """Return the text of an ONNX Runtime error in the words of Triton's backend."""
    found = _ORT_ERROR.search(str(error))
    return f"onnx runtime error {found[1]}: {found[2]}" if found else f"onnx runtime error 1: {error}"
