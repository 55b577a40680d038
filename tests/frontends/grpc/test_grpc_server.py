"""The gRPC frontend on a core without model processes: options, calls that block, and what is kept."""

from __future__ import annotations

import gc
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.serving import eventually
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError, InvalidArgumentError, NotFoundError, UnavailableError
from tritonlab.frontends.grpc.calls import GRPCCall
from tritonlab.frontends.grpc.grpc_server import GRPCServer
from tritonlab.frontends.shared.grpc_options import GRPCOptions
from tritonlab.frontends.shared.request_memory import RequestMemory
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.server.inference_server import InferenceServer

SECONDS = 10


class Core:
    """A core that answers each request as its id asks: `ok`, `error`, `twice`, `refused`, `raise`; `load` waits for
    `loaded`.
    """

    def __init__(self) -> None:
        self.loaded = threading.Event()
        self.tracer = SimpleNamespace(active=False)
        self.logged: list[Any] = []
        self.log = SimpleNamespace(add=self.logged.append)
        self.control = SimpleNamespace(load=self._load)

    def find(self, name: str, version: int) -> Any:
        if name == "nope":
            raise NotFoundError(f"Request for unknown model: '{name}' is not found")
        return SimpleNamespace(rules=SimpleNamespace(decoupled=False, max_batch_size=0), labels={})

    def infer(self, request: InferenceRequest, version: Any) -> None:
        answer = InferenceResponse(
            "m", 1, request.request_id, {"OUT": Tensor(DataType.INT8, (1,), np.zeros(1, np.int8))}
        )
        kind = request.request_id
        if kind == "refused":
            raise InvalidArgumentError("no")
        if kind == "raise":
            raise ValueError("a defect")
        if kind == "error":
            answer = InferenceResponse("m", 1, kind, error=InternalError("bad"))
        if kind == "twice":
            answer.final = False
            request.respond(answer)
            answer = InferenceResponse("m", 1, kind, outputs=answer.outputs)
        request.respond(answer)

    infer_here = infer

    def _load(self, name: str, config: Any, files: Any) -> None:
        assert self.loaded.wait(SECONDS)

    def live(self) -> bool:
        return True


Start = Callable[..., Any]


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def server(core: Core) -> Iterator[GRPCServer]:
    found = GRPCServer(cast(InferenceServer, core), SharedMemoryManager())
    yield found
    core.loaded.set()
    found.stop()


@pytest.fixture
def stub(server: GRPCServer) -> Iterator[Any]:
    with grpc.insecure_channel(f"127.0.0.1:{server.start('127.0.0.1', 0)}") as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(kind: str) -> Any:
    return service_pb2.ModelInferRequest(model_name="nope" if kind == "unknown" else "m", id=kind)


def outcome(stub: Any, kind: str) -> str:
    try:
        return str(stub.ModelInfer(request(kind), timeout=SECONDS).id)
    except grpc.RpcError as error:
        return str(error.details())


def streamed(stub: Any, *kinds: str) -> list[str]:
    messages = stub.ModelStreamInfer(map(request, kinds), timeout=SECONDS)
    return [message.error_message or message.infer_response.id for message in messages]


def test_outcomes(stub: Any) -> None:
    assert outcome(stub, "ok") == "ok"
    assert outcome(stub, "error") == "bad"
    assert outcome(stub, "refused") == "no"
    assert outcome(stub, "twice") == "expected a single response, got 2"
    assert outcome(stub, "unknown") == "Request for unknown model: 'nope' is not found"
    assert streamed(stub, "ok", "error", "refused", "twice") == ["ok", "bad", "no", "twice"]


