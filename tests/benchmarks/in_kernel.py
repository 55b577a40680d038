"""The server in the notebook's process, beside Triton over its network. Each function returns (ours, real) as the
medians of rounds that take turns."""

from __future__ import annotations

import contextlib
import io
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
from tests.conformance.reference import ReferenceServer

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
    server,
    stream_reader,
    timed,
)


def cell_to_ready(real: ReferenceServer, scratch: Path) -> tuple[float, float]:
    """Measure the seconds from running an edited add_sub cell until the model is READY and its card shown; Triton: a
    reload."""
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
    """Measure the seconds per request, the median of a round's requests."""
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

        assert np.array_equal(ours_once()["OUTPUT0"], theirs_once()[0])
        timed(ours_once, requests)(), timed(theirs_once, requests)()
        found = in_turn(timed(ours_once, requests), timed(theirs_once, requests))
    client.close()
    return found


def in_flight(real: ReferenceServer, scratch: Path, requests: int = 4000, depth: int = 32) -> tuple[float, float]:
    """Measure the inferences per second with `depth` requests under way all the time."""
    place(real.repository, "add_sub_batch", ADD_SUB, BATCHING_CONFIG)
    client = tritonclient.grpc.InferenceServerClient(real.grpc)
    client.load_model("add_sub_batch")
    a, b = A.reshape(1, 4), B.reshape(1, 4)
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
        found = in_turn(ours, Flow(client, "add_sub_batch", requests, depth).fastest())
    client.close()
    return found


def identity(real: ReferenceServer, scratch: Path, megabytes: int = 64) -> tuple[float, float]:
    """Measure GB/s of input and output together."""
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
    """Measure the seconds of `compute_infer` for an identity over `count` strings of 20 bytes: decoding, execute,
    encoding."""
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


def streamed(real: ReferenceServer, scratch: Path, responses: int = 5000) -> tuple[float, float]:
    """Measure the responses per second of one decoupled request; Triton: over a gRPC stream."""
    place(real.repository, "repeat", REPEAT, REPEAT_CONFIG)
    client = tritonclient.grpc.InferenceServerClient(real.grpc)
    client.load_model("repeat")
    count = np.array([responses], dtype=np.int32)
    with server(scratch) as lab:
        place(scratch / "ours", "repeat", REPEAT, REPEAT_CONFIG)
        model = lab.load("repeat")

        def ours() -> float:
            started = time.perf_counter()
            got = sum(response.outputs["OUT"].numpy().size for response in model.infer(inputs={"IN": count}))
            taken = time.perf_counter() - started
            assert got == 4 * responses
            return responses / taken

        theirs = stream_reader(client, "repeat", count)
        ours(), theirs()
        found = in_turn(ours, theirs)
    client.close()
    return found
