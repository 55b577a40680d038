"""The parts that the measurements share: rounds that take turns, the models, Triton's client with many requests
under way."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc
from numpy.typing import NDArray

import tritonlab
from tests.conformance.models import ADD_SUB_CONFIG, config
from tests.models import executes

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

#: Answers a request for N with N responses of four numbers.
REPEAT = executes("""
    for request in requests:
        sender = request.get_response_sender()
        out = np.zeros(4, np.float32)
        for _ in range(int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""")
REPEAT_CONFIG = config("IN INT32 1", "OUT FP32 4", "model_transaction_policy { decoupled: true }")

A = np.arange(4, dtype=np.float32)
B = np.ones(4, dtype=np.float32)


def in_turn(ours: Callable[[], float], real: Callable[[], float], rounds: int = ROUNDS) -> tuple[float, float]:
    """Return the median of each side's rounds; the side that goes first changes from round to round."""
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


def timed(once: Callable[[], object], calls: int) -> Callable[[], float]:
    """Return a round of `calls` calls, whose result is their median in seconds."""

    def round_() -> float:
        times = []
        for _ in range(calls):
            started = time.perf_counter()
            once()
            times.append(time.perf_counter() - started)
        return statistics.median(times)

    return round_


class Flow:
    """`depth` add_sub requests of a gRPC client under way until `requests` are answered, as answers per second."""

    def __init__(self, client: Any, model: str, requests: int, depth: int) -> None:
        self._client = client
        self._model = model
        self._requests = requests
        self._room = threading.Semaphore(depth)
        self._done = threading.Semaphore(0)
        self._error: Any = None
        self._inputs = [tritonclient.grpc.InferInput(name, [1, 4], "FP32") for name in ("INPUT0", "INPUT1")]
        for tensor, array in zip(self._inputs, (A, B), strict=True):
            tensor.set_data_from_numpy(array.reshape(1, 4))

    def by_stream(self) -> float:
        self._client.start_stream(self._answered)
        found = self._run(lambda: self._client.async_stream_infer(self._model, self._inputs))
        self._client.stop_stream()
        return found

    def by_calls(self) -> float:
        return self._run(lambda: self._client.async_infer(self._model, self._inputs, self._answered))

    def fastest(self) -> Callable[[], float]:
        """Return the faster of tritonclient's two ways to keep requests under way, with this server."""
        return max(self.by_stream, self.by_calls, key=lambda way: way())

    def _answered(self, result: Any, error: Any) -> None:
        if error is None:
            result.as_numpy("OUTPUT0"), result.as_numpy("OUTPUT1")
        self._error = self._error or error
        self._room.release()
        self._done.release()

    def _run(self, send: Callable[[], object]) -> float:
        started = time.perf_counter()
        for _ in range(self._requests):
            self._await(self._room)
            send()
        for _ in range(self._requests):
            self._await(self._done)
        return self._requests / (time.perf_counter() - started)

    def _await(self, answers: threading.Semaphore) -> None:
        answers.acquire()
        if self._error is not None:  # 2.51 crashes now and then where many requests share a stream
            raise RuntimeError(f"{self._model}: {self._error}; run it again if the server has gone")


def stream_reader(client: Any, model: str, count: NDArray[np.int32]) -> Callable[[], float]:
    """Return a round of one request to the REPEAT model over a gRPC stream, whose result is responses per second."""
    tensor = tritonclient.grpc.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(count)

    def round_() -> float:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        started = time.perf_counter()
        client.async_stream_infer(model, [tensor])
        got = 0
        while got < 4 * count[0]:
            result, error = answers.get()
            assert error is None, error
            got += result.as_numpy("OUT").size
        taken = time.perf_counter() - started
        client.stop_stream()
        return float(count[0] / taken)

    return round_