def test_a_defect_of_ours_ends_its_call_alone(stub: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert outcome(stub, "raise") == "ValueError: a defect"
    with pytest.raises(grpc.RpcError, match="ValueError: a defect"):
        streamed(stub, "raise")
    assert outcome(stub, "ok") == "ok"
    caplog.clear()


def test_nothing_of_a_call_is_kept(stub: Any) -> None:
    """Not until the collector runs either: a request may hold many megabytes."""

    def remaining() -> list[object]:
        return [each for each in gc.get_objects() if issubclass(type(each), (GRPCCall, InferenceRequest))]

    gc.collect()
    gc.disable()
    before = remaining()  # by other tests, whose servers still run
    try:
        for kind in ("ok", "error", "refused", "twice", "unknown"):
            outcome(stub, kind)
            streamed(stub, kind, "ok")
        # the server hears of the last call's end after its client
        eventually(lambda: all(any(each is old for old in before) for each in remaining()))
    finally:
        gc.enable()


def test_a_load_holds_nobody_else_up(stub: Any, core: Core) -> None:
    load = stub.RepositoryModelLoad.future(service_pb2.RepositoryModelLoadRequest(model_name="m"), timeout=SECONDS)
    assert outcome(stub, "ok") == "ok"
    assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=SECONDS).live
    assert not load.done()
    core.loaded.set()
    load.result(SECONDS)


def test_a_port_in_use_is_tritons_error(server: GRPCServer, core: Core) -> None:
    port = server.start("127.0.0.1", 0)
    other = GRPCServer(cast(InferenceServer, core), SharedMemoryManager())
    with pytest.raises(UnavailableError, match=re.escape(f"Socket '127.0.0.1:{port}' already in use")):
        other.start("127.0.0.1", port)
    other.stop()


def test_any_address(core: Core) -> None:
    server = GRPCServer(cast(InferenceServer, core), SharedMemoryManager())
    port = server.start("::1", 0)
    with grpc.insecure_channel(f"[::1]:{port}") as channel:
        assert outcome(service_pb2_grpc.GRPCInferenceServiceStub(channel), "ok") == "ok"
    server.stop()


# -- large messages

MB = 1 << 20


@contextmanager
def bounded(core: Core, most: int) -> Iterator[Any]:
    """Yield a client of a server that limits messages to so many bytes."""
    server = GRPCServer(cast(InferenceServer, core), SharedMemoryManager(), memory=RequestMemory(most))
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.start('127.0.0.1', 0)}", options) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)
    server.stop()


def large(size: int, kind: str = "ok") -> Any:
    found = request(kind)
    sent = found.inputs.add(name="IN", datatype="UINT8")
    sent.shape.append(size)
    found.raw_input_contents.append(bytes(size))
    return found


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call(*arguments, timeout=SECONDS, **options)
    return raised.value.code().name, str(raised.value.details())


