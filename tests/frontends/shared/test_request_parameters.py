from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.rules import rule
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import InvalidArgumentError, TritonError
from tritonlab.frontends.shared.request_parameters import check_forwarded, set_parameters


class Plain:
    """A codec of values that are Python's already."""

    def correlation_id(self, value: Any) -> int | str:
        assert isinstance(value, (int, str))
        return value

    def boolean(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InvalidArgumentError(f"{key} is no bool")
        return value

    def unsigned(self, key: str, value: Any) -> int:
        assert isinstance(value, int)
        return value

    def reserved(self, key: str, value: Any) -> None:
        if key != "triton_known":
            raise InvalidArgumentError(f"{key} is reserved")

    def other(self, key: str, value: Any) -> Any:
        return value


@rule("6.4.1")
def test_what_has_a_meaning_becomes_a_field_and_the_rest_is_for_the_model() -> None:
    request = InferenceRequest("m", {})
    parameters = {
        "sequence_id": "s",
        "sequence_start": True,
        "sequence_end": True,
        "priority": 2,
        "timeout": 30,
        "triton_known": 1,
        "own": 1.5,
    }
    set_parameters(request, parameters, Plain())
    assert (request.correlation_id, request.flags, request.priority, request.timeout) == ("s", 3, 2, 30)
    assert request.parameters == {"own": 1.5}


@rule("6.4.1")
def test_a_request_without_own_parameters_has_none() -> None:
    request = InferenceRequest("m", {})
    set_parameters(request, {"sequence_start": False, "sequence_end": True}, Plain())
    assert (request.flags, request.parameters) == (2, None)


def test_the_first_wrong_value_is_the_error() -> None:
    request = InferenceRequest("m", {})
    with pytest.raises(TritonError, match="sequence_end is no bool"):
        set_parameters(request, {"sequence_end": 1, "triton_x": 1}, Plain())
    with pytest.raises(TritonError, match="triton_x is reserved"):
        set_parameters(request, {"triton_x": 1, "sequence_end": 1}, Plain())


@rule("6.14")
@pytest.mark.parametrize("header", ["sequence_id", "Timeout", "headers", "triton_x", "Triton_Enable"])
def test_a_header_may_not_be_forwarded_as_what_is_tritons(header: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        check_forwarded(header)
    assert raised.value.message == f"Header '{header}' is reserved for Triton usage and cannot be forwarded."
    check_forwarded("x-tenant")
