"""Checks of the arguments of `InferenceRequest(...)` like in Triton's compiled module: first all types, then the values
in its order.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Union

from .argument_check import CAST_ERROR, INT64_MAX, UINT32_MAX, UINT64_MAX, as_int, as_text, is_sequence, mismatch
from .errors import TritonModelException
from .parameters_text import encode_parameters
from .pb_memory import InferenceTrace, PreferredMemory
from .pb_tensor import Tensor

_SIGNATURE = (
    "c_python_backend_utils.InferenceRequest(request_id: str = '', correlation_id: object = 0, "
    "inputs: List[triton::backend::python::PbTensor], requested_output_names: List[str], model_name: str, "
    "model_version: int = -1, flags: int = 0, timeout: int = 0, "
    "preferred_memory: c_python_backend_utils.PreferredMemory = <unset>, "
    "trace: c_python_backend_utils.InferenceTrace = <empty>, parameters: object = None)"
)
#: Marks an argument that was not given, where None is an invalid value.
UNSET: Any = type("_Unset", (), {"__repr__": lambda self: "<unset>"})()

_DEFAULTS: Dict[str, Any] = {
    "request_id": "",
    "correlation_id": 0,
    "inputs": UNSET,
    "requested_output_names": UNSET,
    "model_name": UNSET,
    "model_version": -1,
    "flags": 0,
    "timeout": 0,
    "preferred_memory": UNSET,
    "trace": UNSET,
    "parameters": None,
}


class RequestArguments(NamedTuple):
    """The arguments of an InferenceRequest, in its types. `parameters` is JSON text."""

    request_id: str
    correlation_id: Union[int, str]
    inputs: List[Tensor]
    outputs: FrozenSet[str]
    model: str
    version: int
    flags: int
    timeout: int
    memory: Optional[PreferredMemory]
    trace: Optional[InferenceTrace]
    parameters: str


def checked_arguments(values: Dict[str, Any]) -> RequestArguments:
    """Check the arguments of the constructor, by name.

    Raises TypeError for arguments of another type, TritonModelException for an empty entry, another kind of correlation
    id or parameters that are not bool, int or str, RuntimeError for a correlation id outside 64 bits.
    """
    ident, model = _text(values["request_id"]), _text(values["model_name"])
    version = as_int(values["model_version"], -INT64_MAX - 1, INT64_MAX)
    flags = as_int(values["flags"], 0, UINT32_MAX)
    timeout = as_int(values["timeout"], 0, UINT64_MAX)
    names = _names(values["requested_output_names"])
    tensors = _tensors(values["inputs"])
    memory, trace = values["preferred_memory"], values["trace"]
    if (
        ident is None
        or model is None
        or version is None
        or flags is None
        or timeout is None
        or names is None
        or tensors is None
        or values["correlation_id"] is None
        or not isinstance(memory, (PreferredMemory, type(UNSET)))
        or not isinstance(trace, (InferenceTrace, type(UNSET)))
    ):
        passed = {name: values[name] for name, default in _DEFAULTS.items() if values[name] is not default}
        raise mismatch("__init__", _SIGNATURE, (), passed)
    parameters = encode_parameters(values["parameters"])
    correlation_id = _checked_correlation_id(values["correlation_id"])
    where = "for request with id '%s' and model name '%s' should not be empty." % (ident, model)
    if None in tensors:
        raise TritonModelException("Input tensor " + where)
    if "" in names:
        raise TritonModelException("Requested output name " + where)
    return RequestArguments(
        request_id=ident,
        correlation_id=correlation_id,
        inputs=tensors,
        outputs=frozenset(names),
        model=model,
        version=version,
        flags=flags,
        timeout=timeout,
        memory=None if memory is UNSET else memory,
        trace=None if trace is UNSET else trace,
        parameters=parameters,
    )


def _text(value: Any) -> Optional[str]:
    return value if type(value) is str and value.isascii() else as_text(value)


def _tensors(inputs: Any) -> Optional[List[Tensor]]:
    """Return the inputs as a list; None unless they are a sequence of tensors.

    A None among them is refused later, with another error.
    """
    if not is_sequence(inputs):
        return None
    tensors = [*inputs]
    return tensors if all(tensor is None or isinstance(tensor, Tensor) for tensor in tensors) else None


def _names(names: Any) -> Optional[Iterable[str]]:
    if not is_sequence(names):
        return None
    texts = [_text(name) for name in names]
    return None if None in texts else texts  # type: ignore[return-value]


def _checked_correlation_id(value: Any) -> Union[int, str]:
    if isinstance(value, str):
        text = _text(value)
        if text is None:
            raise RuntimeError(CAST_ERROR)
        return text
    if not isinstance(value, int):
        raise TritonModelException("Correlation ID must be integer or string")
    if not 0 <= value <= UINT64_MAX:
        raise RuntimeError(CAST_ERROR)
    return int(value)
