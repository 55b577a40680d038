"""The plots of `tune` and `what_if`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plots import closed_figures, drawn, facts
from tests.tools.measure.tuning.scheduler_bench import Bench, Sent, config_of
from tests.tools.measure.tuning.test_tune import MODELS, FakeLive, tuned
from tritonlab.core.status import UnavailableError
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.tools.measure.tuning.recorded_executions import RecordedExecutions
from tritonlab.tools.measure.tuning.tune_result import TuneResult
from tritonlab.tools.measure.tuning.what_if import WhatIf

__all__ = ["closed_figures"]


@pytest.fixture(scope="module")
def tuning() -> TuneResult:
    return tuned(FakeLive(*MODELS["square root"]), p99_ms=20)


@pytest.fixture(scope="module")
def what_if() -> WhatIf:
    config = config_of("max_batch_size: 4 dynamic_batching { } instance_group { count: 1 kind: KIND_CPU }")
    bench = Bench(config, 1, lambda size: 4_000_000)
    bench.run([Sent(1_000_000) for _ in range(40)])
    settings = Settings.from_config(config).changed(instances=2)

    def reload(settings: Settings) -> Callable[[], object]:
        raise AssertionError("nothing is loaded to draw")

    return WhatIf("m", RecordedExecutions(bench.record), config, config, settings, reload)


def test_a_tuning_is_its_front_its_measurements_and_the_limit(tuning: TuneResult) -> None:
    ax = drawn(tuning.plot)
    assert facts(ax) == {
        "title": "Tuning of m",
        "x": "throughput, requests/s",
        "y": "p99 latency, ms",
        "legend": ["predicted front", "the best, measured", "others, measured", "limit: p99 20 ms"],
    }
    assert [len(line.get_xdata()) for line in ax.lines] == [len(tuning.front), 1, len(tuning.confirmed) - 1, 2]


def test_gains_are_bars_with_their_settings(tuning: TuneResult) -> None:
    ax = drawn(tuning.plot_gains)
    assert facts(ax)["legend"] == ["replayed", "measured"] and facts(ax)["x"] == "throughput gained, %"
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [f"{one.part} {one.was} → {one.became}" for one in tuning.gains]
    live = [one.live_gain(tuning.confirmed[0]) for one in tuning.gains]
    measured = [bar.get_x() or bar.get_width() for bar in ax.containers[1]]
    assert measured == pytest.approx([gain * 100 for gain in live if gain is not None])


def test_a_run_that_found_nothing_has_no_plot() -> None:
    live = FakeLive(*MODELS["square root"])
    live.interrupt_after = 0
    result = tuned(live)
    with pytest.raises(UnavailableError, match="before it found anything"):
        result.plot()
    with pytest.raises(UnavailableError, match="there is nothing to plot: the gain of no setting of 'm' is known"):
        result.plot_gains()


def test_what_if_is_the_latencies_before_and_after(what_if: WhatIf) -> None:
    ax = drawn(what_if.plot)
    found = facts(ax)
    assert (found["x"], found["y"]) == ("latency, ms", "requests answered within it, %")
    assert found["title"] == "What if m had\n2 instances, batches up to 4, delay 0 µs?"
    assert found["legend"][0] == "recorded: p50 6 ms, p99 8 ms, 909 requests/s while busy"
    assert found["legend"][1].startswith("what if: p50 ")
    assert [len(line.get_xdata()) for line in ax.lines] == [40, 40]
    assert [line.get_ydata()[-1] for line in ax.lines] == [100, 100]
    assert ax.lines[1].get_xdata()[-1] < ax.lines[0].get_xdata()[-1]


def test_the_lanes_of_what_if_have_recorded_and_replayed_batches(what_if: WhatIf) -> None:
    ax = drawn(what_if.plot_lanes)
    assert facts(ax) == {
        "title": "Batches of m",
        "x": "time of day",
        "y": "instance",
        "legend": ["recorded", "what if"],
    }
    assert [text.get_text() for text in ax.get_yticklabels()] == ["m_0_0", "instance 2"]
    assert len(ax.patches) == len(what_if.recorded_batches.size) + len(what_if.replayed_batches.start)
