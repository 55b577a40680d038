"""The module that models import: `import triton_python_backend_utils as pb_utils`.

This file has the pure part: helpers, the ModelConfig of `auto_complete_config`, constants. Inside a stub the classes
(Tensor, InferenceRequest, InferenceResponse, ...) join it once `model.py` has been imported, as on Triton (rule
1.1.2); outside a stub only this part exists.
"""

from __future__ import annotations

import json
import struct
import typing as _t

import numpy as np

if __package__:  # in the server: tritonlab.stub.triton_python_backend_utils
    from ._pb_stub.wire import serialization as _serialization
else:  # in a stub: the directory is on sys.path
    from _pb_stub.wire import serialization as _serialization  # type: ignore[import-not-found,no-redef]

if _t.TYPE_CHECKING:
    from ._pb_stub.api.errors import TritonError as TritonError
    from ._pb_stub.api.errors import TritonModelException as TritonModelException
    from ._pb_stub.api.infer_request import InferenceRequest as InferenceRequest
    from ._pb_stub.api.infer_response import InferenceResponse as InferenceResponse
    from ._pb_stub.api.metric_family import MetricFamily as MetricFamily
    from ._pb_stub.api.model_loader import is_model_ready as is_model_ready
    from ._pb_stub.api.model_loader import load_model as load_model
    from ._pb_stub.api.model_loader import unload_model as unload_model
    from ._pb_stub.api.pb_log import Logger as Logger
    from ._pb_stub.api.pb_memory import PreferredMemory as PreferredMemory
    from ._pb_stub.api.pb_tensor import Tensor as Tensor
    from .c_python_backend_utils import TRITONSERVER_MEMORY_CPU as TRITONSERVER_MEMORY_CPU
    from .c_python_backend_utils import TRITONSERVER_MEMORY_GPU as TRITONSERVER_MEMORY_GPU
    from .c_python_backend_utils import get_model_dir as get_model_dir

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

#: The config's data types in numpy's terms; BF16 has none, and bool is Python's own (rule 1.2.2)
TRITON_STRING_TO_NUMPY: _t.Dict[str, _t.Any] = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}

_NUMPY_OF_DATATYPE: _t.Dict[int, _t.Any] = {
    1: np.bool_,
    2: np.uint8,
    3: np.uint16,
    4: np.uint32,
    5: np.uint64,
    6: np.int8,
    7: np.int16,
    8: np.int32,
    9: np.int64,
    10: np.float16,
    11: np.float32,
    12: np.float64,
    13: np.object_,
}


def serialize_byte_tensor(input_tensor: np.ndarray[_t.Any, _t.Any]) -> _t.Any:
    """Serialize the elements of an object or `S` array into `bytes`: each as a little-endian uint32 length and its
    bytes, in C order.

    Returns `()` for an array without elements, None for another dtype (rule 1.6.4).
    """
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.type != np.bytes_:
        return None
    return _serialization.encode_bytes_tensor(input_tensor)


def deserialize_bytes_tensor(encoded_tensor: _t.Any) -> np.ndarray[_t.Any, _t.Any]:
    """Return a 1-D object array of `bytes` from the output of serialize_byte_tensor.

    Raises struct.error if a length or an element is cut off.
    """
    if _is_flat(encoded_tensor):
        try:
            return _serialization.decode_bytes_tensor(encoded_tensor)
        except ValueError:
            pass  # struct has its own text for it
    return _unpacked(encoded_tensor)


def _is_flat(buffer: _t.Any) -> bool:
    """Return whether `buffer` is bytes or a contiguous buffer as long as its number of bytes."""
    if isinstance(buffer, (bytes, bytearray)):
        return True
    if not isinstance(buffer, (memoryview, np.ndarray)):
        return False
    view = memoryview(_t.cast("_t.Any", buffer))
    return view.ndim == 1 and view.itemsize == 1 and view.c_contiguous


def _unpacked(buffer: _t.Any) -> np.ndarray[_t.Any, _t.Any]:
    """Unpack the elements one by one, up to `len(buffer)`, which Triton takes for any buffer's bytes (rule 1.6.4)."""
    elements: _t.List[bytes] = []
    offset = 0
    while offset < len(buffer):
        (length,) = struct.unpack_from("<I", buffer, offset)
        elements += struct.unpack_from("<%ds" % length, buffer, offset + 4)
        offset += 4 + length
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array


