"""The checks of a request's fields besides its inputs. They allow only values that a client can send, because code that
runs in a notebook must also run over the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ...core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ...core.status import InvalidArgumentError

_UINT64 = (1 << 64) - 1
_FLAGS = SEQUENCE_START | SEQUENCE_END
#: Parameters that a frontend interprets and does not pass on to the model, and the field with the same meaning for
#: programs.
OWN_FIELDS = {
    "sequence_id": "correlation_id=…",
    "sequence_start": "flags=1",
    "sequence_end": "flags=2",
    "priority": "priority=…",
    "timeout": "timeout=…",
}


def check_fields(request: InferenceRequest) -> None:
    """Raise InvalidArgumentError for fields that no client could have sent. Texts of a subclass of `str`, such as
    numpy's, become plain texts, since `serialization.pack_body` would write numpy's memory.
    """
    if not isinstance(request, InferenceRequest):
        raise InvalidArgumentError(f"a {type(request).__name__} is not a request: inputs={{…}} makes one from arrays")
    request.request_id = _text("request_id", request.request_id)
    _check_unsigned("timeout", request.timeout, _UINT64)
    _check_unsigned("priority", request.priority, _UINT64)
    _check_unsigned("flags", request.flags, _FLAGS)
    correlation_id = request.correlation_id
    if isinstance(correlation_id, str):
        request.correlation_id = _text("correlation_id", correlation_id)
    else:
        _check_unsigned("correlation_id", correlation_id, _UINT64)
    if request.requested_outputs.__class__ is str:
        _refuse("requested_outputs", request.requested_outputs, "a list of names")
    request.requested_outputs = tuple([_text("requested_outputs", name) for name in request.requested_outputs])
    if request.parameters is not None:
        _check_parameters(request.parameters)


def _check_parameters(parameters: Any) -> None:
    if not isinstance(parameters, Mapping):
        _refuse("parameters", parameters, "values by name")
    for key, value in parameters.items():
        _text("parameters", key)
        if key.startswith("triton_"):
            raise InvalidArgumentError(
                "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
            )
        if key in OWN_FIELDS:
            raise InvalidArgumentError(
                f"parameter '{key}' would not reach the model: a frontend takes it for a field of the request; "
                f"set {OWN_FIELDS[key]} instead"
            )
        if isinstance(value, str):
            _text(key, value)
        elif not isinstance(value, (bool, int, float)):
            raise InvalidArgumentError(
                f"parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'."
            )
        elif isinstance(value, int) and not -1 << 63 <= value < 1 << 63:  # a range would count to a subclass of int
            _refuse(key, value, "an integer of 64 bits")


def _check_unsigned(name: str, value: Any, most: int) -> None:
    if not isinstance(value, int) or not 0 <= value <= most:
        _refuse(name, value, f"an integer from 0 to {most}")


def _text(name: str, value: Any) -> str:
    """Return the text as a plain `str`."""
    if not isinstance(value, str):
        _refuse(name, value, "text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            _refuse(name, value, "text that is UTF-8")
    return str.__str__(value)


def _refuse(name: str, value: Any, expected: str) -> NoReturn:
    raise InvalidArgumentError(f"invalid value for '{name}', expected {expected}, got {value!r}")
