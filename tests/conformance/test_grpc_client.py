"""tritonclient's own gRPC clients, unchanged, at both servers: sync, asyncio, streams, shared memory (rules 6.4.3, 6.7,
6.10, 6.12, 6.13)."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException, shared_memory

from .clients import Client
from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, config, model
from .rules import rule
from .scripts import eventually
from .test_grpc_infer import DECOUPLED, SENDER

BATCHED = """
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 1000 }
"""
MODELS = {
    "add_sub": model(ADD_SUB, ADD_SUB_CONFIG),
    "batched": model(ADD_SUB, ADD_SUB_CONFIG + BATCHED),
    "strings": model(ECHO, config("IN STRING -1", "IN STRING -1")),
    "echo": model(ECHO, config("IN FP32 -1", "IN FP32 -1")),
    "decoupled": model(SENDER, config("IN FP32 -1", "OUT FP32 -1", CPU, DECOUPLED)),
}
A, B = np.array([1, 2, 3, 4], np.float32), np.array([4, 3, 2, 1], np.float32)


@pytest.fixture(scope="module")
def api(grpc_address: str, client: Client) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(grpc_address) as found:
        yield found


def inputs(**arrays: Any) -> list[triton.InferInput]:
    made = []
    for name, array in arrays.items():
        datatype = "BYTES" if array.dtype == np.object_ else "FP32"
        made.append(triton.InferInput(name, array.shape, datatype))
        made[-1].set_data_from_numpy(array)
    return made


def pair(batch: bool = False) -> list[triton.InferInput]:
    a, b = (A[None], B[None]) if batch else (A, B)
    return inputs(INPUT0=a, INPUT1=b)


@rule("6.7.1", "6.12")
def test_the_client_does_what_it_does_with_triton(api: triton.InferenceServerClient) -> None:
    assert api.is_server_live()
    assert isinstance(api.is_server_ready(), bool)  # other modules' models decide which (rule 5.11.9)
    assert api.is_model_ready("add_sub")
    assert api.get_model_metadata("add_sub", as_json=True)["versions"] == ["1"]
    assert api.get_model_config("add_sub", as_json=True)["config"]["backend"] == "python"
    outputs = [triton.InferRequestedOutput("OUTPUT1"), triton.InferRequestedOutput("OUTPUT0")]
    found = api.infer("add_sub", pair(), outputs=outputs, request_id="7")
    assert found.get_response().id == "7"
    assert found.as_numpy("OUTPUT0").tolist() == [5, 5, 5, 5]
    assert found.as_numpy("OUTPUT1").tolist() == [-3, -1, 1, 3]

    def counted() -> bool:
        (statistics,) = api.get_inference_statistics("add_sub", as_json=True)["model_stats"]
        return int(statistics.get("inference_count", 0)) > 0

    eventually(counted)  # Triton counts when it has answered


@rule("6.7.1")
@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_requests_are_read(api: triton.InferenceServerClient, algorithm: str) -> None:
    big = np.zeros(100_000, np.float32)
    found = api.infer("echo", inputs(IN=big), compression_algorithm=algorithm)
    assert (found.as_numpy("IN") == big).all()


@rule("1.6.1", "6.7.1")
def test_strings(api: triton.InferenceServerClient) -> None:
    texts = np.array([b"a", b"", "\u00fc\U0001f600".encode(), b"\xff\x00"], np.object_)
    assert api.infer("strings", inputs(IN=texts)).as_numpy("IN").tolist() == texts.tolist()


@rule("6.6.1")
def test_classes(api: triton.InferenceServerClient) -> None:
    outputs = [triton.InferRequestedOutput("IN", class_count=2)]
    found = api.infer("echo", inputs(IN=A), outputs=outputs)
    assert found.as_numpy("IN").tolist() == [b"4.000000:3", b"3.000000:2"]


@rule("6.4.3")
def test_errors_carry_their_status(api: triton.InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException) as raised:
        api.infer("nope", pair())
    assert (raised.value.status(), raised.value.message()) == (
        "StatusCode.NOT_FOUND",
        "Request for unknown model: 'nope' is not found",
    )
    with pytest.raises(InferenceServerException, match='Parameter "priority" is a reserved parameter'):
        api.infer("add_sub", pair(), parameters={"priority": 1})


@rule("6.7.1", "5.5.1")
def test_many_in_flight_on_a_batching_model(api: triton.InferenceServerClient) -> None:
    done: SimpleQueue[Any] = SimpleQueue()
    for _ in range(100):
        api.async_infer("batched", pair(batch=True), lambda result, error: done.put((result, error)))
    for _ in range(100):
        result, error = done.get(timeout=20)
        assert error is None
        assert result.as_numpy("OUTPUT0").tolist() == [[5, 5, 5, 5]]


@rule("6.13.1", "3.7.5", "6.13.4")
def test_a_stream_of_the_client(api: triton.InferenceServerClient) -> None:
    answers: SimpleQueue[Any] = SimpleQueue()
    api.start_stream(lambda result, error: answers.put(error or result))
    api.async_stream_infer("nope", pair())
    error = answers.get(timeout=60)
    assert isinstance(error, InferenceServerException)
    assert "Request for unknown model: 'nope' is not found" in str(error)
    api.stop_stream()
    api.start_stream(lambda result, error: answers.put(error or result))
    found: dict[str, list[Any]] = {"3": [], "0": [], "2": []}
    for count in (3, 0, 2):  # one by one: 2.51 crashes now and then where they run at the same time
        sent = inputs(IN=np.array([count], np.float32))
        api.async_stream_infer("decoupled", sent, request_id=str(count), enable_empty_final_response=True)
        for _ in range(count + 1):
            reply = answers.get(timeout=60).get_response()
            found[reply.id].append((len(reply.outputs), reply.parameters["triton_final_response"].bool_param))
    data, final = (1, False), (0, True)
    assert found == {"3": [data, data, data, final], "0": [final], "2": [data, data, final]}
    api.stop_stream()


def forgotten(api: triton.InferenceServerClient) -> bool:
    """Unregister all regions, and return whether none is left. Triton does not forget them while one is in use,
    which it is a moment longer than its request."""
    with contextlib.suppress(InferenceServerException):
        api.unregister_system_shared_memory()
    return not api.get_system_shared_memory_status().regions


@rule("6.10.2", "6.10.4")
def test_shared_memory_of_the_client(api: triton.InferenceServerClient) -> None:
    name = f"/tritonlab_test_{uuid.uuid4().hex}"
    handle = shared_memory.create_shared_memory_region("mine", name, 32)
    try:
        shared_memory.set_shared_memory_region(handle, [A])
        api.register_system_shared_memory("mine", name, 32)
        assert set(api.get_system_shared_memory_status().regions) == {"mine"}
        sent = triton.InferInput("IN", [4], "FP32")
        sent.set_shared_memory("mine", 16)
        wanted = triton.InferRequestedOutput("IN")
        wanted.set_shared_memory("mine", 16, offset=16)
        api.infer("echo", [sent], outputs=[wanted])
        assert shared_memory.get_contents_as_numpy(handle, np.float32, [4], offset=16).tolist() == A.tolist()
        eventually(lambda: forgotten(api))
    finally:
        shared_memory.destroy_shared_memory_region(handle)


@rule("6.7.1", "6.13.1")
def test_asyncio(grpc_address: str, client: Client) -> None:
    async def main() -> list[Any]:
        async with triton_aio.InferenceServerClient(grpc_address) as api:
            assert await api.is_server_live()
            many = await asyncio.gather(*(api.infer("add_sub", pair()) for _ in range(20)))

            async def requests() -> Any:
                yield {"model_name": "decoupled", "inputs": inputs(IN=np.array([3], np.float32))}

            streamed = []
            async for result, error in api.stream_infer(requests()):
                assert error is None
                streamed.append(float(result.as_numpy("OUT")[0]))
            with pytest.raises(InferenceServerException, match="is not found"):
                await api.infer("nope", pair())
            return [[m.as_numpy("OUTPUT0").tolist() for m in many], sorted(streamed)]

    sums, streamed = asyncio.run(main())
    assert sums == [[5, 5, 5, 5]] * 20
    assert streamed == [0, 1, 2]


@rule("6.7.1")
def test_large_tensors_come_back_as_they_went(api: triton.InferenceServerClient) -> None:
    big = np.arange(16 << 18, dtype=np.float32)  # 16 MB
    assert (api.infer("echo", inputs(IN=big)).as_numpy("IN") == big).all()
