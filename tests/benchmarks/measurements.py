"""What `make bench` measures. Each function returns (ours, real) as the medians of rounds that take turns."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http
from IPython.core.interactiveshell import InteractiveShell

import tritonlab
from tests.conformance.models import ADD_SUB, ADD_SUB_CONFIG, config
from tests.conformance.reference import ROOT, ReferenceServer

ROUNDS = 7

IDENTITY = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
            )
            for request in requests
        ]
"""
IDENTITY_CONFIG = config("IN FP32 -1", "OUT FP32 -1")
BATCHING_CONFIG = ADD_SUB_CONFIG + "max_batch_size: 32\ndynamic_batching { }\n"

A = np.arange(4, dtype=np.float32)
B = np.ones(4, dtype=np.float32)


def in_turn(ours: Callable[[], float], real: Callable[[], float], rounds: int = ROUNDS) -> tuple[float, float]:
    """The median of each side's rounds; the side that goes first changes from round to round."""
    results: dict[Callable[[], float], list[float]] = {ours: [], real: []}
    for number in range(rounds):
        for side in (ours, real) if number % 2 == 0 else (real, ours):
            results[side].append(side())
    return statistics.median(results[ours]), statistics.median(results[real])


def place(repository: Path, name: str, source: str, text: str) -> None:
    directory = repository / name
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "config.pbtxt").write_text(text)
    (directory / "1" / "model.py").write_text(source)


def server(scratch: Path) -> tritonlab.Server:
    repository = scratch / "ours"
    repository.mkdir(exist_ok=True)
    return tritonlab.Server(repository, model_control_mode="explicit")


def cell_to_ready(real: ReferenceServer, scratch: Path) -> tuple[float, float]:
    """Seconds from running an edited add_sub cell until the model is READY and its card shown; the peer: a reload."""
    client = tritonclient.http.InferenceServerClient(real.http, network_timeout=60)
    shell = InteractiveShell.instance()
    edits = iter(range(1000))
    tensors = [f"--input INPUT{n}:FP32[4] --output OUTPUT{n}:FP32[4]" for n in (0, 1)]
    line = f"%%triton_model bench_cell {' '.join(tensors)}\n"

    def ours() -> float:
        cell = f"{line}{ADD_SUB}\n# edit {next(edits)}\n"
        with contextlib.redirect_stdout(io.StringIO()):
            started = time.perf_counter()
            result = shell.run_cell(cell)  # type: ignore[no-untyped-call]
            taken = time.perf_counter() - started
        result.raise_error()
        assert tritonlab.default_server().model("bench_cell").ready()
        time.sleep(1)  # a person reads the card; meanwhile the pool warms its next stub
        return taken

    def theirs() -> float:
        place(real.repository, "bench_cell", f"{ADD_SUB}\n# edit {next(edits)}\n", ADD_SUB_CONFIG)
        started = time.perf_counter()
        client.load_model("bench_cell")
        taken = time.perf_counter() - started
        assert client.is_model_ready("bench_cell")
        return taken

    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_line_magic("load_ext", "tritonlab")
    ours(), theirs()  # the first load of each is no reload
    found = in_turn(ours, theirs)
    client.close()
    tritonlab.reset()
    return found


