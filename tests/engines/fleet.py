"""A Dynamo fleet on this machine: one frontend and workers of ours, with discovery in a directory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient

from tests.conformance.reference import free_ports
from tests.engines.dynamo_units import write_shim
from tests.engines.environment import environment, python_of
from tests.engines.load import Call, reading_of

#: Seconds that a process may take to be ready, on a busy machine.
START = 90.0


#: What starts a worker of ours, and one of NVIDIA's on `tritonlab.tritonserver`.
OURS, NVIDIAS = ("tritonlab", "worker", "--dynamo"), ("dynamo.triton",)


class Worker:
    """A process of a worker."""

    def __init__(self, variables: Mapping[str, str], log: Path, arguments: Sequence[str]) -> None:
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [python_of("dynamo"), "-m", *arguments],
                env=variables, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    def await_serving(self, models: int) -> None:
        """Wait until it reports so many models as served, as those of ours do."""
        end = time.monotonic() + START
        while self.log.read_text().count("serves ") < models:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the worker did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def end(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Send a signal, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def clean_up(self) -> None:
        """Kill what is left of it; a killed worker leaves its models' processes to end by themselves."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


class Fleet:
    """The frontend of a fleet, and its workers. `options` are more of the frontend's."""

    def __init__(self, scratch: Path, *options: str) -> None:
        self._scratch = scratch
        self.port, self.metrics = free_ports(2)
        (scratch / "kv").mkdir()
        self.variables = environment(
            DYN_DISCOVERY_BACKEND="file", DYN_FILE_KV=str(scratch / "kv"), DYN_TCP_RPC_HOST="127.0.0.1", DYN_LOG="warn"
        )
        self.workers: list[Worker] = []
        with (scratch / "frontend.log").open("w") as file:
            self._frontend = subprocess.Popen(
                [python_of("dynamo"), "-m", "dynamo.frontend", "--kserve-grpc-server", f"--http-port={self.port}",
                 f"--grpc-metrics-port={self.metrics}", *options],
                env=self.variables, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def start(self, repository: Path, *arguments: str) -> Worker:
        """Start a worker, which is not ready yet."""
        log = self._scratch / f"worker{len(self.workers)}.log"
        return self._started(Worker(self.variables, log, [*OURS, f"--model-repository={repository}", *arguments]))

    def start_nvidias(self, repository: Path) -> Worker:
        """Start a worker of NVIDIA's, which is not ready yet."""
        shim = write_shim(self._scratch / "shim")
        variables = {**self.variables, "PYTHONPATH": os.pathsep.join([str(shim), self.variables["PYTHONPATH"]])}
        log = self._scratch / f"worker{len(self.workers)}.log"
        return self._started(Worker(variables, log, [*NVIDIAS, f"--model-repository={repository}"]))

    def _started(self, worker: Worker) -> Worker:
        self.workers.append(worker)
        return worker

    def client(self) -> Any:
        return grpcclient.InferenceServerClient(f"127.0.0.1:{self.port}")

    def await_ready(self, model: str) -> None:
        client, end = self.client(), time.monotonic() + START
        while time.monotonic() < end:
            with contextlib.suppress(Exception):
                if client.is_model_ready(model):
                    return
            time.sleep(0.2)
        raise RuntimeError(f"{model} is not ready after {START} s")

    def sleeper(self) -> Callable[[], Call]:
        """Return what makes callers of the model `sleeper`."""
        return lambda: grpc_call(self.client())

    def close(self) -> None:
        for worker in self.workers:
            worker.clean_up()
        self._frontend.kill()
        self._frontend.wait()


@contextlib.contextmanager
def fleet(scratch: Path, *options: str) -> Iterator[Fleet]:
    scratch.mkdir(parents=True)
    found = Fleet(scratch, *options)
    try:
        yield found
    finally:
        found.close()


def tensor(values: Any) -> Any:
    """Return the input IN of a request."""
    array = np.asarray(values, np.float32)
    found = grpcclient.InferInput("IN", array.shape, "FP32")
    found.set_data_from_numpy(array)
    return found


def grpc_call(client: Any) -> Call:
    def call(value: float) -> dict[str, object]:
        result = client.infer("sleeper", [tensor([value])], client_timeout=30)
        return reading_of(result.as_numpy("SEEN")[0], float(result.as_numpy("OUT")[0]))

    return call