def get_input_tensor_by_name(inference_request: _t.Any, name: str) -> _t.Union[Tensor, _t.Any]:
    """Return the first input of that name, or None."""
    # `Any`, not `None`, for type checkers: a model's configuration may require the tensor
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response: _t.Any, name: str) -> _t.Union[Tensor, _t.Any]:
    """Return the first output of that name, or None."""
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config: _t.Dict[str, _t.Any], name: str) -> _t.Optional[_t.Dict[str, _t.Any]]:
    """Return the entry of that name in the config's `input`, or None. `model_config` is
    `json.loads(args["model_config"])`."""
    return _entry(model_config, "input", name)


def get_output_config_by_name(model_config: _t.Dict[str, _t.Any], name: str) -> _t.Optional[_t.Dict[str, _t.Any]]:
    """Return the entry of that name in the config's `output`, or None. `model_config` is
    `json.loads(args["model_config"])`."""
    return _entry(model_config, "output", name)


def _entry(model_config: _t.Dict[str, _t.Any], key: str, name: str) -> _t.Optional[_t.Dict[str, _t.Any]]:
    # `in` and `[]`, not get(), which makes the errors for anything but a dict equal Triton's
    return _named(model_config[key] if key in model_config else [], name)  # noqa: SIM401


def _named(entries: _t.Iterable[_t.Dict[str, _t.Any]], name: str) -> _t.Optional[_t.Dict[str, _t.Any]]:
    """Return the first entry of that name. It is a loop, because the frame of a generator that raised has no caller."""
    for entry in entries:
        if entry["name"] == name:
            return entry
    return None


def using_decoupled_model_transaction_policy(model_config: _t.Dict[str, _t.Any]) -> bool:
    """Return whether the config makes the model decoupled. Raises KeyError for a transaction policy without
    `decoupled`."""
    if "model_transaction_policy" not in model_config:
        return False
    return model_config["model_transaction_policy"]["decoupled"]  # type: ignore[no-any-return]


def triton_to_numpy_type(data_type: int) -> _t.Any:
    """Return the numpy type of a datatype's number (1 BOOL ... 13 BYTES), or None."""
    # by comparison, as `data_type` may be an array or another object without a hash
    for number, numpy_type in _NUMPY_OF_DATATYPE.items():
        if data_type == number:
            return numpy_type
    return None


def numpy_to_triton_type(data_type: _t.Any) -> _t.Optional[int]:
    """Return the datatype's number of a numpy type or dtype, or None. Python's own types and the names of types have
    none."""
    for number, numpy_type in _NUMPY_OF_DATATYPE.items():
        if data_type == numpy_type:
            return number
    return 13 if data_type == np.bytes_ else None


