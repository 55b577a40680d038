"""tritonclient.http and tritonclient.http.aio, unchanged, against both servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, SCRIPTED, config, model
from .raw_http import RawHTTP
from .rules import rule
from .scripts import TENSORS, code

MODELS = {
    "add_sub": model(ADD_SUB, ADD_SUB_CONFIG),
    "words": model(ECHO, config("IN STRING -1", "IN STRING -1", "max_batch_size: 4", CPU)),
    "script": model(SCRIPTED, config(*TENSORS)),
}
A = np.arange(4, dtype=np.float32)
B = np.ones(4, dtype=np.float32)


@pytest.fixture(scope="module")
def address(http: RawHTTP) -> str:
    return http.address


@pytest.fixture
def server(address: str) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(address, concurrency=4) as client:
        yield client


def inputs(binary: bool = True) -> list[triton.InferInput]:
    made = [triton.InferInput(name, [4], "FP32") for name in ("INPUT0", "INPUT1")]
    for tensor, array in zip(made, (A, B), strict=True):
        tensor.set_data_from_numpy(array, binary_data=binary)
    return made


def output(**options: Any) -> list[triton.InferRequestedOutput]:
    return [triton.InferRequestedOutput("OUTPUT0", **options)]


@rule("6.3.1", "6.5.1")
@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_infer(server: triton.InferenceServerClient, binary_in: bool, binary_out: bool) -> None:
    outputs = [*output(binary_data=binary_out), triton.InferRequestedOutput("OUTPUT1", binary_data=not binary_out)]
    result = server.infer("add_sub", inputs(binary_in), outputs=outputs, request_id="r1", model_version="1")
    assert result.as_numpy("OUTPUT0").tolist() == (A + B).tolist()
    assert result.as_numpy("OUTPUT1").tolist() == (A - B).tolist()
    assert result.get_response()["id"] == "r1"
    assert server.infer("add_sub", inputs(binary_in)).as_numpy("OUTPUT1").tolist() == (A - B).tolist()


@rule("6.3.1")
def test_many_at_once(server: triton.InferenceServerClient) -> None:
    pending = [server.async_infer("add_sub", inputs()) for _ in range(20)]
    assert [p.get_result().as_numpy("OUTPUT0").tolist() for p in pending] == [(A + B).tolist()] * 20


@rule("6.5.4")
@pytest.mark.parametrize("binary", [True, False])
def test_words(server: triton.InferenceServerClient, binary: bool) -> None:
    words = np.array([["a", "é"], ["", "b c"]], dtype=object)
    tensor = triton.InferInput("IN", [2, 2], "BYTES")
    tensor.set_data_from_numpy(words, binary_data=binary)
    result = server.infer("words", [tensor], outputs=[triton.InferRequestedOutput("IN", binary_data=binary)])
    expected = np.array([word.encode() if binary else word for word in words.ravel()], dtype=object).reshape(2, 2)
    assert result.as_numpy("IN").tolist() == expected.tolist()


@rule("6.3.6")
@pytest.mark.parametrize("way", ["gzip", "deflate"])
def test_compressed_both_ways(server: triton.InferenceServerClient, way: str) -> None:
    result = server.infer("add_sub", inputs(), request_compression_algorithm=way, response_compression_algorithm=way)
    assert result.as_numpy("OUTPUT0").tolist() == (A + B).tolist()


@rule("6.6.1")
def test_classes(server: triton.InferenceServerClient) -> None:
    result = server.infer("add_sub", inputs(), outputs=output(class_count=2))
    assert result.as_numpy("OUTPUT0").tolist() == [b"4.000000:3", b"3.000000:2"]


@rule("6.3.3", "3.6")
def test_errors(server: triton.InferenceServerClient) -> None:
    def failed(call: Callable[[], Any]) -> tuple[str, str]:
        with pytest.raises(InferenceServerException) as raised:
            call()
        return raised.value.status(), raised.value.message()

    assert failed(lambda: server.infer("nobody", inputs())) == (
        "404",
        "Request for unknown model: 'nobody' is not found",
    )
    assert failed(lambda: server.infer("add_sub", inputs()[:1]))[0] == "400"
    script = triton.InferInput("CODE", [1], "BYTES")
    script.set_data_from_numpy(np.array([code("return [R(error=E('no', E.UNAVAILABLE))]").encode()], dtype=object))
    assert failed(lambda: server.infer("script", [script])) == ("503", "no")
    assert failed(lambda: server.load_model("nobody")) == (
        "500",
        "failed to load 'nobody', failed to poll from model repository",
    )
    assert failed(lambda: server.get_inference_statistics("nobody"))[0] == "400"


@rule("6.10.2", "6.10.3", "6.10.4")
def test_shared_memory(server: triton.InferenceServerClient) -> None:
    region = shm.create_shared_memory_region("region", "/tritonlab_http_clients", 64)
    try:
        shm.set_shared_memory_region(region, [A, B])
        server.register_system_shared_memory("region", "/tritonlab_http_clients", 64)
        assert [entry["name"] for entry in server.get_system_shared_memory_status()] == ["region"]
        tensors = inputs()
        for number, tensor in enumerate(tensors):
            tensor.set_shared_memory("region", 16, offset=16 * number)
        outputs = output()
        outputs[0].set_shared_memory("region", 16, offset=32)
        result = server.infer("add_sub", tensors, outputs=outputs)
        assert result.get_output("OUTPUT0") == {"name": "OUTPUT0", "datatype": "FP32", "shape": [4]}
        assert shm.get_contents_as_numpy(region, np.float32, [4], offset=32).tolist() == (A + B).tolist()
        server.unregister_system_shared_memory("region")
        assert server.get_system_shared_memory_status() == []
    finally:
        shm.destroy_shared_memory_region(region)


@rule("5.11.3", "5.11.5")
def test_a_model_is_loaded_from_the_client(server: triton.InferenceServerClient) -> None:
    config = json.dumps({"backend": "python", "max_batch_size": 2, "output": [
        {"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}
    ], "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}]})  # fmt: skip
    server.load_model("from_client", config=config, files={"file:1/model.py": ECHO.encode()})
    assert server.is_model_ready("from_client")
    assert server.get_model_config("from_client")["max_batch_size"] == 2
    tensor = triton.InferInput("IN", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[7]], np.int32))
    assert server.infer("from_client", [tensor]).as_numpy("IN").tolist() == [[7]]
    server.unload_model("from_client")
    assert "add_sub" in {entry["name"] for entry in server.get_model_repository_index()}


@rule("6.1", "5.12.1", "5.14.1", "5.14.3")
def test_documents_and_settings(server: triton.InferenceServerClient) -> None:
    assert server.is_server_live()
    assert server.get_server_metadata()["name"] == "triton"
    assert server.get_model_metadata("add_sub", "1")["versions"] == ["1"]
    assert server.get_inference_statistics("add_sub")["model_stats"][0]["name"] == "add_sub"
    assert server.update_trace_settings("add_sub", {"trace_rate": "5"})["trace_rate"] == "5"
    assert server.update_trace_settings("add_sub", {"trace_rate": None})["trace_rate"] == "1000"
    assert server.update_log_settings({"log_verbose_level": 0})["log_verbose_level"] == 0
    assert server.get_cuda_shared_memory_status() == []


@rule("6.3.1", "6.1")
def test_asyncio(address: str) -> None:
    async def infer_all() -> list[Any]:
        async with triton_aio.InferenceServerClient(address) as server:
            assert await server.is_server_live()
            assert (await server.get_model_metadata("add_sub"))["name"] == "add_sub"
            with pytest.raises(InferenceServerException, match="unknown model: 'nobody'"):
                await server.infer("nobody", inputs())
            requests: list[Awaitable[Any]] = [server.infer("add_sub", inputs()) for _ in range(10)]
            return [result.as_numpy("OUTPUT0").tolist() for result in await asyncio.gather(*requests)]

    assert asyncio.run(infer_all()) == [(A + B).tolist()] * 10
