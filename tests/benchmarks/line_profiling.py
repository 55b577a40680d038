"""What a profile of lines costs while it is on: `python -m tests.benchmarks.line_profiling [--rounds 12]`.

Each round sends requests with the profile off and on, in turn the one and the other first, until `execute` has taken so
many seconds: a profile of the default 3 seconds is longer. The model answers with the CPU time that its thread took in
`execute`, which a busy machine does not change much; the ratio is the median of the rounds'. The sampler's own thread
takes 1 % of a processor at most, which is not in it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.interpreters import environment
from tests.serving import Lab, config
from tritonlab import Model

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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.line_profiling")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--python", choices=PYTHONS, action="append", dest="pythons")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory))
        for version in options.pythons or PYTHONS:
            setting = f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{environment(version)}" }} }}'
            for number, (kind, body) in enumerate(KINDS.items()):
                text = config("IN FP32 16", "OUT FP32 1", "max_batch_size: 8", setting)
                name = f"m{number}_{version.replace('.', '_')}"
                model = lab.load(name, _FRAME.format(body=body), text)
                ratio, more = measure(model, options.seconds, options.rounds)
                print(f"Python {version}  {kind:18} x {ratio:.3f}   {more:+.1f} us a request", flush=True)
                lab.server.unload(name)
        lab.server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
