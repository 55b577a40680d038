"""The author's InferenceResponse: a result of `execute` for a request, or the answer of a BLS call."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

from .argument_check import is_sequence, mismatch
from .errors import NativeObject, TritonError, TritonModelException
from .parameters_text import encode_parameters
from .pb_tensor import Tensor

_SIGNATURE = (
    "c_python_backend_utils.InferenceResponse(output_tensors: List[c_python_backend_utils.Tensor] = [], "
    "error: c_python_backend_utils.TritonError = None, parameters: object = None)"
)
_new = object.__new__


class InferenceResponse(NativeObject):
    """The answer to one request: output tensors, or an error, and parameters. May be kept and sent again."""

    __slots__ = ("_error", "_parameters", "_tensors")

    def __init__(
        self,
        output_tensors: Sequence[Tensor] = (),
        error: Optional[TritonError] = None,
        parameters: Optional[Dict[str, Union[bool, int, str]]] = None,
    ) -> None:
        """Make a response. With an `error` the client gets its code and text, but no tensors or parameters.

        Outputs need not match the model configuration: unknown ones are dropped, missing ones are absent. Raises
        TypeError for arguments of another type; TritonModelException for a None among the tensors, or for parameters
        that are not bool, int or str.
        """
        for tensor in output_tensors if type(output_tensors) is list else (None,):
            if type(tensor) is not Tensor:
                _check_tensors(output_tensors, error, parameters)
                break
        if error is not None and not isinstance(error, TritonError):
            raise _mismatch(output_tensors, error, parameters)
        self._tensors: List[Tensor] = [*output_tensors]
        self._error = error
        self._parameters = "" if parameters is None else encode_parameters(parameters)

    @classmethod
    def _received(cls, tensors: List[Tensor], error: Optional[TritonError], parameters_json: str) -> InferenceResponse:
        """Make a response that came from the server for a BLS request."""
        self: InferenceResponse = _new(cls)
        self._tensors = tensors
        self._error = error
        self._parameters = parameters_json
        return self

    def output_tensors(self) -> List[Tensor]:
        """Return the output tensors, a new list on each call."""
        return self._tensors.copy()

    def has_error(self) -> bool:
        """Return whether this response is an error."""
        return self._error is not None

    def error(self) -> Union[TritonError, Any]:
        """Return the error, or None."""
        # `Any`, not `None`, for type checkers: callers check has_error() first
        return self._error

    def parameters(self) -> str:
        """Return the parameters as JSON text, `{}` if there are none."""
        return self._parameters or "{}"


def _check_tensors(tensors: Any, error: Any, parameters: Any) -> None:
    if not is_sequence(tensors):
        raise _mismatch(tensors, error, parameters)
    missing = False
    for tensor in tensors:
        if tensor is None:
            missing = True
        elif not isinstance(tensor, Tensor):
            raise _mismatch(tensors, error, parameters)
    # a wrong type is reported first: the binding checks types before the constructor runs
    if missing and (error is None or isinstance(error, TritonError)):
        raise TritonModelException("Output tensor for inference response should not be empty.")


def _is_empty_tuple(value: Any) -> bool:
    # `value != ()` would fail for an array, which authors pass instead of a list of tensors
    return isinstance(value, tuple) and not value


def _mismatch(tensors: Any, error: Any, parameters: Any) -> TypeError:
    named = {"output_tensors": tensors, "error": error, "parameters": parameters}
    passed = {name: value for name, value in named.items() if value is not None and not _is_empty_tuple(value)}
    return mismatch("__init__", _SIGNATURE, (), passed)
