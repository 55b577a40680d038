"""What a profile of lines costs while it is on: `python -m tests.benchmarks.line_profiling [--rounds 12]`.

Each round sends requests with the profile off and on, in turn the one and the other first, until `execute` has taken so
many seconds: a profile of the default 3 seconds is longer. The model answers with the CPU time that its thread took in
`execute`, which a busy machine does not change much; the ratio is the median of the rounds'. The sampler's own thread
takes 1 % of a processor at most, which is not in it.

`--clients` measures small models as clients see them instead: half of the requests took no longer, and the processor
time of a request, of the stub and of all, with requests one after the other and 100 a second, in the kernel and over
HTTP. Rounds of a second with the profile off and on take turns; the ratio is the median of pairs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.http

from tests.interpreters import environment
from tests.serving import Lab, config
from tritonlab import Model
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints

from .paced import RATE, cpu_seconds, spent

_FRAME = """
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.random.default_rng(0).random((400, 400)).astype(np.float32)

    def execute(self, requests):
        responses = []
        for request in requests:
            began = time.thread_time_ns()
            {body}
            out = np.full((1, 1), (time.thread_time_ns() - began) / 1000, np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
        return responses
"""
#: The body of `execute`.
KINDS = {
    "little to do": "y = request.inputs()[0].as_numpy() + 1",
    "numpy": "y = self.weights @ self.weights",
    "a loop of Python": "y = [n * n for n in range(20_000)]",
    "a loop of lines": "for n in range(20_000):\n                y = n * n\n                y += 1",
}
#: The most requests of a round: with little to do a second of `execute` would be a minute.
MOST = 2_000
PYTHONS = ("3.11", "3.12")


def took(model: Model, seconds: float, on: bool) -> float:
    """Return the microseconds of CPU time that `execute` takes for a request, on average over so many seconds of it."""
    x = np.ones((1, 16), np.float32)
    if on:
        model.look_at_lines(True)
    try:
        times: list[float] = []
        while sum(times) < 1e6 * seconds and len(times) < MOST:
            times.append(float(model(IN=x)["OUT"][0, 0]))
        return statistics.fmean(times)
    finally:
        if on:
            model.look_at_lines(False)


def measure(model: Model, seconds: float, rounds: int) -> tuple[float, float]:
    """Return the median ratio of on to off, and the median of the microseconds that a request took more."""
    took(model, seconds / 10, on=False)
    ratios, more = [], []
    for number in range(rounds):
        order = (False, True) if number % 2 else (True, False)
        each = {on: took(model, seconds, on) for on in order}
        ratios.append(each[True] / each[False])
        more.append(each[True] - each[False])
    return statistics.median(ratios), statistics.median(more)


def http_sender(address: str, name: str) -> Callable[[], object]:
    client = tritonclient.http.InferenceServerClient(address)
    tensor = tritonclient.http.InferInput("IN", [1, 16], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 16), np.float32))
    return lambda: client.infer(name, [tensor]).as_numpy("OUT")


def seen(once: Callable[[], object], pids: list[int], paced: bool, seconds: float) -> tuple[float, float, float]:
    """Return the median seconds of requests, and the processor seconds of each: of the stubs, `pids`, and of all."""
    own, stubs, times = cpu_seconds([os.getpid()]), cpu_seconds(pids), list[float]()
    begun = due = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        if paced:
            due += 1 / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter()
        once()
        times.append(time.perf_counter() - started)
    in_stubs = spent(stubs) / len(times)
    return statistics.median(times), in_stubs, in_stubs + spent(own) / len(times)


def by_clients(lab: Lab, model: Model, http: str, seconds: float, rounds: int) -> dict[str, list[float]]:
    """Return the ratios of on to off, of the median time and the two processor times, by the way of sending."""
    x, pids = np.ones((1, 16), np.float32), [instance["pid"] for instance in model.instances()]
    ways: dict[str, Any] = {"in the kernel": lambda: model(IN=x), "HTTP": http_sender(http, model.name)}
    found = {}
    for way, once in ways.items():
        for paced in (False, True):
            ratios = []
            seen(once, pids, paced, seconds / 4)
            for number in range(rounds):
                each = {}
                for on in (False, True) if number % 2 else (True, False):
                    if on:
                        model.look_at_lines(True)
                    each[on] = seen(once, pids, paced, seconds)
                    if on:
                        model.look_at_lines(False)
                ratios.append([more / less for more, less in zip(each[True], each[False], strict=True)])
            name = f"{way}, {f'{RATE}/s' if paced else 'one after the other'}"
            found[name] = [statistics.median(column) for column in zip(*ratios, strict=True)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.line_profiling")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--clients", action="store_true")
    parser.add_argument("--python", choices=PYTHONS, action="append", dest="pythons")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory))
        for version in options.pythons or PYTHONS:
            setting = f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{environment(version)}" }} }}'
            kinds = [*KINDS.items()][: 2 if options.clients else None]
            for number, (kind, body) in enumerate(kinds):
                text = config("IN FP32 16", "OUT FP32 1", "max_batch_size: 8", setting)
                name = f"m{number}_{version.replace('.', '_')}"
                model = lab.load(name, _FRAME.format(body=body), text)
                if options.clients:
                    with Endpoints(lab.server.core, EndpointOptions(http_port=0, grpc=False, metrics=False)) as ports:
                        rows = by_clients(lab, model, ports.http, options.seconds, options.rounds)
                    for way, (half, stub, whole) in rows.items():
                        text = f"median x {half:.3f}   processor of the stub x {stub:.3f}, of all x {whole:.3f}"
                        print(f"Python {version}  {kind:13} {way:34} {text}", flush=True)
                    lab.server.unload(name)
                    continue
                ratio, more = measure(model, options.seconds, options.rounds)
                print(f"Python {version}  {kind:18} x {ratio:.3f}   {more:+.1f} us a request", flush=True)
                lab.server.unload(name)
        lab.server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
