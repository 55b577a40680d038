"""What a profile of lines costs while it is on: `python -m tests.benchmarks.line_profiling [--rounds 30]`.

Each round sends the same requests with the profile off and on, in turn the one and the other first; the ratio is the
median of the rounds' ratios of CPU time that the model's process took, and of the time that the requests took. On a
machine that is busy with other things only the first is steady.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.interpreters import environment
from tests.serving import Lab, config, instances
from tritonlab import Model

_FRAME = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.random.default_rng(0).random((400, 400)).astype(np.float32)

    def execute(self, requests):
        responses = []
        for request in requests:
            x = request.inputs()[0].as_numpy()
            {body}
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
        return responses
"""
#: The body of `execute`, and how many requests a round sends.
KINDS = {
    "nothing to do": ("pass", 600),
    "numpy": ("y = self.weights @ self.weights", 40),
    "a loop of Python": ("y = [n * n for n in range(20_000)]", 40),
    "a loop of lines": ("for n in range(20_000):\n                y = n * n\n                y += 1", 30),
}
PYTHONS = ("3.11", "3.12")


def cpu_seconds(pid: int) -> float:
    """Return what all threads of a process ran, to the nanosecond, which psutil does not."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def took(model: Model, count: int, on: bool) -> tuple[float, float]:
    """Return the CPU seconds of the model's process, and the seconds, that so many requests take."""
    x = np.ones((1, 16), np.float32)
    pid = instances(model)[0].pid
    assert pid is not None
    if on:
        model.look_at_lines(True)
    try:
        cpu, began = cpu_seconds(pid), time.perf_counter()
        for _ in range(count):
            model(IN=x)
        return cpu_seconds(pid) - cpu, time.perf_counter() - began
    finally:
        if on:
            model.look_at_lines(False)


def measure(model: Model, count: int, rounds: int) -> tuple[float, float]:
    """Return the median ratios, on to off, of CPU time and of time."""
    took(model, count, on=False)
    ratios = []
    for number in range(rounds):
        order = (False, True) if number % 2 else (True, False)
        each = {on: took(model, count, on) for on in order}
        ratios.append([on / max(off, 1e-9) for on, off in zip(each[True], each[False], strict=True)])
    cpu, wall = zip(*ratios, strict=True)
    return statistics.median(cpu), statistics.median(wall)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.line_profiling")
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory))
        for version in PYTHONS:
            setting = f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{environment(version)}" }} }}'
            for number, (kind, (body, count)) in enumerate(KINDS.items()):
                text = config("IN FP32 16", "OUT FP32 16", "max_batch_size: 8", setting)
                name = f"m{number}_{version.replace('.', '_')}"
                cpu, wall = measure(lab.load(name, _FRAME.format(body=body), text), count, rounds)
                print(f"Python {version}  {kind:18} CPU x {cpu:.3f}   time x {wall:.3f}", flush=True)
                lab.server.unload(name)
        lab.server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
