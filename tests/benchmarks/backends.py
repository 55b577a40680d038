"""An ensemble of Python, ONNX and Python beside its parts: `python -m tests.benchmarks.backends`.

The ensemble, its three models called one after the other in this process, and the same three computations as plain
calls (numpy, ONNX Runtime, numpy) take turns in every round, so that what else the machine does meets all of them. The
bar is the ensemble's p50 within 1.3 x the sum of its models'. Large tensors go through the ONNX model and through a
Python model that answers its input, by turns: what the first takes more is its own.

On 2 cores that others used, load 14 to 20, 300 rounds (2026-11-25), hidden 256: 1.25 at best (0.89 ms for 0.71 ms),
and 2.1 at p50; hidden 2048: 2.2 at p50. The ensemble's steps are handed on by a thread, which a busy machine lets wait:
what a machine without others gives was not measured. 16 MB took 38 ms through the ONNX model, 33 through Python's.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from tests.backends.onnx_models import onnx_model, three_layers, write
from tests.serving import config
from tritonlab import Model, Server

BAR = 1.3
WIDTH, OUT = 64, 16
ROUNDS = 300

BEFORE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy() / 255)]) for r in requests]
"""
AFTER = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = [r.inputs()[0].as_numpy().argmax(1).astype(np.int32)[:, None] for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", answer)]) for answer in answers]
"""
SAME = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", r.inputs()[0].as_numpy())]) for r in requests]
"""
ENSEMBLE = f"""platform: "ensemble" max_batch_size: 4
input {{ name: "RAW" data_type: TYPE_FP32 dims: {WIDTH} }} output {{ name: "CLASS" data_type: TYPE_INT32 dims: 1 }}
ensemble_scheduling {{ step [
  {{ model_name: "before" model_version: -1
     input_map {{ key: "IN" value: "RAW" }} output_map {{ key: "OUT" value: "X" }} }},
  {{ model_name: "mlp" model_version: -1
     input_map {{ key: "x" value: "X" }} output_map {{ key: "y" value: "Y" }} }},
  {{ model_name: "after" model_version: -1
     input_map {{ key: "IN" value: "Y" }} output_map {{ key: "OUT" value: "CLASS" }} }}
] }}
"""


def repository(place: Path, hidden: int) -> None:
    batching = "max_batch_size: 4"
    write(place, "before", {"model.py": BEFORE}, config(f"IN FP32 {WIDTH}", f"OUT FP32 {WIDTH}", batching))
    write(place, "mlp", {"model.onnx": three_layers(WIDTH, hidden, OUT)})
    write(place, "after", {"model.py": AFTER}, config(f"IN FP32 {OUT}", "OUT INT32 1", batching))
    write(place, "pipeline", {}, ENSEMBLE)
    same = [helper.make_node("Identity", ["x"], ["y"])]
    shape = (TensorProto.FLOAT, ["n"])
    large = onnx_model(same, {"x": shape}, {"y": shape})
    unbatched = config("x FP32 -1", "y FP32 -1").replace('"python"', '"onnxruntime"')
    write(place, "large_onnx", {"model.onnx": large}, unbatched)
    write(place, "large_python", {"model.py": SAME}, config("x FP32 -1", "y FP32 -1"))


def ask(model: Model, name: str, array: Any) -> Any:
    (response,) = model.infer(inputs={name: array})
    return next(iter(response.outputs.values())).numpy()


def by_turns(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return how long each call of each took, in microseconds, the shortest first."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + rounds // 10):
        for name, call in calls.items():
            started = time.perf_counter_ns()
            call()
            if number >= rounds // 10:
                took[name].append((time.perf_counter_ns() - started) / 1000)
    return {name: sorted(times) for name, times in took.items()}


def measure(hidden: int, rounds: int) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        repository(Path(scratch), hidden)
        with Server(scratch) as server:
            pipeline, before, mlp, after, large_onnx, large_python = map(
                server.model, ("pipeline", "before", "mlp", "after", "large_onnx", "large_python")
            )
            raw = np.random.default_rng(0).random((1, WIDTH), np.float32) * 255
            scaled = ask(before, "IN", raw)
            scores = ask(mlp, "x", scaled)
            session = onnxruntime.InferenceSession(
                str(Path(scratch, "mlp", "1", "model.onnx")), providers=["CPUExecutionProvider"]
            )
            assert (scores == session.run(None, {"x": scaled})[0]).all()
            found = by_turns(
                {
                    "ensemble": lambda: ask(pipeline, "RAW", raw),
                    "before": lambda: ask(before, "IN", raw),
                    "onnx": lambda: ask(mlp, "x", scaled),
                    "after": lambda: ask(after, "IN", scores),
                    "plain calls": lambda: session.run(None, {"x": raw / 255})[0].argmax(1),
                },
                rounds,
            )
            for share, word in ((0.05, "best"), (0.5, "p50")):
                took = {name: times[int(len(times) * share)] for name, times in found.items()}
                ratio = took["ensemble"] / (took["before"] + took["onnx"] + took["after"])
                print(
                    f"hidden {hidden}, {word}: " + ", ".join(f"{name} {value:.0f} us" for name, value in took.items())
                )
                print(f"  ensemble / sum of its models: {ratio:.2f} (bar {BAR} for p50)")
            array = np.random.default_rng(0).random(4 << 20, np.float32)
            large = by_turns(
                {"onnx": lambda: ask(large_onnx, "x", array), "python": lambda: ask(large_python, "x", array)}, 20
            )
            middle = {name: statistics.median(times) / 1000 for name, times in large.items()}
            print("  16 MB through: " + ", ".join(f"{name} {value:.1f} ms" for name, value in middle.items()))
            return ratio <= BAR


if __name__ == "__main__":
    sys.exit(0 if all([measure(hidden, ROUNDS) for hidden in (256, 2048)]) else 1)
