from __future__ import annotations

import asyncio
import gc
import json
import queue
import sys
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.serving import eventually, write_model
from tests.tritonserver.models import ECHO, ECHO_CONFIG, one_answer
from tritonlab.tritonserver import (
    AsyncResponseIterator,
    DataType,
    InferenceRequest,
    InferenceResponse,
    InternalError,
    InvalidArgumentError,
    MemoryType,
    Model,
    ModelTxnPropertyFlag,
    NotFoundError,
    ResponseIterator,
    Server,
    Tensor,
    TritonError,
    UnsupportedError,
)

FP16 = np.arange(100, dtype=np.float16).reshape(1, 100)
TEXT = [["fail"]]


@pytest.fixture(scope="module")
def stream(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """Load the same model, decoupled."""
    repository = tmp_path_factory.mktemp("decoupled")
    write_model(repository, "stream", ECHO, ECHO_CONFIG)
    server.register_model_repository(str(repository))
    model = server.load("stream")
    assert model.transaction_properties() is ModelTxnPropertyFlag.DECOUPLED
    yield model
    server.unload(model)


def received_fields(response: InferenceResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.outputs["REQUEST"].to_string_array()[0])
    return found


def equal(response: InferenceResponse, inputs: dict[str, Any]) -> bool:
    arrays: dict[str, NDArray[Any]] = {
        name: np.from_dlpack(response.outputs[name.replace("IN_", "OUT_")]) for name in inputs
    }
    return all(np.array_equal(arrays[name], value) for name, value in inputs.items())


# -- inputs and outputs


def test_arrays_and_lists(echo: Model) -> None:
    inputs = {"IN_FP16": FP16, "IN_BOOL": [[True, False]], "IN_INT64": [[1, 2, 3]], "IN_UINT8": np.uint8([[1]])}
    (response,) = echo.infer(inputs=inputs, output_memory_type="cpu")
    assert equal(response, inputs)
    assert isinstance(response, InferenceResponse) and response.final and response.error is None
    assert (response.classification_label, response.parameters, response.request_id) == (None, {}, "")
    output = response.outputs["OUT_FP16"]
    assert (output.data_type, list(output.shape), output.size) == (DataType.FP16, [1, 100], 200)
    assert output.memory_type is MemoryType.CPU and output.memory_buffer.owner is not None


def test_texts_in_all_their_forms(echo: Model) -> None:
    for texts in ([["hello"]], Tensor.from_string_array([["hello"]]), np.array([[b"hello"]], object)):
        (response,) = echo.infer(inputs={"IN_STRING": texts})
        assert response.outputs["OUT_STRING"].to_string_array().tolist() == [["hello"]]
        assert response.outputs["OUT_STRING"].to_bytes_array().tolist() == [[b"hello"]]
        assert response.outputs["OUT_STRING"].size == 9


def test_torch_tensors_and_those_of_a_response(echo: Model) -> None:
    torch = pytest.importorskip("torch")
    sent = torch.ones(2, 3)
    (response,) = echo.infer(inputs={"IN_FP32": sent})
    (again,) = echo.infer(inputs={"IN_FP32": response.outputs["OUT_FP32"]})
    assert torch.equal(torch.from_dlpack(again.outputs["OUT_FP32"]), sent)


@pytest.mark.rule("6.16.4")
def test_a_list_is_not_cast(echo: Model) -> None:
    with pytest.raises(InvalidArgumentError, match="data-type is 'INT64', but model 'echo' expects 'FP32'"):
        echo.infer(inputs={"IN_FP32": [[1, 2]]})


def test_memory_that_does_not_fit_its_shape(echo: Model) -> None:
    tensor = Tensor.from_dlpack(np.ones((1, 3), np.float32))
    tensor.shape = [1, 2]
    with pytest.raises(InvalidArgumentError, match="input byte size mismatch for input 'IN_FP32'"):
        echo.infer(inputs={"IN_FP32": tensor})
    tensor.shape, tensor.memory_buffer.size = [1, 1], 3
    with pytest.raises(InvalidArgumentError, match="Expected 4, got 3"):
        echo.infer(inputs={"IN_FP32": tensor})


@pytest.mark.parametrize("device", ["nowhere", "gpu"])
@pytest.mark.rule("6.16.5")
def test_outputs_that_cannot_be_where_they_are_wanted(echo: Model, device: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    iterator = echo.infer(inputs={"IN_FP16": FP16}, output_memory_type=device)
    with pytest.raises(InvalidArgumentError, match=f"Memory type {device} not supported: "):
        list(iterator)
    responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
    echo.infer(inputs={"IN_FP16": FP16}, output_memory_type=device, response_queue=responses)
    assert isinstance(responses.get(timeout=60).error, InvalidArgumentError)


# -- requests


@pytest.mark.rule("6.16.4")
def test_a_request_is_made_without_a_look_and_sent_again(server: Server, echo: Model) -> None:
    request = InferenceRequest(server.model("echo"), "first", inputs={"IN_INT64": np.array([[1]])})
    for number, value in enumerate([[[1]], [[2, 3]]]):
        request.inputs["IN_INT64"] = np.array(value)
        (response,) = echo.infer(request)
        assert equal(response, request.inputs) and received_fields(response)["id"] == "first", number
    assert (request.flags, request.correlation_id, request.priority, request.timeout) == (0, None, 0, 0)
    missing = server.model("missing").create_request(inputs={"X": object()}, model="ignored")
    assert missing.model.name == "missing"
    with pytest.raises(NotFoundError, match="Request for unknown model: 'missing' is not found"):
        server.model("missing").infer(missing)


def test_every_field_reaches_the_model(echo: Model) -> None:
    parameters = {"i": 0, "f": 0.5, "b": False, "s": "text"}
    (response,) = echo.infer(
        request_id="r", flags=3, correlation_id=2**63, timeout=5_000_000, inputs={}, parameters=parameters
    )
    assert received_fields(response) == {
        "id": "r", "flags": 3, "correlation": 2**63, "timeout": 5_000_000, "parameters": parameters
    }  # fmt: skip
    assert response.request_id == "r"
    (response,) = echo.infer(correlation_id="sequence")
    assert received_fields(response)["correlation"] == "sequence"


@pytest.mark.parametrize("value", [{"a": 1}, None, [1], np.float32(1), b"x"])
@pytest.mark.rule("6.16.4")
def test_a_value_that_no_parameter_has(echo: Model, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Unsupported Value\. Can't convert .* to Request Parameter"):
        echo.infer(parameters={"bad": value})


@pytest.mark.parametrize(
    "fields",
    [
        {"request_id": 1},
        {"priority": -1},
        {"priority": 1.5},
        {"timeout": -1},
        {"timeout": 2**64},
        {"flags": 2**32},
        {"flags": "start"},
        {"correlation_id": -1},
        {"correlation_id": 1.5},
        {"parameters": {1: "x"}},
        {"parameters": {"x": 2**63}},
        {"inputs": {1: FP16}},
    ],
)
@pytest.mark.rule("6.16.4")
def test_a_field_of_another_type(echo: Model, fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be"):
        echo.infer(**fields)


def test_inputs_in_another_form(echo: Model) -> None:
    for inputs in ({"IN": [1]}, "IN"):
        with pytest.raises(
            TypeError, match=r"inference_request must be an InferenceRequest, not .*; inputs go by inputs="
        ):
            echo.infer(inputs)  # type: ignore[arg-type]
    for inputs in (None, [1], "IN"):
        for name in ("inputs", "parameters"):
            with pytest.raises(TypeError, match=f"{name} must be a dict, not "):
                echo.infer(**{name: inputs})


def test_a_field_that_there_is_not(echo: Model) -> None:
    with pytest.raises(TypeError):
        echo.create_request(input={"IN_FP16": FP16})
    with pytest.raises(UnsupportedError, match="string correlation ID cannot be longer than 128 characters"):
        echo.infer(correlation_id="x" * 129)


# -- responses


@pytest.mark.rule("6.16.5")
def test_the_empty_final_response(stream: Model) -> None:
    first, last = stream.infer(request_id="r", inputs={"IN_FP16": FP16})
    assert (first.final, last.final, last.outputs, last.error, last.request_id) == (False, True, {}, None, "r")
    assert equal(first, {"IN_FP16": FP16})
    assert (first.model.name, first.model.version, stream.version) == ("stream", 1, -1)


@pytest.mark.rule("6.16.5")
def test_errors_are_raised_or_returned(echo: Model, stream: Model) -> None:
    for model in (echo, stream):
        iterator = model.infer(inputs={"IN_STRING": TEXT})
        with pytest.raises(InternalError, match="asked to fail") as caught:
            next(iterator)
        response = caught.value.args[1]
        assert isinstance(response, InferenceResponse) and response.error is caught.value
        assert "asked to fail" in str(caught.value) and "InferenceResponse" not in str(caught.value)
        with pytest.raises(StopIteration):
            next(iterator)
        response, *_ = model.infer(inputs={"IN_STRING": TEXT}, raise_on_error=False)
        assert isinstance(response.error, TritonError) and response.outputs == {}


def test_asyncio(echo: Model, stream: Model) -> None:
    async def send() -> None:
        (response,) = [each async for each in echo.async_infer(inputs={"IN_FP16": FP16})]
        assert equal(response, {"IN_FP16": FP16})
        assert [each.final async for each in stream.async_infer(inputs={"IN_FP16": FP16})] == [False, True]
        with pytest.raises(InternalError, match="asked to fail"):
            [each async for each in echo.async_infer(inputs={"IN_STRING": TEXT})]
        many = await asyncio.gather(*(_first(echo, number) for number in range(20)))
        assert many == list(range(20))
        with pytest.raises(InvalidArgumentError, match="expects 'FP32'"):
            echo.async_infer(inputs={"IN_FP32": FP16})

    asyncio.run(send())
    iterator = echo.async_infer(inputs={"IN_FP16": FP16})  # no loop yet

    async def read(iterator: AsyncResponseIterator) -> int:
        return len([each async for each in iterator])

    assert asyncio.run(read(iterator)) == 1


async def _first(model: Model, number: int) -> int:
    async for response in model.async_infer(inputs={"IN_INT64": [[number]]}):
        return int(np.from_dlpack(response.outputs["OUT_INT64"])[0, 0])
    raise AssertionError


def test_a_task_that_is_cancelled_while_it_waits(echo: Model) -> None:
    async def cancel_one() -> bool:
        while True:
            iterator = echo.async_infer(inputs={"IN_FP16": FP16})
            waiting = asyncio.ensure_future(anext(iterator))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            if waiting.cancelled():  # else the answer was quicker
                return (await anext(iterator)).final

    assert asyncio.run(cancel_one())


@pytest.mark.rule("6.16.5")
def test_a_queue_gets_the_responses_too(echo: Model, stream: Model) -> None:
    responses: queue.SimpleQueue[InferenceResponse] = queue.SimpleQueue()
    fields: dict[str, Any] = {"inputs": {"IN_FP16": FP16}, "response_queue": responses}
    iterators = [echo.infer(**fields), echo.infer(**fields), stream.infer(**fields)]
    came = [responses.get(timeout=60) for _ in range(4)]
    assert sorted(response.final for response in came) == [False, True, True, True]
    assert [len(list(iterator)) for iterator in iterators] == [1, 1, 2]
    assert responses.empty()


def test_a_queue_of_asyncio(echo: Model) -> None:
    async def send() -> None:
        responses: asyncio.Queue[InferenceResponse] = asyncio.Queue()
        iterators = [echo.async_infer(inputs={"IN_FP16": FP16}, response_queue=responses) for _ in range(2)]
        for _ in iterators:
            assert equal(await responses.get(), {"IN_FP16": FP16})
        for iterator in iterators:
            assert [equal(each, {"IN_FP16": FP16}) async for each in iterator] == [True]
        assert responses.empty()
        with pytest.raises(InvalidArgumentError, match=r"asyncio.Queue must be used for async response iterator"):
            echo.async_infer(response_queue=queue.SimpleQueue())

    asyncio.run(send())
    with pytest.raises(InvalidArgumentError, match=r"queue.SimpleQueue must be used for response iterator"):
        echo.infer(response_queue=asyncio.Queue())


def test_cancel(echo: Model) -> None:
    iterator = echo.infer(inputs={"IN_FP16": FP16})
    iterator.cancel()
    assert len(list(ResponseIterator.__iter__(iterator))) == 1


# -- memory


@pytest.mark.parametrize("read", [True, False])
def test_inputs_are_gone_with_their_last_user(echo: Model, read: bool) -> None:
    gc.collect()
    gc.disable()
    try:
        sent = np.ones((1, 1 << 12), np.float32)
        gone = weakref.ref(sent)
        iterator = echo.infer(inputs={"IN_FP32": sent})
        del sent
        if read:
            response = next(iterator)
            memory = weakref.ref(response.outputs["OUT_FP32"].memory_buffer.owner)
            array = np.from_dlpack(response.outputs["OUT_FP32"])
            del response
            assert array[0, 0] == 1 and memory() is not None
            del array
            assert memory() is None
        del iterator
        eventually(lambda: gone() is None)
    finally:
        gc.enable()


def test_a_long_loop_takes_no_memory(echo: Model) -> None:
    def send_some(times: int) -> None:
        for _ in range(times):
            inputs = {"IN_FP16": np.ones((1, 100), np.float16), "IN_BOOL": np.ones((1, 100), np.bool_)}
            for response in echo.infer(inputs=inputs, output_memory_type="cpu"):
                assert equal(response, inputs)

    send_some(50)
    gc.collect()
    tracemalloc.start()
    try:
        send_some(100)
        first, _ = tracemalloc.get_traced_memory()
        send_some(600)
        assert tracemalloc.get_traced_memory()[0] - first < 30_000
    finally:
        tracemalloc.stop()


def test_a_request_fails_with_its_model(server: Server) -> None:
    model = server.load("never_loaded", one_answer())
    request = model.create_request(inputs={"IN_FP16": FP16})
    server.unload("never_loaded", wait_until_unloaded=True, polling_interval=0.01)
    with pytest.raises(TritonError, match="Request for unknown model: 'never_loaded'"):
        model.infer(request)
