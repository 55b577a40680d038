"""What a picture costs at display: each of ours as SVG text and as an image for a notebook, and one of matplotlib's.

`python -m tests.benchmarks.pictures [rounds]` prints medians in milliseconds.
"""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from random import Random

from tests.record.events import RecorderHooks, make_request
from tests.tools.measure.load_testing.fakes import row
from tests.tools.measure.tuning.scheduler_bench import Bench, Sent, config_of
from tritonlab.figures.stored_picture import stored_picture
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.notebook.views.record.metrics import Metrics
from tritonlab.notebook.views.record.timeline import Timeline
from tritonlab.record.recording import Recording
from tritonlab.tools.measure.load_testing.load_result import LoadResult
from tritonlab.tools.measure.tuning.recorded_executions import RecordedExecutions
from tritonlab.tools.measure.tuning.what_if import WhatIf

MS = 1_000_000


def timeline() -> Timeline:
    """Return a timeline of 10,000 events, of which the last 120 executions are drawn."""
    events, random, at = RecorderHooks(), Random(1), 0
    for number in range(2_000):
        requests = [make_request(number * 4 + n, at=at - random.randint(0, 9)) for n in range(4)]
        at += 3
        events.execute(*requests, start=at, end=at + 2, instance=f"add_0_{number % 4}")
    return Timeline(events.recording, "add")


def metrics() -> Metrics:
    """Return metrics of 12 series of 10,000 changes."""
    recording, random = Recording(), Random(1)
    for series in range(12):
        for number in range(10_000):
            recording.metrics.add(f"depth_{series}", {}, random.random(), number * MS)
    return Metrics(recording, "add")


def load_test() -> LoadResult:
    return LoadResult("add", "here", "concurrency", [row(2**n, 1_000 * n + 100, 100.0 * 2**n) for n in range(8)])


def what_if() -> WhatIf:
    config = config_of("max_batch_size: 4 dynamic_batching { } instance_group { count: 2 kind: KIND_CPU }")
    bench, random = Bench(config, 2, lambda size: 4 * MS), Random(1)
    bench.run([Sent(random.randint(100_000, 2 * MS)) for _ in range(2_000)])
    settings = Settings.from_config(config).changed(instances=3)
    return WhatIf("m", RecordedExecutions(bench.record), config, config, settings, lambda settings: lambda: None)


def matplotlib_figure(kind: str) -> Callable[[], None]:
    """Draw 120 blocks in 4 lanes and a curve of 120 points."""
    from matplotlib.figure import Figure

    def draw() -> None:
        figure = Figure(figsize=(7.6, 2.4), layout="constrained")
        axes = figure.subplots()
        for lane in range(4):
            axes.broken_barh([(number * 4 + lane, 3.0) for number in range(30)], (lane, 0.8))
        axes.plot(range(120), [number % 7 for number in range(120)], label="depth")
        axes.set_xlabel("time of day")
        axes.legend()
        figure.savefig(io.BytesIO(), format=kind)

    return draw


def median_ms(draw: Callable[[], object], rounds: int) -> float:
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        draw()
        took.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(took)


def import_ms(rounds: int) -> float:
    """Return how long a kernel that has numpy already takes to import matplotlib's figures."""
    source = "import numpy, time; a = time.perf_counter(); import matplotlib.pyplot; print(time.perf_counter() - a)"
    found = [subprocess.run([sys.executable, "-c", source], capture_output=True, check=True) for _ in range(rounds)]
    return statistics.median(float(one.stdout) * 1e3 for one in found)


def main(rounds: int) -> None:
    for made in (timeline(), metrics(), load_test(), what_if()):
        drawn = median_ms(made.figure, rounds)
        image = median_ms(lambda made=made: stored_picture(made.figure(), 0.0), rounds)  # type: ignore[misc]
        size = len(made.figure())
        print(f"{type(made).__name__:<12} SVG {drawn:6.1f} ms, as an image {image:6.1f} ms, {size:,} bytes")
    print(f"matplotlib   import {import_ms(3):.0f} ms")
    for kind in ("svg", "png"):
        print(f"matplotlib   {kind} {median_ms(matplotlib_figure(kind), rounds):6.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
