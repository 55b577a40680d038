from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tests.stub.fake_bridge import FakeBridge, FakeCall, refusal
from tritonlab.stub._pb_stub.api.enums import MemoryType
from tritonlab.stub._pb_stub.api.errors import TritonError, TritonModelException
from tritonlab.stub._pb_stub.api.infer_request import InferenceRequest
from tritonlab.stub._pb_stub.api.infer_response import InferenceResponse
from tritonlab.stub._pb_stub.api.pb_memory import InferenceTrace, PreferredMemory
from tritonlab.stub._pb_stub.api.pb_response_iterator import ResponseIterator
from tritonlab.stub._pb_stub.api.pb_tensor import Tensor

A = Tensor("a", np.zeros(1))


def built(**arguments: Any) -> InferenceRequest:
    return InferenceRequest(**{"inputs": [], "requested_output_names": [], "model_name": "m", **arguments})


def received(**fields: Any) -> InferenceRequest:
    values = {
        "handle": 7, "request_id": "r", "correlation_id": 0, "flags": 0, "timeout": 0, "parameters_json": "",
        "requested_output_names": frozenset({"o"}), "inputs": [A], "model_name": "m", "model_version": 1, **fields,
    }  # fmt: skip
    return InferenceRequest._received(**values)


# -- construction


@pytest.mark.rule("1.7.1", "1.7.5")
def test_defaults() -> None:
    request = built()
    assert (request.request_id(), request.correlation_id(), request.flags(), request.timeout()) == ("", 0, 0, 0)
    assert (request.inputs(), request.requested_output_names(), request.parameters()) == ([], set(), "{}")


@pytest.mark.rule("1.7.1")
def test_the_order_of_the_arguments() -> None:
    request = InferenceRequest("r", 3, [A], ["o"], "m", 2, 1, 5)
    assert request._bls_fields() == ("m", 2, "r", 3, 1, 5, ["o"], "", None, None)
    assert request.inputs() == [A]


@pytest.mark.rule("1.7.1")
@pytest.mark.parametrize("missing", ["inputs", "requested_output_names", "model_name"])
def test_three_arguments_are_required(missing: str) -> None:
    arguments: dict[str, Any] = {"inputs": [], "requested_output_names": [], "model_name": "m"}
    del arguments[missing]
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        InferenceRequest(**arguments)


@pytest.mark.rule("1.7.2", "1.7.3")
@pytest.mark.parametrize(
    "arguments",
    [
        {"inputs": [1]}, {"inputs": None}, {"inputs": {A}}, {"inputs": A}, {"inputs": iter([A])},
        {"requested_output_names": "ab"}, {"requested_output_names": [1]}, {"requested_output_names": {"a"}},
        {"flags": -1}, {"flags": 2**32}, {"flags": 1.0}, {"timeout": -1}, {"timeout": 2**64}, {"timeout": "1"},
        {"request_id": 1}, {"request_id": None}, {"model_name": None}, {"model_version": "1"}, {"model_version": 2**63},
        {"preferred_memory": None}, {"preferred_memory": 1}, {"trace": None}, {"trace": 1}, {"correlation_id": None},
        {"colour": 1},
    ],
)  # fmt: skip
def test_arguments_of_other_types_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        built(**arguments)


@pytest.mark.rule("1.7.2")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"inputs": [None]}, "Input tensor for request with id '7' and model name 'm' should not be empty."),
        (
            {"requested_output_names": ["a", ""]},
            "Requested output name for request with id '7' and model name 'm' should not be empty.",
        ),
        ({"correlation_id": 1.5}, "Correlation ID must be integer or string"),
        ({"correlation_id": np.int64(1)}, "Correlation ID must be integer or string"),
        ({"parameters": []}, "Expect N8pybind114dictE, got <class 'list'>"),
        # which check comes first was measured on Triton
        ({"parameters": [], "correlation_id": 1.5, "inputs": [None]}, "Expect N8pybind114dictE, got <class 'list'>"),
        ({"correlation_id": 1.5, "inputs": [None]}, "Correlation ID must be integer or string"),
        (
            {"inputs": [None], "requested_output_names": [""]},
            "Input tensor for request with id '7' and model name 'm' should not be empty.",
        ),
    ],
)
def test_values_that_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TritonModelException) as error:
        built(request_id="7", **arguments)
    assert str(error.value) == text


