"""The parameters of a request, sorted for every frontend: those with a meaning of their own, and the rest
(rule 6.4).

A frontend provides a `ParameterValues`, which reads the values of its protocol and has the texts of its errors. The
texts differ between HTTP and gRPC, the meaning does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, RequestSpec
from ...core.inference.infer_response import ParameterValue
from ...core.inference.request_rules import check_correlation_id
from ...core.status import InvalidArgumentError

#: Keys with this beginning are Triton's own: a client may send only those that its protocol names.
RESERVED_PREFIX = "triton_"
#: Other names that a forwarded header must not have (rule 6.14).
_RESERVED = frozenset(
    {"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"}
)


class ParameterValues(Protocol):
    """The parameter values of one protocol. Each method raises TritonError, in Triton's words, for a wrong type."""

    def correlation_id(self, value: Any) -> int | str: ...

    def boolean(self, key: str, value: Any) -> bool: ...

    def unsigned(self, key: str, value: Any) -> int: ...

    def reserved(self, key: str, value: Any) -> None:
        """Handle a key that begins with RESERVED_PREFIX; most are refused."""

    def other(self, key: str, value: Any) -> ParameterValue:
        """Return the value for the model."""


def set_parameters(request: RequestSpec, parameters: Mapping[str, Any], values: ParameterValues) -> None:
    """Set the fields of `request` that the parameters name, in their order; parameters without a meaning of their own
    go to `request.parameters`."""
    others: dict[str, ParameterValue] = {}
    for key, value in parameters.items():
        field = _FIELDS.get(key)
        if field is not None:
            field(request, key, value, values)
        elif key.startswith(RESERVED_PREFIX):
            values.reserved(key, value)
        else:
            others[key] = values.other(key, value)
    if others:
        request.parameters = {**(request.parameters or {}), **others}


def check_forwarded(header: str) -> None:
    """Refuse to forward a header whose name is reserved for Triton (rule 6.14)."""
    name = header.lower()
    if name in _RESERVED or name.startswith(RESERVED_PREFIX):
        raise InvalidArgumentError(f"Header '{header}' is reserved for Triton usage and cannot be forwarded.")


def _set_correlation_id(request: RequestSpec, key: str, value: Any, values: ParameterValues) -> None:
    correlation_id = values.correlation_id(value)
    check_correlation_id(correlation_id)  # before the parameters after it, as Triton does
    request.correlation_id = correlation_id


def _set_flag(flag: int) -> Callable[[RequestSpec, str, Any, ParameterValues], None]:
    def set_flag(request: RequestSpec, key: str, value: Any, values: ParameterValues) -> None:
        if values.boolean(key, value):
            request.flags |= flag

    return set_flag


def _set_priority(request: RequestSpec, key: str, value: Any, values: ParameterValues) -> None:
    request.priority = values.unsigned(key, value)


def _set_timeout(request: RequestSpec, key: str, value: Any, values: ParameterValues) -> None:
    request.timeout = values.unsigned(key, value)


_FIELDS: dict[str, Callable[[RequestSpec, str, Any, ParameterValues], None]] = {
    "sequence_id": _set_correlation_id,
    "sequence_start": _set_flag(SEQUENCE_START),
    "sequence_end": _set_flag(SEQUENCE_END),
    "priority": _set_priority,
    "timeout": _set_timeout,
}
