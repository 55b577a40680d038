from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritonlab.stub._pb_stub.api.errors import TritonError, TritonModelException
from tritonlab.stub._pb_stub.api.infer_response import InferenceResponse
from tritonlab.stub._pb_stub.api.pb_tensor import Tensor

A = Tensor("a", np.zeros(1))


@pytest.mark.rule("1.8.1", "1.8.3")
def test_an_empty_response() -> None:
    response = InferenceResponse()
    assert (response.output_tensors(), response.has_error(), response.error()) == ([], False, None)
    assert response.parameters() == "{}"


@pytest.mark.rule("1.8.1")
@pytest.mark.parametrize("tensors", [[A], (A,), np.array([A], dtype=object)])
def test_a_sequence_of_tensors(tensors: Any) -> None:
    assert InferenceResponse(tensors).output_tensors() == [A]
    assert InferenceResponse(output_tensors=tensors)._tensors == [A]


@pytest.mark.rule("1.8.1")
@pytest.mark.parametrize(
    "tensors", [None, A, [1], [A, 2], {A}, {A: 1}, "a", [[A]], iter([A]), np.zeros(2), np.int32(3)]
)
def test_anything_else_is_refused(tensors: Any) -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        InferenceResponse(tensors)


@pytest.mark.rule("1.8.1")
@pytest.mark.parametrize("error", ["x", 1, TritonModelException("x")])
def test_an_error_is_a_triton_error(error: Any) -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        InferenceResponse([], error)


@pytest.mark.rule("1.8.2")
@pytest.mark.parametrize("tensors", [[None], [A, None], (None,)])
def test_a_none_among_the_tensors_is_refused(tensors: Any) -> None:
    with pytest.raises(TritonModelException, match=r"^Output tensor for inference response should not be empty\.$"):
        InferenceResponse(tensors)
    with pytest.raises(TypeError):
        InferenceResponse(tensors, "x")  # type: ignore[arg-type]


@pytest.mark.rule("1.8.3", "1.8.4")
def test_the_error_stands_beside_the_tensors() -> None:
    error = TritonError("x", TritonError.NOT_FOUND)
    response = InferenceResponse([A], error, {"k": 1})
    assert response.has_error() and response.error() is error
    assert response.output_tensors() == [A]


@pytest.mark.rule("1.8.3")
def test_neither_the_callers_list_nor_the_returned_one_is_kept() -> None:
    outputs = [A]
    response = InferenceResponse(outputs)
    outputs.clear()
    response.output_tensors().clear()
    assert response.output_tensors() == [A]


@pytest.mark.rule("1.8.1", "1.7.5")
@pytest.mark.parametrize("parameters", [{"a": "\udc80"}, {"\ud800": 1}])
def test_parameters_that_no_client_could_get_are_refused(parameters: Any) -> None:
    """The client of a response that cannot be written would wait for ever."""
    with pytest.raises(UnicodeEncodeError):
        InferenceResponse([], None, parameters)


def test_parameters_become_json_text() -> None:
    assert InferenceResponse([], None, {"a": True, "b": "é"}).parameters() == '{"a": true, "b": "\\u00e9"}'
    assert InferenceResponse(parameters={}).parameters() == "{}"


@pytest.mark.rule("1.8.2", "1.7.2")
@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ([], "Expect N8pybind114dictE, got <class 'list'>"),
        ({1: 1}, "Expect parameters keys to have type str, found type <class 'int'>"),
        ({"a": 1.5}, "Expect parameters values to have type bool/int/str, found type <class 'float'>"),
        ({"a": None}, "Expect parameters values to have type bool/int/str, found type <class 'NoneType'>"),
    ],
)
def test_other_parameters_are_refused(parameters: Any, text: str) -> None:
    with pytest.raises(TritonModelException) as error:
        InferenceResponse([], None, parameters)
    assert str(error.value) == text


def test_a_subclass_of_tensor_is_one() -> None:
    class Own(Tensor):
        pass

    own = Own("a", np.zeros(1))
    assert InferenceResponse([own]).output_tensors() == [own]
