"""How good `Model.tune` is: against every settings of a grid measured live, and against the order on a real Triton.

`python -m tests.benchmarks.tuning [MODEL …]` tunes synthetic models (all by default) with a p99 of 50 ms as limit and
prints, of each, what share of the best throughput of the grid the chosen settings reach, how far the prediction was
from it, and how long the tuning took. The grid and the winner are measured in one run, so that what else the machine
does meets both. Then the settings that were confirmed are loaded into the reference server, one model for each, and
get the same load over gRPC: whether they stand in the same order there is printed, too. A model takes 2 to 3 minutes:
the tuning 20 s, 33 windows here, 9 on Triton. At `_PATIENCE_S` the rounds that are left are skipped, and that is said.
The last line of a model says which bars were met.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.reference import ReferenceServer, missing
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.exchanges.remote.remote_server import connect
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.tools.measure.tuning.live_model import LiveModel
from tritonlab.tools.measure.tuning.offered_load import Load
from tritonlab.tools.measure.tuning.settings_trial import Trial
from tritonlab.tools.measure.tuning.tune_result import TuneResult

from .measuring import place, server

P99_MS = 50.0
LARGEST = 8
BUDGET_S = 20.0
_SECONDS = 0.8
#: Seconds of a model after which no further round of measurements begins.
_PATIENCE_S = 200.0
#: The least share of the grid's optimum.
SHARE = 0.95

#: What an execution of `n` requests does.
COSTS = {
    "add_sub": "pass",
    "fixed": "time.sleep(0.006)",
    "linear": "time.sleep(0.002 * n)",
    "sqrt": "time.sleep(0.004 * n ** 0.5)",
    "noisy": "time.sleep((0.004 + 0.0005 * n) * random.uniform(0.6, 1.4))",
    "heavy_tail": "time.sleep((0.003 + 0.0003 * n) * (5 if random.random() < 0.02 else 1))",
    "one_lock": "fcntl.flock(lock, fcntl.LOCK_EX); time.sleep(0.003 + 0.0005 * n); fcntl.flock(lock, fcntl.LOCK_UN)",
}
SOURCE = """
import fcntl
import random
import time

import triton_python_backend_utils as pb_utils

lock = open(__file__)


class TritonPythonModel:
    def execute(self, requests):
        n = len(requests)
        {cost}
        tensors = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", tensor)]) for tensor in tensors]
