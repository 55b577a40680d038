"""`tritonlab serve` beside Triton: two servers, each a process of its own, and the same client code for both.

Each function takes the two servers and returns (ours, real) as the medians of rounds that take turns.
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tritonclient.grpc
import tritonclient.http

from tests.conformance.models import ADD_SUB, ADD_SUB_CONFIG, config
from tests.conformance.reference import ROOT, ReferenceServer, free_ports
from tests.models import executes

from .measuring import (
    BATCHING_CONFIG,
    IDENTITY,
    IDENTITY_CONFIG,
    REPEAT,
    REPEAT_CONFIG,
    A,
    B,
    Flow,
    in_turn,
    place,
    stream_reader,
    timed,
)

#: Answers with the median time of N `exec` calls to add_sub, in seconds.
BLS = executes(
    """
    responses = []
    for request in requests:
        times = []
        for _ in range(int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])):
            a, b = (pb_utils.Tensor(name, np.ones(4, np.float32)) for name in ("INPUT0", "INPUT1"))
            call = pb_utils.InferenceRequest(
                model_name="add_sub", requested_output_names=["OUTPUT0"], inputs=[a, b]
            )
            started = time.perf_counter()
            answer = call.exec()
            times.append(time.perf_counter() - started)
            assert not answer.has_error()
        out = np.array([np.median(times)], np.float64)
        responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
    return responses
    """,
    imports="import time",
)

MODELS = {
    "add_sub": (ADD_SUB, ADD_SUB_CONFIG),
    "add_sub_batch": (ADD_SUB, BATCHING_CONFIG),
    "identity": (IDENTITY, IDENTITY_CONFIG),
    "repeat": (REPEAT, REPEAT_CONFIG),
    "bls": (BLS, config("IN INT32 1", "OUT FP64 1")),
}
START_SECONDS = 30


class Endpoint(Protocol):
    """A server with models; addresses are host:port."""

    repository: Path
    http: str
    grpc: str


class LabServer:
    """`tritonlab serve` as a process of its own."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        repository.mkdir(exist_ok=True)
        http, grpc, metrics = free_ports(3)
        self.http, self.grpc = f"127.0.0.1:{http}", f"127.0.0.1:{grpc}"
        ports = [f"--http-port={http}", f"--grpc-port={grpc}", f"--metrics-port={metrics}"]
        models = [f"--model-repository={repository}", "--model-control-mode=explicit"]
        command = [sys.executable, "-m", "tritonlab", "serve", *models, *ports]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self._process.pid

    def __enter__(self) -> LabServer:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.http}/v2/health/ready", timeout=5):
                    return self
            except urllib.error.URLError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait(30)


class Pair:
    """Both servers, with MODELS loaded."""

    def __init__(self, ours: LabServer, real: ReferenceServer) -> None:
        self._sides: tuple[Endpoint, Endpoint] = (ours, real)
        for side in self._sides:
            with tritonclient.http.InferenceServerClient(side.http, network_timeout=60) as client:
                for name, (source, text) in MODELS.items():
                    place(side.repository, name, source, text)
                    client.load_model(name)

    def over_http(self, measure: Callable[[Any], Callable[[], float]]) -> tuple[float, float]:
        options = {"network_timeout": 120, "connection_timeout": 120}
        return self._compare([tritonclient.http.InferenceServerClient(s.http, **options) for s in self._sides], measure)

    def over_grpc(self, measure: Callable[[Any], Callable[[], float]]) -> tuple[float, float]:
        return self._compare([tritonclient.grpc.InferenceServerClient(s.grpc) for s in self._sides], measure)

    @staticmethod
    def _compare(clients: list[Any], measure: Callable[[Any], Callable[[], float]]) -> tuple[float, float]:
        ours, real = (measure(client) for client in clients)
        ours(), real()
        found = in_turn(ours, real)
        for client in clients:
            client.close()
        return found


def sender(client: Any, protocol: Any) -> Callable[[], None]:
    """Return what sends an add_sub request and reads its answer."""
    inputs = [protocol.InferInput(name, [4], "FP32") for name in ("INPUT0", "INPUT1")]
    for tensor, array in zip(inputs, (A, B), strict=True):
        tensor.set_data_from_numpy(array)

    def once() -> None:
        result = client.infer("add_sub", inputs)
        result.as_numpy("OUTPUT0"), result.as_numpy("OUTPUT1")

    assert np.array_equal(client.infer("add_sub", inputs).as_numpy("OUTPUT0"), A + B)
    return once


def one_caller(client: Any, protocol: Any, requests: int = 1000) -> Callable[[], float]:
    """Return a round of add_sub requests, whose result is the median of their seconds."""
    return timed(sender(client, protocol), requests)


def in_flight(client: Any, requests: int = 4000, depth: int = 32) -> Callable[[], float]:
    """Return a round of inferences with `depth` requests under way all the time, by the faster of the two ways of the
    client, whose result is inferences per second."""
    return Flow(client, "add_sub_batch", requests, depth).fastest()


def streamed(client: Any, responses: int = 5000) -> Callable[[], float]:
    """Return a round of one decoupled request, whose result is responses per second."""
    return stream_reader(client, "repeat", np.array([responses], dtype=np.int32))


def bls(client: Any, calls: int = 500) -> Callable[[], float]:
    """Return a round of calls of a model to another, whose result is the seconds per `exec`."""
    tensor = tritonclient.grpc.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(np.array([calls], dtype=np.int32))
    return lambda: float(client.infer("bls", [tensor]).as_numpy("OUT")[0])


def identity(client: Any, protocol: Any, megabytes: int = 64) -> Callable[[], float]:
    """Return a round of large tensors, whose result is GB/s of input and output together."""
    array = np.arange(megabytes * 1_000_000 // 4, dtype=np.float32)

    def round_() -> float:
        started = time.perf_counter()
        tensor = protocol.InferInput("IN", list(array.shape), "FP32")
        tensor.set_data_from_numpy(array)
        out = client.infer("identity", [tensor]).as_numpy("OUT")
        taken = time.perf_counter() - started
        assert np.array_equal(out, array)
        return 2 * array.nbytes / 1e9 / taken

    return round_