def triton_string_to_numpy(triton_type_string: str) -> _t.Any:
    """Return the numpy type of a config's `data_type`, such as "TYPE_FP32". Raises KeyError for another word."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def _text(value: _t.Any) -> str:
    """Return `value`, a part of an error's text. Raises a concatenation's TypeError for other types (rule 1.17.6)."""
    return "" + value  # type: ignore[no-any-return]


class ModelConfig:
    """A model's configuration, which `auto_complete_config` gets, completes and returns.

    Every contradiction to the configuration file raises ValueError.
    """

    def __init__(self, model_config: str) -> None:
        """`model_config` is the configuration's JSON text."""
        self._model_config: _t.Dict[str, _t.Any] = json.loads(model_config)

    def as_dict(self) -> _t.Dict[str, _t.Any]:
        """Return the configuration itself, not a copy: changes to it reach the server."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Increase the maximum batch size. Raises ValueError if it is already larger."""
        current = self._model_config["max_batch_size"]
        if current > max_batch_size:
            raise ValueError(
                "configuration specified max_batch_size %s, but in auto-complete-config function for model '%s' "
                "specified max_batch_size %s" % (current, self._name, max_batch_size)
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Request the dynamic batcher. Raises ValueError if the configuration has another scheduler."""
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in self._model_config:
                raise ValueError(
                    "Configuration specified scheduling_choice as '%s', but auto-complete-config function for model "
                    "'%s' tries to set scheduling_choice as 'dynamic_batching'" % (other, self._name)
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: _t.Dict[str, _t.Any]) -> None:
        """Add an input, or complete the one of that name: `name`, `data_type`, `dims` and optionally `optional`.

        Raises ValueError if something is missing, unknown, or contradicts the configuration.
        """
        self._check_properties("input", input, ("name", "data_type", "dims", "optional"))
        existing = self._merge("input", input)
        if existing is None or "optional" not in input:
            return
        if "optional" in existing and existing["optional"] != input["optional"]:
            raise ValueError(
                "model '%s', tensor '%s': the model expects optional %s but the model configuration specifies "
                "optional %s" % (self._name, input["name"], input["optional"], existing["optional"])
            )
        existing["optional"] = input["optional"]

    def add_output(self, output: _t.Dict[str, _t.Any]) -> None:
        """Add an output, or complete the one of that name: `name`, `data_type` and `dims`.

        Raises ValueError if something is missing, unknown, or contradicts the configuration.
        """
        self._check_properties("output", output, ("name", "data_type", "dims"))
        self._merge("output", output)

    def set_model_transaction_policy(self, transaction_policy_dict: _t.Dict[str, _t.Any]) -> None:
        """Set `{"decoupled": bool}`. Raises ValueError for another key, or if the configuration has another value."""
        for key in transaction_policy_dict.keys():  # noqa: SIM118  # anything but a dict is refused here (rule 1.17.6)
            if key != "decoupled":
                raise ValueError(
                    "model transaction property in auto-complete-config function for model '%s' contains property "
                    "other than 'decoupled'." % self._name
                )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        if "decoupled" not in transaction_policy_dict:
            return
        wanted = transaction_policy_dict["decoupled"]
        if "decoupled" in policy and policy["decoupled"] != wanted:
            raise ValueError(
                "trying to change decoupled property in auto-complete-config for model '%s', which is already set "
                "to '%s'." % (self._name, policy["decoupled"])
            )
        policy["decoupled"] = wanted

    @property
    def _name(self) -> str:
        return str(self._model_config["name"])

    def _check_properties(self, kind: str, tensor: _t.Dict[str, _t.Any], allowed: _t.Sequence[str]) -> None:
        for key in tensor:
            if key not in allowed:
                # reads the name before checking it, as Triton does (rule 1.17.3)
                raise ValueError(
                    "%s '%s' in auto-complete-config function for model '%s' contains property other than %s and '%s'."
                    % (
                        kind,
                        _text(tensor["name"]),
                        self._name,
                        ", ".join("'%s'" % a for a in allowed[:-1]),
                        allowed[-1],
                    )
                )
        if "name" not in tensor:
            raise ValueError(
                "%s in auto-complete-config function for model '%s' is missing 'name' property." % (kind, self._name)
            )
        for key in ("data_type", "dims"):
            if key not in tensor:
                raise ValueError(
                    "%s '%s' in auto-complete-config function for model '%s' is missing '%s' property."
                    % (kind, _text(tensor["name"]), self._name, key)
                )

    def _merge(self, kind: str, tensor: _t.Dict[str, _t.Any]) -> _t.Optional[_t.Dict[str, _t.Any]]:
        """Complete the entry of that name and return it; without one, add `tensor` and return None."""
        entries = self._model_config[kind]
        existing = _named(entries, tensor["name"])
        if existing is None:
            entries.append(tensor)
            return None
        old_type, old_dims = existing["data_type"], existing["dims"]
        if old_type not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                "unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s"
                % (self._name, old_type, kind, _text(tensor["name"]), _text(tensor["data_type"]))
            )
        if old_dims and old_dims != tensor["dims"]:
            raise ValueError(
                "model '%s', tensor '%s': the model expects dims %s but the model configuration specifies dims %s"
                % (self._name, tensor["name"], tensor["dims"], old_dims)
            )
        existing["data_type"] = tensor["data_type"]
        existing["dims"] = tensor["dims"]
        return existing


del annotations  # a name that Triton's module lacks