def one_caller(real: ReferenceServer, scratch: Path, requests: int = 1000) -> tuple[float, float]:
    """Seconds per request, the median of a round's requests."""
    place(real.repository, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    client = tritonclient.http.InferenceServerClient(real.http, network_timeout=60)
    client.load_model("add_sub")
    inputs = [tritonclient.http.InferInput(name, [4], "FP32") for name in ("INPUT0", "INPUT1")]
    for tensor, array in zip(inputs, (A, B), strict=True):
        tensor.set_data_from_numpy(array)

    def theirs_once() -> Any:
        result = client.infer("add_sub", inputs)
        return result.as_numpy("OUTPUT0"), result.as_numpy("OUTPUT1")

    with server(scratch) as lab:
        place(scratch / "ours", "add_sub", ADD_SUB, ADD_SUB_CONFIG)
        model = lab.load("add_sub")

        def ours_once() -> Any:
            return model(INPUT0=A, INPUT1=B)

        def timed(once: Callable[[], Any]) -> Callable[[], float]:
            def round_() -> float:
                times = []
                for _ in range(requests):
                    started = time.perf_counter()
                    once()
                    times.append(time.perf_counter() - started)
                return statistics.median(times)

            return round_

        assert np.array_equal(ours_once()["OUTPUT0"], theirs_once()[0])
        timed(ours_once)(), timed(theirs_once)()
        found = in_turn(timed(ours_once), timed(theirs_once))
    client.close()
    return found


class Flow:
    """Keeps `depth` requests of tritonclient under way until `requests` are answered."""

    def __init__(self, requests: int, depth: int) -> None:
        self._requests = requests
        self._room = threading.Semaphore(depth)
        self._done = threading.Semaphore(0)

    def answered(self, result: Any, error: Any) -> None:
        assert error is None, error
        result.as_numpy("OUTPUT0"), result.as_numpy("OUTPUT1")
        self._room.release()
        self._done.release()

    def run(self, send: Callable[[], object]) -> float:
        """Answers per second."""
        started = time.perf_counter()
        for _ in range(self._requests):
            self._room.acquire()
            send()
        for _ in range(self._requests):
            self._done.acquire()
        return self._requests / (time.perf_counter() - started)


def in_flight(real: ReferenceServer, scratch: Path, requests: int = 4000, depth: int = 32) -> tuple[float, float]:
    """Inferences per second with `depth` requests under way all the time."""
    place(real.repository, "add_sub_batch", ADD_SUB, BATCHING_CONFIG)
    client = tritonclient.grpc.InferenceServerClient(real.grpc)
    client.load_model("add_sub_batch")
    a, b = A.reshape(1, 4), B.reshape(1, 4)
    inputs = [tritonclient.grpc.InferInput(name, [1, 4], "FP32") for name in ("INPUT0", "INPUT1")]
    for tensor, array in zip(inputs, (a, b), strict=True):
        tensor.set_data_from_numpy(array)

    def by_stream() -> float:
        client.start_stream(lambda result, error: flow.answered(result, error))
        taken = flow.run(lambda: client.async_stream_infer("add_sub_batch", inputs))
        client.stop_stream()
        return taken

    def by_calls() -> float:
        return flow.run(lambda: client.async_infer("add_sub_batch", inputs, flow.answered))

    flow = Flow(requests, depth)
    with server(scratch) as lab:
        place(scratch / "ours", "add_sub_batch", ADD_SUB, BATCHING_CONFIG)
        model = lab.load("add_sub_batch")

        def ours() -> float:
            pending: deque[Any] = deque()
            started = time.perf_counter()
            for _ in range(requests):
                if len(pending) == depth:
                    read(pending.popleft())
                pending.append(model.infer(inputs={"INPUT0": a, "INPUT1": b}))
            while pending:
                read(pending.popleft())
            return requests / (time.perf_counter() - started)

        def read(responses: Any) -> None:
            outputs = next(responses).outputs
            outputs["OUTPUT0"].numpy(), outputs["OUTPUT1"].numpy()

        ours()
        # The peer gets the faster of tritonclient's two ways to keep requests under way.
        found = in_turn(ours, max(by_stream, by_calls, key=lambda way: way()))
    client.close()
    return found


def identity(real: ReferenceServer, scratch: Path, megabytes: int = 64) -> tuple[float, float]:
    """GB/s of input and output together."""
    place(real.repository, "identity", IDENTITY, IDENTITY_CONFIG)
    client = tritonclient.http.InferenceServerClient(real.http, network_timeout=120, connection_timeout=120)
    client.load_model("identity")
    array = np.arange(megabytes * 1_000_000 // 4, dtype=np.float32)
    moved = 2 * array.nbytes / 1e9

    def theirs() -> float:
        started = time.perf_counter()
        tensor = tritonclient.http.InferInput("IN", list(array.shape), "FP32")
        tensor.set_data_from_numpy(array)
        out = client.infer("identity", [tensor]).as_numpy("OUT")
        taken = time.perf_counter() - started
        assert np.array_equal(out, array)
        return moved / taken

    with server(scratch) as lab:
        place(scratch / "ours", "identity", IDENTITY, IDENTITY_CONFIG)
        model = lab.load("identity")

        def ours() -> float:
            started = time.perf_counter()
            out = model(IN=array)["OUT"]
            taken = time.perf_counter() - started
            assert np.array_equal(out, array)
            return moved / taken

        ours(), theirs()
        found = in_turn(ours, theirs)
    client.close()
    return found


def strings(real: ReferenceServer, scratch: Path, count: int = 10_000, requests: int = 20) -> tuple[float, float]:
    """Seconds of `compute_infer` for an identity over `count` strings of 20 bytes: decoding, execute, encoding."""
    place(real.repository, "strings", IDENTITY, config("IN STRING -1", "OUT STRING -1"))
    client = tritonclient.http.InferenceServerClient(real.http)
    client.load_model("strings")
    array = np.array([b"%020d" % number for number in range(count)], dtype=np.object_)

    def spent(statistics_of: Callable[[], Any], once: Callable[[], object]) -> float:
        def total() -> int:
            return int(statistics_of()["model_stats"][0]["inference_stats"]["compute_infer"]["ns"])

        before = total()
        for _ in range(requests):
            once()
        return (total() - before) / requests / 1e9

    def theirs_once() -> None:
        tensor = tritonclient.http.InferInput("IN", [count], "BYTES")
        tensor.set_data_from_numpy(array)
        assert client.infer("strings", [tensor]).as_numpy("OUT")[-1] == array[-1]

    with server(scratch) as lab:
        place(scratch / "ours", "strings", IDENTITY, config("IN STRING -1", "OUT STRING -1"))
        model = lab.load("strings")

        def ours_once() -> None:
            assert model(IN=array)["OUT"][-1] == array[-1]

        ours_once()
        theirs_once()
        found = in_turn(
            lambda: spent(model.statistics, ours_once),
            lambda: spent(lambda: client.get_inference_statistics("strings"), theirs_once),
        )
    client.close()
    return found


def child(scratch: Path, *arguments: str) -> subprocess.Popen[str]:
    """A kernel of its own: `python -m tests.benchmarks.kernel_process ...`, which prints JSON lines."""
    repository = scratch / "child"
    place(repository, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    place(repository, "pair", ADD_SUB, ADD_SUB_CONFIG.replace("KIND_CPU", "KIND_CPU count: 2"))
    command = [sys.executable, "-m", "tests.benchmarks.kernel_process", str(repository), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def growth(scratch: Path) -> float:
    """MB by which kernel and stub together grew between request 1,000 and request 20,000."""
    with child(scratch, "soak") as process:
        assert process.stdout is not None
        early, late = (json.loads(process.stdout.readline()) for _ in range(2))
    return float(max(late["kernel"] - early["kernel"], late["stub"] - early["stub"])) / 1e6


def left_after_sigkill(scratch: Path) -> int:
    """How many processes of a killed kernel are there 2 s later, and how many new names in /dev/shm."""
    before = set(os.listdir("/dev/shm"))
    with child(scratch, "wait") as process:
        assert process.stdout is not None
        pids = json.loads(process.stdout.readline())["children"]
        assert pids, "the kernel started no stub"
        process.send_signal(signal.SIGKILL)
        process.wait()
    time.sleep(2)
    alive = [pid for pid in pids if running(pid)]
    return len(alive) + len(set(os.listdir("/dev/shm")) - before)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