"""
CONFIG = f"""
backend: "python"
max_batch_size: {LARGEST}
input {{ name: "X" data_type: TYPE_FP32 dims: 4 }}
output {{ name: "Y" data_type: TYPE_FP32 dims: 4 }}
instance_group {{ count: 1 kind: KIND_CPU }}
dynamic_batching {{ }}
"""


def grid() -> Iterator[tuple[Settings, Load]]:
    """Return all settings and loads that are measured live to know the optimum."""
    for instances, delay, largest, clients in itertools.product((1, 2), (0, 2_000), (2, LARGEST), (4, 16, 32)):
        yield Settings(largest, True, (), delay, instances), Load(concurrency=clients)


def share_of_optimum(model: Any, result: TuneResult, until: float) -> tuple[float, Trial, Trial]:
    """Return what share of the optimum's throughput the winner has, the winner, and the optimum, measured in turns.
    No other turn begins after `until`, of `time.monotonic`."""
    live, best = LiveModel(model, {}), result.best
    assert best is not None

    def trial(settings: Settings, load: Load) -> Trial:
        live.load(settings)
        return Trial(settings, load, live.measure(load, _SECONDS).numbers)

    try:
        found = [trial(*one) for one in grid()]
        leaders = sorted(found, key=lambda one: one.rank(P99_MS), reverse=True)[:2]
        # the best of many is also the luckiest: it is measured again, as the winner is
        rounds = [
            [trial(*one.key) for one in (best, *leaders)] for turn in range(3) if turn == 0 or time.monotonic() < until
        ]
    finally:
        live.restore()
    rates = [statistics.median(one.numbers.rate for one in trials) for trials in zip(*rounds, strict=True)]
    if len(rounds) < 3:
        print(f"  only {len(rounds)} of 3 rounds for the optimum: the time was up")
    return rates[0] / max(rates[1:]), rounds[0][0], leaders[0]


def order_on_triton(result: TuneResult, source: str, scratch: Path, until: float) -> list[tuple[Trial, float]]:
    """Return what was confirmed, the best here first, with its requests per second on the reference server: the
    median of windows that take turns, as here."""
    repository = scratch / "real"
    repository.mkdir(parents=True)
    for number, one in enumerate(result.confirmed[:3]):
        place(repository, f"m{number}", source, config_of(one.settings))
    rows: dict[int, list[float]] = {}
    with ReferenceServer(repository, scratch, ["--model-control-mode=none"]) as real:
        for number, one in [*enumerate(result.confirmed[:3])] * 3:
            if len(rows.get(number, [])) and number == 0 and time.monotonic() > until:
                print(f"  only {len(rows[0])} of 3 rounds on Triton: the time was up")
                break
            remote = connect(f"grpc://{real.grpc}").model(f"m{number}")
            load = {**one.load.options(), "seconds": 1.0, "warmup": 0.3, "progress": False}
            rows.setdefault(number, []).append(remote.load_test(**load).rows[0].requests_per_s)
    return [(one, statistics.median(rows[number])) for number, one in enumerate(result.confirmed[:3])]


def agreement(result: TuneResult, there: list[tuple[Trial, float]]) -> tuple[int, int]:
    """Return how many pairs differ here, and how many of them stand in the same order there."""
    pairs = [pair for pair in itertools.combinations(there, 2) if result.noise.differ(pair[0][0], pair[1][0])]
    same = sum(first[1] > second[1] for first, second in pairs)
    return len(pairs), same


def config_of(settings: Settings) -> str:
    lines = settings.pbtxt(parse_pbtxt(CONFIG, "config.pbtxt"))
    return CONFIG.replace(f"max_batch_size: {LARGEST}\n", "").split("instance_group")[0] + lines


def judged(lab: Any, name: str, scratch: Path) -> None:
    """Tune one model, and print how good that was."""
    began = time.monotonic()
    source, until = SOURCE.format(cost=COSTS[name]), began + _PATIENCE_S
    place(scratch / "ours", name, source, CONFIG)
    model = lab.load(name)
    result = model.tune(P99_MS, max_instances=2, seconds=BUDGET_S)
    share, winner, optimum = share_of_optimum(model, result, until)
    print(f"{name}: {share:.0%} of the grid's optimum, tuned in {result.run.seconds:.1f} s")
    off = result.best.predicted.rate / winner.numbers.rate - 1
    print(f"  chosen   {winner.settings}, {winner.load}: {winner.numbers.rate:,.0f}/s (predicted {off:+.0%})")
    print(f"  optimum  {optimum.settings}, {optimum.load}: {optimum.numbers.rate:,.0f}/s")
    lab.unload(name)
    bars = [f"{share:.1%} of the optimum, bar {SHARE:.0%}: {'met' if share >= SHARE else 'MISSED'}"]
    if missing() is None:
        there = order_on_triton(result, source, scratch / name, until)
        for one, real in there:
            print(f"  {one.numbers.rate:>9,.0f}/s here {real:>9,.0f}/s on Triton  {one.settings}")
        apart, same = agreement(result, there)
        met = "met" if same == apart else "MISSED"
        bars.append(f"{same} of {apart} pairs that are told apart stand in Triton's order, bar all: {met}")
    print(f"  {'; '.join(bars)} ({time.monotonic() - began:.0f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(COSTS))
    names = parser.parse_args().models
    if unknown := [name for name in names if name not in COSTS]:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(COSTS)}")
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as lab:
        for name in names or COSTS:
            judged(lab, name, Path(directory))


if __name__ == "__main__":
    main()
