"""What recording costs: rounds of one run take turns without a recorder and with one.

`python -m tests.benchmarks.recording [rounds]` prints answers per second and the kernel's CPU time per request of
each, in flight (batches of up to 32) and one by one, and what the hook itself takes. On a machine with other work the
CPU time is the steadier number.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tritonlab
from tests.conformance.models import ADD_SUB
from tritonlab.core.execute_times import ExecuteTimes
from tritonlab.core.infer_request import InferenceRequest
from tritonlab.core.instrument import Instruments
from tritonlab.core.tensor import Tensor
from tritonlab.profile.recorder import Recorder

from .measuring import BATCHING_CONFIG, A, B, place, server

_DEPTH = 32


def in_flight(model: tritonlab.Model, requests: int = 4000) -> None:
    a, b = A.reshape(1, 4), B.reshape(1, 4)
    pending: deque[Any] = deque()
    for _ in range(requests):
        if len(pending) == _DEPTH:
            next(pending.popleft())
        pending.append(model.infer(inputs={"INPUT0": a, "INPUT1": b}))
    while pending:
        next(pending.popleft())


def one_by_one(model: tritonlab.Model, requests: int = 1000) -> None:
    a, b = A.reshape(1, 4), B.reshape(1, 4)
    for _ in range(requests):
        model(INPUT0=a, INPUT1=b)


def measured(
    load: Callable[[tritonlab.Model, int], None], model: tritonlab.Model, requests: int
) -> tuple[float, float]:
    """Answers per second, and microseconds of CPU of this process per request."""
    started, busy = time.perf_counter(), time.process_time()
    load(model, requests)
    taken, busy = time.perf_counter() - started, time.process_time() - busy
    return requests / taken, busy / requests * 1e6


def hook_us(requests: int) -> float:
    """Microseconds of the recorder's hook per request, in batches of so many."""
    instruments = Instruments()
    instruments.add(Recorder())
    asked = [
        InferenceRequest("m", {"INPUT0": Tensor.from_numpy(A), "INPUT1": Tensor.from_numpy(B)}) for _ in range(requests)
    ]
    times, hook, calls = ExecuteTimes(1, 2, 3), instruments.batch_executed, 2000
    assert hook is not None
    rounds = []
    for _ in range(10):
        started = time.process_time()
        for _ in range(calls):
            hook("m", 1, "m_0_0", 1, asked, requests, "full", times, False, 1)
        rounds.append((time.process_time() - started) / calls / requests * 1e6)
    return min(rounds)


def main(rounds: int) -> None:
    for size in (1, 16):
        print(f"the hook, batches of {size}: {hook_us(size):.2f} us per request")
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as lab:
        place(Path(directory) / "ours", "add_sub_batch", ADD_SUB, BATCHING_CONFIG)
        model = lab.load("add_sub_batch")
        for load, requests in ((in_flight, 4000), (one_by_one, 1000)):
            load(model, requests)
            found: dict[str, list[tuple[float, float]]] = {"off": [], "on": [], "off again": []}
            for _ in range(rounds):
                for name, results in found.items():
                    recorder = Recorder()
                    if name == "on":
                        lab.instruments.add(recorder)
                    results.append(measured(load, model, requests))
                    lab.instruments.remove(recorder)
            for name, results in found.items():
                rate, cpu = (statistics.median(values) for values in zip(*results, strict=True))
                print(f"{load.__name__:<11} {name:<10} {rate:8.0f}/s  {cpu:6.2f} us CPU per request")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
