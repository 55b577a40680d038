"""Whether `Model.tune` measures the present settings at the load that suits them, for a model whose latency falls with
load: batches of 1, 2, 4 and 8 take 110, 44, 35 and 13.5 ms, so that p99 fits the limit of 20 ms at 8 clients alone.

`python -m tests.benchmarks.tuning_now [--runs 20] [--busy 2] [--budget 12] [--simulated]` prints of each run the load
and the throughput of "now" and of the best, and at the end in how many runs "now" was at least half of what the present
settings do at 8 clients, measured for longer, and in how many the best was measured to do no less than "now". `--busy`:
processes that keep a processor busy meanwhile. `--simulated`: the fake of the unit tests, with noise and stalls.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tools.measure.tuning.test_tune import FallingLive, tuned
from tritonlab.tools.measure.tuning.live_model import LiveModel
from tritonlab.tools.measure.tuning.offered_load import Load
from tritonlab.tools.measure.tuning.settings_trial import Trial
from tritonlab.tools.measure.tuning.tune_result import TuneResult

from .measuring import place, server

P99_MS = 20.0
#: What "now" must reach of what the present settings do at the load that suits them.
SHARE = 0.5
SOURCE = """
import time

import triton_python_backend_utils as pb_utils

MS = {1: 110, 2: 44, 3: 40, 4: 35, 5: 30, 6: 25, 7: 20}


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(MS.get(len(requests), 13.5) / 1e3)
        tensors = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", tensor)]) for tensor in tensors]
"""
CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 4 }
output { name: "Y" data_type: TYPE_FP32 dims: 4 }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 2000 }
"""


def spin() -> None:
    while True:
        pass


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processors busy."""
    others = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(processes)]
    for one in others:
        one.start()
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.join()


def simulated(runs: int) -> Iterator[tuple[TuneResult, float]]:
    """Yield results, and what the present settings do at 8 clients."""
    for seed in range(runs):
        live = FallingLive(noise=0.2, seed=seed)
        result = tuned(live, p99_ms=P99_MS, max_instances=1, max_batch_size=8)
        yield result, live.does(live.first, Load(concurrency=8)).numbers.rate


def measured(runs: int, processes: int, budget_s: float) -> Iterator[tuple[TuneResult, float]]:
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as lab, busy(processes):
        place(Path(directory) / "ours", "falling", SOURCE, CONFIG)
        model: Any = lab.load("falling")
        for _ in range(runs):
            result = model.tune(P99_MS, max_instances=1, seconds=budget_s)
            yield result, LiveModel(model, {}).measure(Load(concurrency=8), 2.0).numbers.rate


def now_of(result: TuneResult) -> Trial | None:
    return next((one for one in result.confirmed if one.settings == result.present), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--budget", type=float, default=12.0)
    parser.add_argument("--simulated", action="store_true")
    options = parser.parse_args()
    results = simulated(options.runs) if options.simulated else measured(options.runs, options.busy, options.budget)
    good, not_less, began, result = 0, 0, time.monotonic(), None
    for number, (result, at_eight) in enumerate(results, 1):
        now, best = now_of(result), result.best
        if now is None or best is None:
            print(f"{number}: stopped before anything was measured ({result.run.stopped})")
            continue
        good += now.numbers.rate >= SHARE * at_eight
        not_less += best.keeps(P99_MS) >= now.keeps(P99_MS) and best.numbers.rate >= 0.8 * now.numbers.rate
        print(
            f"{number}: now {now.load}, {now.numbers.rate:,.0f}/s, p99 {now.numbers.p99 / 1e6:.1f} ms (8 clients: "
            f"{at_eight:,.0f}/s); best {best.settings}, {best.load}, {best.numbers.rate:,.0f}/s, p99 "
            f"{best.numbers.p99 / 1e6:.1f} ms; {result.run.seconds:.1f} s",
            flush=True,
        )
    print(f"now reaches {SHARE:.0%} of what it can in {good} of {options.runs} runs", end="; ")
    print(f"the best does no less than now in {not_less} ({time.monotonic() - began:.0f} s)")
    if result is not None:
        print(result)


if __name__ == "__main__":
    main()
