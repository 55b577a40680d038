"""What a server's flags do to gRPC: restricted protocols and forwarded headers (rules 6.1.3, 6.14)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import RepositoryIndexRequest

import tritonlab
from tritonlab.frontends.grpc.grpc_server import GRPCServer
from tritonlab.frontends.shared.grpc_options import GRPCOptions
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

from .grpc_messages import PAIR, Rpc, answer, message, ok, tensor
from .models import ECHO, PARAMETERS, config, model
from .reference import ReferenceServer, missing
from .rules import rule

MODELS = {
    "parameters": model(PARAMETERS, config("IN FP32 -1", "OUT STRING 1")),
    "echo": model(ECHO, config("IN FP32 -1", "IN FP32 -1")),
}
#: Category -> its RPCs. Each category gets a key of its own name, of the value `secret`; inference is free.
CATEGORIES = {
    "health": ["ServerLive", "ServerReady", "ModelReady"],
    "metadata": ["ServerMetadata", "ModelMetadata"],
    "model-config": ["ModelConfig"],
    "model-repository": ["RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"],
    "shared-memory": [f"{k}SharedMemory{v}" for k in ("System", "Cuda") for v in ("Status", "Register", "Unregister")],
    "statistics": ["ModelStatistics"],
    "trace": ["TraceSetting"],
    "logging": ["LogSettings"],
}
FORWARDED = "my-.*"
FLAGS = [
    "--model-control-mode=none",
    f"--grpc-header-forward-pattern={FORWARDED}",
    "--grpc-infer-response-compression-level=high",
    *(f"--grpc-restricted-protocol={category}:{category}=secret" for category in CATEGORIES),
]
OPTIONS = GRPCOptions(
    header_forward_pattern=FORWARDED,
    compression="high",
    restricted={category: (category, "secret") for category in CATEGORIES},
)


@pytest.fixture(scope="module", params=["real", "lab"])
def rpc(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rpc]:
    """Start a server with those flags, and load MODELS."""
    repository = tmp_path_factory.mktemp(f"options_{request.param}")
    for name, files in MODELS.items():
        for path, text in files.items():
            (repository / name / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / name / path).write_text(str(text))
    if request.param == "real":
        if (why := missing()) is not None:
            pytest.skip(why)
        with ReferenceServer(repository, tmp_path_factory.mktemp("tritonserver"), FLAGS) as server:
            yield from connected(server.grpc)
    else:
        with tritonlab.Server(repository) as lab:
            frontend = GRPCServer(lab.core, SharedMemoryManager(allowed=True), OPTIONS)
            yield from connected(f"127.0.0.1:{frontend.start('127.0.0.1', 0)}")
            frontend.stop()


def connected(address: str) -> Iterator[Rpc]:
    with grpc.insecure_channel(address) as channel:
        yield Rpc(channel)


def infer(rpc: Rpc, request: Any, metadata: Sequence[tuple[str, str]]) -> Any:
    return answer(lambda sent, timeout: rpc.stub.ModelInfer(sent, timeout=timeout, metadata=metadata), request)


@rule("6.1.3")
@pytest.mark.parametrize(("category", "method"), [(c, m) for c, methods in CATEGORIES.items() for m in methods])
def test_a_restricted_protocol_wants_its_header(rpc: Rpc, category: str, method: str) -> None:
    refused = ("UNAVAILABLE", f"This protocol is restricted, expecting header 'triton-grpc-protocol-{category}'")
    assert rpc(method) == refused


@rule("6.1.3")
def test_whoever_knows_the_key_may_pass(rpc: Rpc) -> None:
    def index(*metadata: tuple[str, str]) -> Any:
        try:
            return rpc.stub.RepositoryIndex(RepositoryIndexRequest(), metadata=metadata, timeout=10)
        except grpc.RpcError as error:
            return error.code().name

    key = "triton-grpc-protocol-model-repository"
    assert len(index((key, "secret")).models) == 2
    assert index((key, "wrong")) == index(("model-repository", "secret")) == "UNAVAILABLE"
    assert rpc.raw("/grpc.health.v1.Health/Check", b"")[0] == "UNAVAILABLE"
    ok(rpc.infer("echo", [tensor()], [PAIR]))
    assert len(rpc.stream([message("echo", [tensor()], [PAIR])])) == 1


@rule("6.14")
def test_headers_that_match_somewhere_become_parameters(rpc: Rpc) -> None:
    headers = [("my-a", "1"), ("x-my-b", "2"), ("amy-", "3"), ("other", "4")]
    found = ok(infer(rpc, message("parameters", [tensor()], [PAIR], own=1), headers))
    seen = json.loads(found.raw_output_contents[0][4:])
    assert seen == {"own": 1, "my-a": "1", "x-my-b": "2", "amy-": "3"}


@rule("6.14")
def test_headers_are_forwarded_on_streams(rpc: Rpc) -> None:
    (found,) = rpc.stream([message("parameters", [tensor()], [PAIR])], [("my-a", "1")])
    assert json.loads(found.infer_response.raw_output_contents[0][4:]) == {"my-a": "1"}


@rule("6.7.1")
def test_compressed_responses_are_the_same(rpc: Rpc) -> None:
    data = np.zeros(50_000, np.float32).tobytes()
    request = message("echo", [tensor(shape=[50_000])], [data])
    assert ok(rpc("ModelInfer", request)).raw_output_contents[0] == data
    (found,) = rpc.stream([request])
    assert found.infer_response.raw_output_contents[0] == data