def test_a_message_that_is_too_large_is_refused(core: Core) -> None:
    with bounded(core, MB) as stub:
        assert stub.ModelInfer(large(MB // 2), timeout=SECONDS).id == "ok"
        code, text = refusal(stub.ModelInfer, large(2 * MB))
        assert code == "RESOURCE_EXHAUSTED" and re.search(rf"Received message larger than max \(\d+ vs. {MB}\)", text)
        assert outcome(stub, "ok") == "ok"


def test_a_message_that_becomes_too_large_is_refused(core: Core) -> None:
    """Compressed, 64 MB of zeros are 64 KB."""
    with bounded(core, MB) as stub:
        compressed = {"compression": grpc.Compression.Gzip}
        assert stub.ModelInfer(large(MB // 2), timeout=SECONDS, **compressed).id == "ok"
        code, text = refusal(stub.ModelInfer, large(64 * MB), **compressed)
        assert code == "RESOURCE_EXHAUSTED", text
        assert outcome(stub, "ok") == "ok"


def test_messages_of_requests_that_wait_are_bounded_together(core: Core) -> None:
    waiting: list[InferenceRequest] = []
    with bounded(core, MB) as stub:
        core.infer_here = core.infer = lambda request, version: waiting.append(request)  # type: ignore[method-assign]
        size = MB - 1000
        # they wait while others are refused, each in its own time
        calls = [stub.ModelInfer.future(large(size), timeout=4 * SECONDS) for _ in range(2)]
        eventually(lambda: len(waiting) == 2)
        code, text = refusal(stub.ModelInfer, large(size))
        assert code == "RESOURCE_EXHAUSTED" and "that they may take together" in text
        (answer,) = stub.ModelStreamInfer(iter([large(size, "7")]), timeout=SECONDS)
        assert "that they may take together" in answer.error_message and answer.infer_response.id == "7"
        del core.infer, core.infer_here
        for each in waiting:
            core.infer(each, None)
        assert [call.result(SECONDS).id for call in calls] == ["ok", "ok"]
        waiting.clear()
        for _ in range(3):
            assert stub.ModelInfer(large(size), timeout=SECONDS).id == "ok"
            (answer,) = stub.ModelStreamInfer(iter([large(size)]), timeout=SECONDS)
            assert answer.infer_response.id == "ok"


# -- options


def test_options_become_grpcs_own_words() -> None:
    arguments = dict(GRPCOptions().channel_arguments())
    assert arguments == {
        "grpc.max_send_message_length": -1,
        "grpc.so_reuseport": 0,
        "grpc.keepalive_time_ms": 7_200_000,
        "grpc.keepalive_timeout_ms": 20_000,
        "grpc.keepalive_permit_without_calls": 0,
        "grpc.http2.max_pings_without_data": 2,
        "grpc.http2.min_ping_interval_without_data_ms": 300_000,
        "grpc.http2.max_ping_strikes": 2,
    }
    changed = GRPCOptions(keepalive_time_ms=None, keepalive_permit_without_calls=True, max_connection_age_ms=5)
    found = dict(changed.channel_arguments())
    assert "grpc.keepalive_time_ms" not in found
    assert (found["grpc.keepalive_permit_without_calls"], found["grpc.max_connection_age_ms"]) == (1, 5)


def test_a_key_is_found_however_it_is_written(core: Core) -> None:
    options = GRPCOptions(restricted={"inference": ("Admin-Key", "secret")})
    server = GRPCServer(cast(InferenceServer, core), SharedMemoryManager(), options)
    with grpc.insecure_channel(f"127.0.0.1:{server.start('127.0.0.1', 0)}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        refused = "This protocol is restricted, expecting header 'triton-grpc-protocol-Admin-Key'"
        assert outcome(stub, "ok") == refused
        with pytest.raises(grpc.RpcError, match=refused):
            streamed(stub, "ok")
        metadata = [("triton-grpc-protocol-admin-key", "secret")]
        assert stub.ModelInfer(request("ok"), metadata=metadata, timeout=SECONDS).id == "ok"
    server.stop()


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (GRPCOptions(use_ssl=True), "--grpc-server-key"),
        (GRPCOptions(use_ssl=True, server_key=__file__, server_cert="/not/there"), "--grpc-server-cert"),
        (GRPCOptions(use_ssl_mutual=True, server_key=__file__, server_cert=__file__), "--grpc-root-cert"),
    ],
)
def test_certificates_that_cannot_be_read_are_named(core: Core, options: GRPCOptions, option: str) -> None:
    server = GRPCServer(cast(InferenceServer, core), SharedMemoryManager(), options)
    with pytest.raises(InvalidArgumentError, match=f"^{option}: "):
        server.start("127.0.0.1", 0)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_tls(core: Core, tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    options = GRPCOptions(use_ssl=True, server_key=str(key), server_cert=str(cert))
    server = GRPCServer(cast(InferenceServer, core), SharedMemoryManager(), options)
    place = f"localhost:{server.start('127.0.0.1', 0)}"
    with grpc.secure_channel(place, grpc.ssl_channel_credentials(cert.read_bytes())) as channel:
        assert outcome(service_pb2_grpc.GRPCInferenceServiceStub(channel), "ok") == "ok"
    server.stop()
