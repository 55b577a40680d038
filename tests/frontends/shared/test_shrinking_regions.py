"""A client that makes its registered region smaller while requests use it: they may fail, the server goes on."""

from __future__ import annotations

import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.conformance.rules import rule
from tests.models import executes
from tests.serve_process import ServeProcess
from tests.serving import SOON, config, eventually, write_model

#: Answers with its input, once the file that is named at its load is gone.
HELD = executes(
    "while os.path.exists({hold!r}):\n"
    "    time.sleep(0.005)\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]',
    imports="import os, time",
)
SIZE = 16 << 20
ELEMENTS = SIZE // 4


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def served(hold: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    repository = tmp_path_factory.mktemp("models")
    write_model(repository, "held", HELD.format(hold=str(hold)), config("IN FP32 -1", "OUT FP32 -1"))
    with ServeProcess(repository, tmp_path_factory.mktemp("served"), "--allow-client-shm=true") as process:
        yield process.serving()


class Client:
    """One of tritonclient's two, with a region `r` of SIZE bytes in the file at `path`."""

    def __init__(self, served: ServeProcess, protocol: Any, path: Path) -> None:
        self.served = served
        self.protocol = protocol
        self.path = path
        path.write_bytes(np.ones(ELEMENTS, np.float32).tobytes())
        self.client = self.connect()
        self.client.register_system_shared_memory("r", f"/{path.name}", SIZE)

    def connect(self) -> Any:
        if self.protocol is tritonclient.grpc:
            return tritonclient.grpc.InferenceServerClient(self.served.grpc)
        return tritonclient.http.InferenceServerClient(self.served.http, connection_timeout=60, network_timeout=60)

    def infer(self, *, region_in: bool, region_out: bool) -> Any:
        """Return the answer of one request over a connection of its own."""
        tensor = self.protocol.InferInput("IN", [ELEMENTS if region_in or region_out else 1], "FP32")
        if region_in:
            tensor.set_shared_memory("r", SIZE)
        else:
            tensor.set_data_from_numpy(np.zeros(tensor.shape(), np.float32))
        wanted = self.protocol.InferRequestedOutput("OUT")
        if region_out:
            wanted.set_shared_memory("r", SIZE)
        client = self.connect()
        try:
            return client.infer("held", [tensor], outputs=[wanted])
        except InferenceServerException as error:
            return error
        finally:
            client.close()

    def in_thread(self, **places: bool) -> Callable[[], Any]:
        """Send a request; return a function that waits for its answer."""
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(self.infer(**places)), daemon=True)
        thread.start()

        def answer() -> Any:
            thread.join(SOON)
            (only,) = found
            return only

        return answer


@pytest.fixture(params=[tritonclient.http, tritonclient.grpc], ids=["http", "grpc"])
def client(served: ServeProcess, request: pytest.FixtureRequest) -> Iterator[Client]:
    path = Path("/dev/shm") / f"tritonlab_test_{uuid.uuid4().hex}"
    made = Client(served, request.param, path)
    yield made
    made.client.unregister_system_shared_memory("r")
    made.client.close()
    path.unlink()


def pending(served: ServeProcess) -> int:
    with urllib.request.urlopen(f"http://{served.metrics}/metrics", timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith("nv_inference_pending")]
    return int(float(lines[0].rpartition(" ")[2]))


@rule("6.10.4")
def test_a_region_that_shrinks_while_its_request_waits(served: ServeProcess, client: Client, hold: Path) -> None:
    hold.touch()
    try:
        first = client.in_thread(region_in=False, region_out=False)
        waiting = [
            client.in_thread(region_in=True, region_out=False),
            client.in_thread(region_in=False, region_out=True),
        ]
        eventually(lambda: pending(served) == 2)
        with client.path.open("r+b") as file:
            file.truncate(0)
    finally:
        hold.unlink()
    assert first().as_numpy("OUT").tolist() == [0]
    read, written = (answer() for answer in waiting)
    assert read.as_numpy("OUT").sum() == ELEMENTS  # it was copied when the request came
    assert "was made smaller after it was registered, it has 0 bytes" in str(written)
    assert client.path.stat().st_size == 0
    assert "Invalid offset + byte size for shared memory region: 'r'" in str(
        client.infer(region_in=True, region_out=False)
    )
    assert served.call("/v2/health/live")[0] == 200


@rule("6.10.4")
def test_a_region_that_shrinks_and_grows_all_the_time(served: ServeProcess, client: Client) -> None:
    over = threading.Event()

    def shrink_and_grow() -> None:
        with client.path.open("r+b") as file:
            while not over.is_set():
                file.truncate(0)
                file.truncate(SIZE)

    thread = threading.Thread(target=shrink_and_grow, daemon=True)
    thread.start()
    try:
        for number in range(30):
            answer = client.infer(region_in=number % 2 == 0, region_out=number % 3 > 0)
            if isinstance(answer, InferenceServerException):
                assert "Invalid offset + byte size for shared memory region: 'r'" in str(answer)
    finally:
        over.set()
        thread.join()
    assert served.process.poll() is None
    assert not isinstance(client.infer(region_in=True, region_out=True), InferenceServerException)