@pytest.mark.rule("1.7.2")
@pytest.mark.parametrize("correlation_id", [-1, 2**64])
def test_a_correlation_id_has_64_bits(correlation_id: int) -> None:
    with pytest.raises(RuntimeError, match=r"^Unable to cast Python instance to C\+\+ type"):
        built(correlation_id=correlation_id)
    assert built(correlation_id=2**64 - 1).correlation_id() == 2**64 - 1


@pytest.mark.rule("1.7.2")
def test_true_is_the_correlation_id_1() -> None:
    assert type(built(correlation_id=True).correlation_id()) is int
    assert built(correlation_id="s").correlation_id() == "s"


@pytest.mark.rule("1.7.3")
def test_output_names_become_a_set() -> None:
    assert built(requested_output_names=["a", "a", "b"]).requested_output_names() == {"a", "b"}


@pytest.mark.rule("1.7.5")
def test_parameters_of_a_built_request_are_json_with_spaces() -> None:
    assert built(parameters={"a": 1, "b": True}).parameters() == '{"a": 1, "b": true}'


@pytest.mark.rule("1.7.4")
def test_flags_can_be_changed_within_32_bits() -> None:
    request = built()
    request.set_flags(3)
    for wrong in (-1, 1.0, None):
        with pytest.raises(TypeError):
            request.set_flags(wrong)  # type: ignore[arg-type]
    assert request.flags() == 3


# -- received


@pytest.mark.rule("1.7.4", "1.7.6")
def test_a_received_request_gives_new_lists_and_sets() -> None:
    request = received()
    request.inputs().clear()
    request.requested_output_names().add("x")
    assert request.inputs() == [A]
    assert request.requested_output_names() == {"o"}


@pytest.mark.rule("1.7.5", "1.7.7", "1.7.8")
def test_a_received_request_says_what_the_client_sent() -> None:
    request = received(parameters_json='{"s":"v"}', correlation_id="seq", flags=3, timeout=500)
    assert request.parameters() == '{"s":"v"}'
    assert (request.correlation_id(), request.flags(), request.timeout()) == ("seq", 3, 500)
    assert received().parameters() == "{}"


@pytest.mark.rule("1.7.9")
def test_the_sender_is_made_once_and_only_if_it_is_needed(fake_bridge: FakeBridge) -> None:
    request = received(decoupled=True)
    assert request._sender is None
    sender = request.get_response_sender()
    assert request.get_response_sender() is sender is request._sender
    sender.send(InferenceResponse())
    sender.send(InferenceResponse())
    assert [handle for handle, _, _ in fake_bridge.sent] == [7, 7]


@pytest.mark.rule("1.7.9")
def test_the_sender_of_a_built_request_sends_nothing(fake_bridge: FakeBridge) -> None:
    with pytest.raises(TritonModelException, match="no reference to the decoupled state of the model"):
        built().get_response_sender().send(InferenceResponse())
    assert fake_bridge.sent == []


@pytest.mark.rule("1.7.10", "1.7.11")
def test_the_server_knows_of_cancellation(fake_bridge: FakeBridge) -> None:
    request = received()
    assert not request.is_cancelled()
    fake_bridge.cancelled.add(7)
    assert request.is_cancelled()
    with pytest.raises(TritonModelException, match="the model built this request itself"):
        built().is_cancelled()


@pytest.mark.rule("1.7.12")
def test_release_flags_are_kept_whatever_they_say() -> None:
    request = received()
    assert request._release_flags == 1
    request.set_release_flags(7)
    assert request._release_flags == 7
    with pytest.raises(TypeError):
        request.set_release_flags(-1)


@pytest.mark.rule("1.11.1")
def test_a_trace_is_handed_on() -> None:
    assert built().trace().get_context() is None
    trace = InferenceTrace._from_context('{"traceparent":"00"}', 7)
    request = built(trace=trace)
    assert request.trace() is trace
    assert request._bls_fields().trace == (7, '{"traceparent":"00"}')
    assert built(trace=built().trace())._bls_fields().trace is None


@pytest.mark.rule("1.12.1")
def test_preferred_memory_crosses_as_numbers() -> None:
    memory = PreferredMemory(MemoryType.TRITONSERVER_MEMORY_GPU, 3)
    assert built(preferred_memory=memory)._bls_fields().memory == [0, 3]


