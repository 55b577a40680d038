"""The proof of pushes: `python -m tests.push_proof` edits a model ten times and pushes it to a real tritonserver under
traffic. It prints how long it takes from the edit to the proved answer there, next to the server's own time for a load,
and fails if a request failed, or if an undo does not bring the former answers back.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from tests.conformance.reference import ReferenceServer
from tests.models import answers
from tests.serving import config
from tritonlab import Server
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.exchanges.remote.remote_server import RemoteServer, connect
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.tools.capture.push.push_result import Push

CONFIG = config("IN INT32 1", "OUT INT32 1")
EDITS, CLIENTS, LOADS = 10, 3, 5


def request() -> InferenceRequest:
    return InferenceRequest("scale", {"IN": Tensor.from_numpy(np.array([2], np.int32))})


def golden(answer: int, folder: Path) -> GoldenSet:
    found = GoldenSet(folder)
    found.add(Exchange(request(), arrivals_of([{"OUT": Tensor.from_numpy(np.array([answer], np.int32))}])))
    return found


def answer_of(server: RemoteServer) -> int:
    return int(server.model("scale")(IN=[2])["OUT"][0])


class Clients:
    """Clients that send one request after the other while they are open."""

    def __init__(self, address: str) -> None:
        self.count, self.failed = 0, list[str]()
        self._address, self._halt = address, threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(CLIENTS)]

    def _run(self) -> None:
        with connect(self._address) as server:
            model = server.model("scale")
            while not self._halt.is_set():
                found = model.send(request(), decoupled=False)
                self.count += 1
                if found.error is not None:
                    self.failed.append(found.error.message)

    def __enter__(self) -> Clients:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._halt.set()
        for each in self._threads:
            each.join()


def edit_and_push(workspace: Workspace, server: RemoteServer, folder: Path) -> tuple[list[float], Push]:
    """Edit and push the model, and return the seconds from each edit to the proved answer there, and the last push."""
    times = []
    for factor in range(20, 20 + EDITS):
        proof = golden(2 * factor, folder / str(factor))
        begun = time.monotonic()
        workspace.load("scale", answers(f"x * {factor}"), config=CONFIG)
        pushed = server.push(workspace.server.model("scale"), proof=proof)
        assert pushed.ok and answer_of(server) == 2 * factor, pushed
        times.append(time.monotonic() - begun)
    return times, pushed


def own_loads(server: RemoteServer) -> list[float]:
    """Return the seconds of loads of the server's own model."""
    times = []
    for _ in range(LOADS):
        server.unload("scale")
        time.sleep(1)  # it returns before the model is unloaded
        begun = time.monotonic()
        server.load("scale")
        times.append(time.monotonic() - begun)
    return times


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        (folder / "repository" / "scale" / "1").mkdir(parents=True)
        (folder / "repository" / "scale" / "1" / "model.py").write_text(answers("x * 10"))
        (folder / "repository" / "scale" / "config.pbtxt").write_text(CONFIG)
        (folder / "notebook").mkdir()
        with (
            ReferenceServer(folder / "repository", folder) as real,
            Server(folder / "notebook", model_control_mode="explicit") as own,
            connect(f"grpc://{real.grpc}") as server,
        ):
            workspace = own.workspace = Workspace(own, folder / "notebook")
            print(f"load average {os.getloadavg()[0]:.1f}")
            bare = own_loads(server)
            print(f"a load of its own model: {statistics.median(bare):.2f} s ({min(bare):.2f} to {max(bare):.2f})")
            times, _ = edit_and_push(workspace, server, folder / "alone")
            print(f"edit to proved answer: {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})")
            with Clients(f"grpc://{real.grpc}") as clients:
                times, last = edit_and_push(workspace, server, folder / "traffic")
                last.undo()
                assert answer_of(server) == 2 * (20 + EDITS - 2), last  # the push before
            print(f"under traffic: {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})")
            print(f"{clients.count:,} requests of {CLIENTS} clients meanwhile, {len(clients.failed)} failed")
            assert not clients.failed, clients.failed[0]


if __name__ == "__main__":
    main()
