"""The trace of a gRPC request, with Triton's names in Triton's order (rule 5.14.4; measured on 2.51)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from tests.frontends.traced import CONFIG, TRACED, moments, untraced
from tests.serving import Lab, lab
from tritonlab.core.observe.trace_settings import TraceSetting
from tritonlab.frontends.grpc import infer_handler
from tritonlab.frontends.grpc.grpc_server import GRPCServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

__all__ = ["lab", "untraced"]


@pytest.fixture(scope="module")
def client(lab: Lab) -> Iterator[tritonclient.grpc.InferenceServerClient]:
    lab.load("grpc_traced", TRACED, CONFIG)
    server = GRPCServer(lab.server.core, SharedMemoryManager())
    port = server.start("127.0.0.1", 0)
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client
    server.stop()
    lab.server.unload("grpc_traced")


def infer(client: tritonclient.grpc.InferenceServerClient, dtype: type = np.int32, **headers: str) -> str:
    tensor = tritonclient.grpc.InferInput("IN", [1], "INT32" if dtype is np.int32 else "FP32")
    tensor.set_data_from_numpy(np.array([1], dtype))
    return str(client.infer("grpc_traced", [tensor], headers=headers).as_numpy("OUT")[0].decode())


@pytest.mark.parametrize("much", [infer_handler._MUCH, 0], ids=["small", "much"])
def test_moments_of_grpc(
    lab: Lab,
    client: tritonclient.grpc.InferenceServerClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    much: int,
) -> None:
    monkeypatch.setattr(infer_handler, "_MUCH", much)
    lab.server.trace_settings.start(TraceSetting(("TIMESTAMPS",), 1, log_frequency=1, file=str(tmp_path / "t")))
    with pytest.raises(InferenceServerException):
        infer(client, np.float32)
    assert infer(client) == "None"
    found = moments(tmp_path / "t.0")
    assert [moment["name"] for moment in found] == [
        "REQUEST_START",
        "QUEUE_START",
        "COMPUTE_START",
        "COMPUTE_INPUT_END",
        "COMPUTE_OUTPUT_START",
        "COMPUTE_END",
        "REQUEST_END",
        "GRPC_WAITREAD_START",
        "GRPC_WAITREAD_END",
        "INFER_RESPONSE_COMPLETE",
        "GRPC_SEND_START",
        "GRPC_SEND_END",
    ]
    times = [moment["ns"] for moment in found[-5:]]
    assert times == sorted(times)


def test_a_clients_own_trace_goes_on_whatever_the_rate(
    lab: Lab, client: tritonclient.grpc.InferenceServerClient
) -> None:
    lab.server.trace_settings.start(TraceSetting(("TIMESTAMPS",), 1000, mode="opentelemetry"))
    assert infer(client) == "None"
    sent = f"00-{'a' * 32}-{'b' * 16}-01"
    context = json.loads(infer(client, traceparent=sent))
    assert context["traceparent"].startswith(f"00-{'a' * 32}-")
    assert context["traceparent"] != sent


def test_an_answer_with_much_data(
    client: tritonclient.grpc.InferenceServerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infer_handler, "_MUCH", 0)
    assert infer(client) == "None"
    with pytest.raises(InferenceServerException, match="data-type"):
        infer(client, np.float32)