# -- BLS


@pytest.mark.rule("1.18.1")
@pytest.mark.parametrize("phase", ["import", "auto_complete", "construct", "initialize", "finalize", ""])
def test_bls_needs_execute(fake_bridge: FakeBridge, phase: str) -> None:
    fake_bridge.phase = phase
    with pytest.raises(TritonModelException, match=r"^BLS is only supported during the 'execute' function\.$"):
        built().exec()


@pytest.mark.rule("4.1.1")
def test_exec_gives_the_one_response(fake_bridge: FakeBridge) -> None:
    response = InferenceResponse()
    fake_bridge.bls = lambda request, decoupled: FakeCall([response])
    assert built().exec() is response


@pytest.mark.rule("4.1.1")
@pytest.mark.parametrize("decoupled", [True, 1, 2.0])
def test_a_decoupled_exec_gives_an_iterator(fake_bridge: FakeBridge, decoupled: Any) -> None:
    responses = [InferenceResponse(), InferenceResponse()]
    calls = []

    def bls(request: InferenceRequest, decoupled: bool) -> FakeCall:
        calls.append(decoupled)
        return FakeCall(responses)

    fake_bridge.bls = bls
    found = built().exec(decoupled)
    assert isinstance(found, ResponseIterator)
    assert list(found) == responses and calls == [True]


@pytest.mark.rule("4.1.1")
@pytest.mark.parametrize("decoupled", [None, "x", [1]])
def test_what_is_no_flag_is_refused(fake_bridge: FakeBridge, decoupled: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        built().exec(decoupled)


@pytest.mark.rule("4.2.1", "4.2.2")
def test_a_failure_before_the_run_is_an_answer(fake_bridge: FakeBridge) -> None:
    def bls(request: InferenceRequest, decoupled: bool) -> FakeCall:
        raise refusal("Model m - Error when running inference: no", 2)

    fake_bridge.bls = bls
    response = built().exec()
    assert isinstance(response, InferenceResponse)
    error = response.error()
    assert error is not None and response.output_tensors() == []
    assert (error.message(), error.code()) == ("Model m - Error when running inference: no", TritonError.NOT_FOUND)


@pytest.mark.rule("4.2.1")
def test_an_integer_parameter_beyond_64_bits_is_an_error_answer(fake_bridge: FakeBridge) -> None:
    response = built(model_name="dec", parameters={"a": 2**63}).exec()
    assert isinstance(response, InferenceResponse)
    error = response.error()
    assert error is not None
    assert error.message() == "Model dec - Error when running inference: Unsupported value type on parameters"
    fake_bridge.bls = lambda request, decoupled: FakeCall([InferenceResponse()])
    accepted = built(parameters={"a": -(2**63), "b": True, "c": "9" * 30}).exec()
    assert isinstance(accepted, InferenceResponse) and not accepted.has_error()


@pytest.mark.rule("4.2.3")
def test_an_iterator_delivers_the_failure_as_its_single_item(fake_bridge: FakeBridge) -> None:
    found = built(parameters={"a": 2**63}).exec(decoupled=True)
    assert isinstance(found, ResponseIterator)
    assert [response.has_error() for response in found] == [True]


@pytest.mark.rule("4.2.1")
def test_no_answer_at_all_is_an_error_answer(fake_bridge: FakeBridge) -> None:
    response = built().exec()
    assert isinstance(response, InferenceResponse)
    error = response.error()
    assert error is not None and error.message() == "Unexpected empty response."


@pytest.mark.rule("4.1.3")
def test_a_built_request_may_run_more_than_once(fake_bridge: FakeBridge) -> None:
    fake_bridge.bls = lambda request, decoupled: FakeCall([InferenceResponse()])
    request = built()
    assert request.exec() is not request.exec()


@pytest.mark.rule("1.7.13")
def test_async_exec_runs_in_the_loops_executor(fake_bridge: FakeBridge) -> None:
    responses = [InferenceResponse(), InferenceResponse()]
    remaining = list(responses)
    fake_bridge.bls = lambda request, decoupled: FakeCall([remaining.pop(0)])

    async def run() -> list[Any]:
        return [await built().async_exec(), await built().async_exec(decoupled=False)]

    assert asyncio.run(run()) == responses
    with pytest.raises(RuntimeError, match="no running event loop"):
        built().async_exec()
