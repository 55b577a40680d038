"""Tuning of simulated models: what it chooses does at least 95 % of what the best settings of all do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.ensembles import ensemble_text, step
from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.pictures import read, stored, texts
from tests.serving import Lab, config, lab, write_model
from tests.tools.measure.tuning.scheduler_bench import config_of
from tritonlab import Server
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.status import InternalError, InvalidArgumentError, ModelLoadError, TritonError, UnavailableError
from tritonlab.engine.schedulers.policy_queue import QueuePolicies
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.notebook.views.work_view import Work, WorkStep
from tritonlab.tools.measure.tuning.live_model import LiveModel, Measurement, NothingMeasured
from tritonlab.tools.measure.tuning.offered_load import Load, RequestPattern, loads_of
from tritonlab.tools.measure.tuning.replay import Numbers, Pace, ReplayedBatches, replay
from tritonlab.tools.measure.tuning.search import Calibration, ProbeResult, SearchResult, predict, search, space
from tritonlab.tools.measure.tuning.service_times import ServiceTimes
from tritonlab.tools.measure.tuning.settings_trial import Noise, PartGain, Trial, ranked, take_back_parts
from tritonlab.tools.measure.tuning.tune import Goal, tune
from tritonlab.tools.measure.tuning.tune_figures import gain_figure
from tritonlab.tools.measure.tuning.tune_result import TuneResult, TuneRun

__all__ = ["lab"]

MS = 1_000_000
CONFIG = config_of("max_batch_size: 16 dynamic_batching { } instance_group { count: 1 }")

IN_AND_OUT = ("INPUT0 FP32 -1; INPUT1 FP32 -1", "OUTPUT0 FP32 -1; OUTPUT1 FP32 -1")

Truth = Callable[[int, int], float]


class Clock:
    """A clock that moves when something is loaded or measured."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeLive:
    """A model whose executions take `truth(size, instances)` nanoseconds, times a draw of `ratios`."""

    name = "m"

    def __init__(self, truth: Truth, ratios: np.ndarray | None = None, config: ModelConfig = CONFIG) -> None:
        self.config = self.authored = config
        self.ensembles: dict[str, int] = {}
        self.clock = Clock()
        self.settings = self.first = Settings.from_config(config)
        self.loads: list[Settings] = []
        self.most = 99
        self.interrupt_after = 1_000
        self._truth = truth
        self._manner = RequestPattern(np.ones(1) if ratios is None else ratios, gap=20_000, think=80_000)

    def check(self) -> None:
        pass

    def load(self, settings: Settings) -> None:
        if settings.instances > self.most:
            raise ModelLoadError("there is no memory left")
        self.loads.append(settings)
        self.settings = settings
        self.clock.now += 0.1

    def reload(self, settings: Settings) -> Callable[[], None]:
        former = self.settings
        self.load(settings)
        return lambda: self.load(former)

    def restore(self) -> None:
        self.settings = self.first

    def measure(self, load: Load, seconds: float) -> Measurement:
        self.interrupt_after -= 1
        if self.interrupt_after < 0:
            raise KeyboardInterrupt
        self.clock.now += seconds
        ghosts = self.run(self.settings, load, 1_500, seed=self.interrupt_after)
        took = np.array(ghosts.end, float) - ghosts.start
        came = np.sort([request.queue_start for batch in ghosts.requests for request in batch])
        sizes = np.array(ghosts.size, float)
        gap = int(np.median(np.diff(came)))
        return Measurement(ghosts.numbers(skip=0.1), sizes, took, 10_000, 30_000, gap, self._manner.think)

    def run(self, settings: Settings, load: Load, requests: int, seed: int = 7) -> ReplayedBatches:
        rules, lanes = settings.batch_config(self.config), settings.instances
        pace = Pace(lambda size: self._truth(size, lanes), 10_000, 30_000)
        policies = QueuePolicies.from_config(settings.written(self.config))
        return replay(load.source(self._manner, requests, seed), rules, policies, lanes, pace)

    def does(self, settings: Settings, load: Load) -> Trial:
        """Return what settings truly do, measured for long."""
        return Trial(settings, load, self.run(settings, load, 2_000).numbers(skip=0.1))


class FallingLive(FakeLive):
    """A model whose executions are the shorter the more clients there are, such as one that waits for a timer or wakes
    a sleeping device: with one instance, the p99 is 111, 44, 35 and 13.5 ms at 1, 2, 4 and 8 clients.

    `noise`: the share by which windows differ, and now and then a stall of the machine, which makes a p99 longer.
    """

    EXECUTION_MS: ClassVar[dict[int, float]] = {1: 110.0, 2: 22.0, 4: 8.7}

    def __init__(self, noise: float = 0.0, seed: int = 0) -> None:
        super().__init__(self._execution, config=config_of("max_batch_size: 8 instance_group { count: 1 }"))
        self._clients = 1
        self._noise = noise
        self._random = np.random.default_rng(seed)
        self.measured: list[tuple[Settings, Load]] = []

    def _execution(self, size: int, lanes: int) -> float:
        return self.EXECUTION_MS.get(self._clients, 1.68) * MS * (0.9 + 0.1 * size)

    def measure(self, load: Load, seconds: float) -> Measurement:
        self.measured.append((self.settings, load))
        found = super().measure(load, seconds)
        if not self._noise:
            return found
        slower = float(np.exp(self._random.normal(0, self._noise)))
        stalled = slower * (1 + 3 * float(self._random.random() < 0.15))
        numbers = replace(
            found.numbers,
            p50=found.numbers.p50 * slower,
            p99=found.numbers.p99 * stalled,
            rate=found.numbers.rate / slower,
        )
        return replace(found, numbers=numbers)

    def run(self, settings: Settings, load: Load, requests: int, seed: int = 7) -> ReplayedBatches:
        self._clients = load.concurrency
        return super().run(settings, load, requests, seed)

    def truth(self, settings: Settings, goal: Goal) -> Trial:
        """Return what the settings do at their best load."""
        return max((self.does(settings, load) for load in goal.loads()), key=lambda one: one.rank(goal.p99_ms))


def tuned(live: FakeLive, **goal: float) -> TuneResult:
    goal = {"max_batch_size": min(4, live.first.max_batch_size), "max_instances": 2, **goal}
    return tune(live, Goal(**goal), live.reload, live.clock)  # type: ignore[arg-type]


def heavy(random: np.random.Generator) -> np.ndarray:
    return np.where(random.random(2_000) < 0.02, 5.0, random.uniform(0.95, 1.05, 2_000))


RANDOM = np.random.default_rng(3)
MODELS: dict[str, tuple[Truth, np.ndarray | None]] = {
    "fixed cost": (lambda size, lanes: 5 * MS, None),
    "linear": (lambda size, lanes: size * MS, None),
    "square root": (lambda size, lanes: 2 * MS * size**0.5, None),
    "noisy": (lambda size, lanes: (3 + 0.3 * size) * MS, RANDOM.uniform(0.6, 1.4, 2_000)),
    "heavy tail": (lambda size, lanes: (2 + 0.2 * size) * MS, heavy(RANDOM)),
    "slower in company": (lambda size, lanes: (2 + 0.4 * size) * MS * (1 + 0.8 * (lanes - 1)), None),
}


def test_it_reports_its_steps_and_stop_keeps_what_it_found() -> None:
    live, steps = FakeLive(*MODELS["linear"]), []

    class Watched(Work):
        def begin(self, text: str, *figures: tuple[str, str]) -> None:
            super().begin(text, *figures)
            steps.append((text, [name for name, _ in self.progress()["figures"]]))
            if figures:
                self.stopping.set()

    work = Watched("Tuning of m", 60, WorkStep("loading the model"), live.clock)
    goal = Goal(max_batch_size=4, max_instances=2, concurrency=4)
    result = tune(live, goal, live.reload, live.clock, work)  # type: ignore[arg-type]
    assert steps[0] == ("measuring batches with 1 instance", [])
    assert any(text.startswith("replaying ") for text, _ in steps)
    assert steps[-1][1] == ["requests/s, best of 1", "its p99"]
    assert result.run.stopped == "interrupted" and len(result.run.measured) == 2
    assert live.settings == live.first


@pytest.mark.parametrize("name", MODELS)
def test_the_winner_does_95_percent_of_the_exhaustive_optimum(name: str) -> None:
    live = FakeLive(*MODELS[name])
    result = tuned(live, p99_ms=20, max_instances=2, max_batch_size=8)
    best = result.best
    assert best is not None and result.run.seconds <= 60
    goal = Goal(20, max_instances=2, max_batch_size=8)
    # every fifth of the settings, which include all kinds, under the heavier half of the loads
    every = [live.does(one, load) for one in list(space(live.first, 2, 8))[::5] for load in goal.loads()[2:]]
    optimum = max(every, key=lambda one: one.rank(20))
    chosen = live.does(best.settings, best.load)
    assert chosen.numbers.p99 <= 22 * MS  # a p99 of few requests is off by some percent
    assert chosen.numbers.rate >= 0.95 * optimum.numbers.rate, (best.settings, optimum.settings)


def test_the_model_is_left_as_it_was_and_applied_when_somebody_says_so() -> None:
    live = FakeLive(*MODELS["fixed cost"])
    result = tuned(live, p99_ms=20, max_batch_size=16, concurrency=16)
    assert live.settings == live.first
    assert result.best is not None and result.best.settings != live.first
    with pytest.raises(UnavailableError, match="no settings were applied"):
        result.undo()
    result.apply()
    assert live.settings == result.best.settings
    assert f"count: {live.settings.instances}" in result.config
    result.apply()
    result.undo()
    assert live.settings == live.first
    with pytest.raises(UnavailableError, match="no settings were applied"):
        result.undo()


def test_an_interrupt_ends_it_with_what_was_found() -> None:
    live = FakeLive(*MODELS["fixed cost"])
    live.interrupt_after = 8  # the six probes, and two of the confirmations
    result = tuned(live, p99_ms=20)
    assert result.run.stopped == "interrupted" and len(result.confirmed) == 2
    assert live.settings == live.first and result.best is not None
    live = FakeLive(*MODELS["fixed cost"])
    live.interrupt_after = 3
    result = tuned(live, p99_ms=20)
    assert live.settings == live.first and result.best is None
    assert repr(result).endswith("(interrupted)")
    with pytest.raises(UnavailableError, match="interrupted before it found anything"):
        result.apply()


def test_a_number_of_instances_that_does_not_load_is_not_chosen() -> None:
    live = FakeLive(*MODELS["fixed cost"])
    live.most = 1
    result = tuned(live, p99_ms=20, max_instances=3)
    assert result.best is not None and result.best.settings.instances == 1
    assert "2 instances do not load: there is no memory left" in repr(result)
    live.most = 0
    with pytest.raises(ModelLoadError):
        tuned(live)


def test_what_would_end_an_ensemble_is_not_tried() -> None:
    live = FakeLive(*MODELS["linear"], config=config_of("max_batch_size: 8 instance_group { count: 1 }"))
    live.ensembles = {"small": 2, "whole": 8}
    result = tuned(live, p99_ms=20, max_batch_size=16)
    assert {one.max_batch_size for one in live.loads} <= {8, 16}
    assert {settings.max_batch_size for settings, _ in result.run.found.candidates} == {8, 16}
    line = "A max_batch_size of less than 8 was not tried: ensemble 'whole' needs 8, and would have stopped serving."
    assert line in repr(result)
    live.loads.clear()
    with pytest.raises(InvalidArgumentError, match="8 or more while ensemble 'whole' is loaded, not 4"):
        tuned(live, max_batch_size=4)
    assert live.loads == []
    live.ensembles = {"unbatched": 0}
    assert "was not tried" not in repr(tuned(live, p99_ms=20, max_batch_size=4))


def test_a_model_on_two_gpus_gets_as_many_instances_on_each() -> None:
    config = config_of(
        "max_batch_size: 4 dynamic_batching { } instance_group { count: 1 kind: KIND_GPU gpus: [ 0, 1 ] }"
    )
    live = FakeLive(*MODELS["linear"], config=config)
    tuned(live, max_instances=5, concurrency=8)
    assert {settings.instances for settings in live.loads} == {2, 4}
    with pytest.raises(InvalidArgumentError, match="max_instances must be 2 or more"):
        tuned(live, max_instances=1)


def test_a_limit_that_nobody_keeps_is_reported() -> None:
    result = tuned(FakeLive(*MODELS["fixed cost"]), p99_ms=1)
    assert "no settings keep p99 within 1 ms; these come nearest" in repr(result)


def test_of_a_rate_the_shortest_p99_wins() -> None:
    live = FakeLive(lambda size, lanes: 4 * MS)
    result = tuned(live, request_rate=400, max_instances=1)
    assert result.best is not None and result.best.settings.delay_us <= 500
    assert result.best.load == Load(rate=400)


def test_a_model_without_batches_gets_its_instances() -> None:
    config = config_of("max_batch_size: 0 instance_group { count: 1 }")
    result = tuned(FakeLive(lambda size, lanes: 4 * MS, config=config), max_instances=3)
    assert result.best is not None and result.best.settings == Settings(instances=3)


@pytest.fixture(scope="module")
def rooted() -> TuneResult:
    return tuned(FakeLive(*MODELS["square root"]), p99_ms=20)


def test_the_result_is_text_json_a_picture_and_a_page(rooted: TuneResult) -> None:
    result = rooted
    lines = repr(result).splitlines()
    assert lines[0].startswith("Tuning m with p99 <= 20 ms: ") and "4 measured live" in lines[0]
    assert len(lines) <= 40 and lines[-1].startswith("  front, predicted where not measured (p99 ms: requests/s): ")
    document = json.loads(json.dumps(result.to_dict()))
    assert document["best"]["p99_ms"] <= 20 and len(document["confirmed"]) == 4 and document["config"] == result.config
    svg, legend = read(result.figure())
    assert len([one for one in svg.iter("circle") if one.get("stroke") == "#1976d2"]) == 4
    assert {"p99 latency", "throughput, requests/s"} <= set(texts(svg))
    assert legend == ["predicted front", "the best, measured", "others, measured", "limit: p99 20 ms"]
    assert "<table" in result.html() and "dynamic_batching" in result.html()
    assert re.search("<th style='[^']*text-align:right[^']*'>p99 ms</th>", result.html())
    assert not re.search("<th style='[^']*text-align[^']*'>settings</th>", result.html())
    assert "(now)" in repr(result)


def test_the_result_has_the_gain_of_each_setting() -> None:
    result = tuned(FakeLive(*MODELS["fixed cost"]), p99_ms=20, concurrency=8, max_batch_size=4)
    assert result.best is not None and result.best.settings.instances == 2
    gains = {one["setting"]: one for one in result.to_dict()["bought"]}
    assert gains["max_batch_size"]["was"] == "16" and gains["instances"]["became"] == "2"
    doubled = gains["instances"]
    assert doubled["without"]["instances"] == doubled["without_live"]["instances"] == 1
    assert 60 < doubled["gain_percent"] < 110 and 60 < doubled["live_gain_percent"] < 110
    (line,) = (line for line in repr(result).splitlines() if line.startswith("  instances 1 -> 2"))
    assert f"{doubled['gain_percent']:+.0f}%" in line
    svg, legend = read(gain_figure(result._drawn_gains(), result._gained).svg())
    assert len(list(svg.iter("rect"))) == 2 * len(gains)
    assert legend == ["replayed", "measured"] and texts(svg)[-1] == "throughput gained, %"
    assert "gain of each setting" in result.html()
    assert "<svg" not in result.html() and "at " in result.html()
    assert re.findall("<img [^>]*alt='([^'\\n]{6})", result.html()) == ["Tuning", "gain o"]


def test_what_does_better_without_a_part_wins() -> None:
    config = config_of("max_batch_size: 4 instance_group { count: 1 }")

    def truth(size: int, lanes: int) -> float:
        probed = live.interrupt_after < 1_000 - 6
        return (4 if lanes > 1 and probed else 1) * 4 * MS  # they hinder each other, but did not in the probes

    live = FakeLive(truth, config=config)
    result = tuned(live, concurrency=8)
    assert result.best is not None and result.best.settings.dynamic and result.best.settings.instances == 1
    assert {one.settings.instances for one in result.confirmed[1:]} >= {2}
    assert [one.part for one in result.run.gains][:1] == ["dynamic_batching"]


def test_a_part_is_taken_back_with_what_depends_on_it() -> None:
    plain, batching = Settings(8, False, (), 0, 1), Settings(4, True, (2, 4), 500, 2)
    assert list(take_back_parts(batching, plain)) == [
        ("dynamic_batching", "no", "yes", Settings(4, False, (), 0, 2)),
        ("max_batch_size", "8", "4", Settings(8, True, (2, 4), 500, 2)),
        ("max_queue_delay_microseconds", "0 µs", "500 µs", Settings(4, True, (2, 4), 0, 2)),
        ("preferred_batch_size", "none", "2, 4", Settings(4, True, (), 500, 2)),
        ("instances", "1", "2", Settings(4, True, (2, 4), 500, 1)),
    ]
    smaller = Settings(3, True, (2, 4), 500, 2)
    assert list(take_back_parts(plain, smaller)) == [
        ("dynamic_batching", "yes", "no", Settings(8, True, (2, 4), 500, 1)),
        ("max_batch_size", "3", "8", Settings(3, False, (), 0, 1)),
        ("instances", "2", "1", Settings(8, False, (), 0, 2)),
    ]
    assert list(take_back_parts(plain, plain)) == []


FALLING = Goal(20, max_instances=1, max_batch_size=8)


def of_present(result: TuneResult) -> Trial:
    (found,) = (one for one in result.confirmed if one.settings == result.present)
    return found


def test_now_is_what_the_present_settings_do_at_the_load_that_suits_them() -> None:
    live = FallingLive()
    at = {clients: live.does(live.first, Load(concurrency=clients)).numbers for clients in (1, 2, 4, 8)}
    assert [round(one.p99 / MS) for one in at.values()] == [110, 44, 35, 14]
    assert at[8].rate > 47 * at[1].rate
    result = tuned(live, p99_ms=20, max_instances=1, max_batch_size=8)
    tried = {load.concurrency for settings, load in live.measured if settings == live.first}
    assert tried == {1, 2, 4, 8, 16}
    assert of_present(result).load == Load(concurrency=8)
    assert of_present(result).numbers.rate >= 0.95 * at[8].rate
    (line,) = (line for line in repr(result).splitlines() if line.startswith("  now, measured: "))
    assert "1 client 9/s, p99 110 ms" in line and "8 clients 5" in line
    facts = result.to_dict()["now_measured"]
    assert [one["concurrency"] for one in facts] == [1, 2, 4, 8, 16] and facts[3]["p99_ms"] < 20 < facts[2]["p99_ms"]


def test_a_short_budget_suffices_for_the_loads_of_the_present_settings() -> None:
    live = FallingLive()
    result = tuned(live, p99_ms=20, max_instances=1, max_batch_size=8, seconds=5.0)
    assert of_present(result).load == Load(concurrency=8) and len(result.now) == 5


def test_candidates_that_do_not_as_predicted_are_measured_at_other_loads() -> None:
    live = FallingLive()
    result = tuned(live, p99_ms=20, max_instances=1, max_batch_size=8)
    assert result.best is not None and result.best.keeps(20)
    best = live.truth(result.best.settings, FALLING)
    every = [live.truth(one, FALLING) for one in list(space(live.first, 1, 8))[::5]]
    optimum = max(every, key=lambda one: one.rank(20))
    assert result.best.numbers.rate >= 0.95 * best.numbers.rate
    assert best.numbers.rate >= 0.9 * optimum.numbers.rate, (best.settings, optimum.settings)


@pytest.mark.parametrize("seed", range(2))  # `python -m tests.benchmarks.tuning_now` makes 20 runs
def test_a_busy_machine_does_not_turn_the_order(seed: int) -> None:
    live = FallingLive(noise=0.2, seed=seed)
    result = tuned(live, p99_ms=20, max_instances=1, max_batch_size=8)
    now, best = live.truth(live.first, FALLING), live.truth(result.confirmed[0].settings, FALLING)
    assert live.does(live.first, of_present(result).load).numbers.rate >= 0.7 * now.numbers.rate
    assert best.rank(20) >= now.rank(20) or best.numbers.rate >= 0.8 * now.numbers.rate


def trial(p99: float, rate: float, clients: int = 1, **differing: int) -> Trial:
    return Trial(Settings(**differing), Load(concurrency=clients), Numbers(p99 * MS / 2, p99 * MS, rate, 1.0, 100))


def test_a_tie_on_p99_goes_to_the_throughput() -> None:
    slow, fast, late = trial(35.0, 9, 1), trial(35.5, 423, 8), trial(60.0, 900, 16)
    found = SearchResult({one.key: one for one in (slow, fast, late)})
    assert found.best(20) == [fast]
    slow, fast, late = map(as_predicted, (slow, fast, late))
    assert ranked([slow, fast, late], 20) == [fast, slow, late]
    kept = as_predicted(trial(19.0, 300, 4))
    assert ranked([fast, kept], 20)[0] == kept  # a limit is a limit
    # whose rate is fixed: a tie on both goes to the p99
    fixed = ((5.0, 200), (5.2, 390), (5.1, 400), (9.0, 401))
    rates = [replace(trial(p99, rate), load=Load(rate=400)) for p99, rate in fixed]
    assert [one.numbers.rate for one in ranked(map(as_predicted, rates), None)] == [400, 390, 200, 401]


def result_of(measured: list[Trial], *gains: PartGain, p99_ms: float = 20) -> TuneResult:
    candidates = {one.key: replace(one, windows=()) for one in measured}
    run = TuneRun(None, SearchResult(candidates), measured, list(gains), seconds=1.0)
    return TuneResult("m", Settings(max_batch_size=8), CONFIG, p99_ms, run, FakeLive(*MODELS["linear"]).reload)


def test_a_prediction_that_a_measurement_contradicts_is_not_reported_as_a_fact() -> None:
    right, wrong = trial(10.0, 400, 4, instances=1), trial(15.0, 900, 8, instances=2)
    slow = replace(wrong, windows=(replace(wrong.numbers, p99=60.0 * MS, rate=90.0),) * 4)
    result = result_of([as_predicted(right, 4), slow])
    assert result.best is not None and result.best.settings == right.settings and result.contradicted == [slow]
    assert [one.settings for one in result.front] == [right.settings] and "900" not in str(result.to_dict()["front"])
    assert "The replay is wrong for 1 of 2 measurements, by up to 10 times." in repr(result)
    assert [one["contradicts_prediction"] for one in result.to_dict()["confirmed"]] == [False, True]
    result = result_of([slow])
    assert result.front == [] and "front" not in repr(result)
    assert "by up to 10 times; its predictions are not shown." in repr(result) and "The replay" in result.html()


def test_a_replay_that_executed_nothing_is_wrong() -> None:
    nothing = Numbers(*[float("nan")] * 4, 0)
    result = result_of([replace(as_predicted(trial(10.0, 400)), predicted=nothing)])
    assert "wrong for 1 of 1 measurements, which it saw executing nothing; its pred" in repr(result)
    (confirmed,) = json.loads(json.dumps(result.to_dict(), allow_nan=False))["confirmed"]
    assert (confirmed["predicted"]["p99_ms"], confirmed["predicted"]["requests"]) == (None, 0)


def test_a_cache_that_answers_all_requests_is_named(tmp_path: Path) -> None:
    text = config(*IN_AND_OUT, "max_batch_size: 4 response_cache { enable: true }")
    write_model(tmp_path, "cached", ADD_SUB, text)
    with Server(tmp_path, model_control_mode="explicit", cache_config="local,size=1000000") as server:
        model = server.load("cached")
        shapes = {"INPUT0": [4], "INPUT1": [4]}
        with pytest.raises(InvalidArgumentError, match=r"its response cache .* give `inputs` as a function"):
            model.tune(seconds=2.0, max_instances=1, shapes=shapes)


def test_a_load_under_which_all_requests_fail_does_not_end_the_run() -> None:
    class Failing(FallingLive):
        def measure(self, load: Load, seconds: float) -> Measurement:
            if load.concurrency == 16 and self.settings == self.first:
                raise InternalError("all requests failed")
            return super().measure(load, seconds)

    result = tuned(Failing(), p99_ms=20, max_instances=1, max_batch_size=8)
    assert [one.load.concurrency for one in result.now] == [1, 2, 4, 8]
    assert "(now)" in repr(result) and "under 16 clients: all requests failed" in repr(result)


def test_a_time_in_which_no_request_is_answered_ends_the_run_with_what_was_found() -> None:
    class Slow(FakeLive):
        answered = 0

        def measure(self, load: Load, seconds: float) -> Measurement:
            self.answered -= 1
            if self.answered < 0:
                raise NothingMeasured(f"No request was answered within {seconds:.1f} s under {load}")
            return super().measure(load, seconds)

    live = Slow(lambda size, lanes: 5 * MS)
    result = tuned(live, max_instances=1, max_batch_size=8)
    assert result.best is None and result.run.stopped == "out of time" and live.settings == live.first
    first, note = repr(result).splitlines()
    assert first.endswith("(out of time)") and "No request was answered within" in note
    assert "allow more `seconds`" in note
    assert note.strip() in result.html()
    with pytest.raises(UnavailableError, match="the run was out of time before it found anything"):
        result.apply()
    live = Slow(lambda size, lanes: 5 * MS)
    live.answered = 8
    result = tuned(live, max_instances=1, max_batch_size=8)
    assert result.confirmed and result.run.stopped == "out of time" and "allow more `seconds`" in repr(result)


def test_a_replayed_gain_that_a_measurement_contradicts_is_not_reported_as_a_fact() -> None:
    better, worse = trial(10.0, 400, 4, instances=2), trial(10.0, 200, 4, instances=1)
    doubled = PartGain("instances", "1", "2", better, as_predicted(worse))
    nothing = PartGain("delay", "0", "1", better, worse.measured(better.numbers))
    unmeasured = PartGain("largest", "8", "4", better, worse)
    elsewhere = PartGain("instances", "1", "2", replace(better, load=Load(concurrency=9)), as_predicted(worse))
    result = result_of([as_predicted(better, 4)], doubled, nothing, unmeasured, elsewhere)
    assert result.gains == [doubled, nothing, unmeasured]  # those of another best are not its own
    rows = [line.split("requests/s")[1].split() for line in repr(result).splitlines() if "requests/s  " in line][-3:]
    assert rows == [["+100%", "+100%", "10"], ["wrong", "within", "noise", "10"], ["+100%", "10", "(replayed)"]]
    document = result.to_dict()["bought"]
    assert [one["contradicts_prediction"] for one in document] == [False, True, False]
    assert [one["within_noise"] for one in document] == [False, True, False]
    _, gains = stored(result.html())
    svg, _ = read(gains)
    bars = [bar for bar in svg.iter("rect") if bar.get("fill") == "#8e5bd0"]
    assert len(bars) == 2  # of the gains that nothing contradicts
    measured = [bar for bar in svg.iter("rect") if bar.get("fill") == "#1976d2" and bar.get("height") == "11"]
    assert len(measured) == 1 and texts(svg).count("within noise") == 1  # as the table says


def test_a_gain_that_was_replayed_only_is_hidden_where_the_replay_is_wrong() -> None:
    wrong, without = trial(15.0, 900, 8, instances=2), trial(90.0, 120, 8, instances=1)
    slow = replace(wrong, windows=(replace(wrong.numbers, p99=60.0 * MS, rate=90.0),) * 4)
    replayed = PartGain("instances", "1", "2", wrong, without)
    measured = replace(replayed, without=without.measured(replace(without.numbers, rate=60.0)))
    result = result_of([slow], replayed, measured)
    assert result.gains == [measured] and "+650%" not in repr(result) + result.html()
    assert "+50%" in repr(result) and "its predictions are not shown" in repr(result)


def test_the_best_of_predictions_alone_is_called_that() -> None:
    live = FakeLive(*MODELS["fixed cost"])
    live.interrupt_after = 6  # the probes
    assert "\n  best, as predicted: nothing was measured  " in repr(tuned(live, p99_ms=20))


def as_predicted(one: Trial, times: int = 1) -> Trial:
    """Return a prediction with so many measurements that confirm it."""
    return replace(one, windows=(one.predicted,) * times)


def confirmed(*rates: float, p99: float = 5 * MS, instances: int = 1) -> Trial:
    settings, load = Settings(instances=instances), Load(concurrency=4)
    windows = tuple(Numbers(1 * MS, p99, rate, 1.0, 100) for rate in rates)
    return Trial(settings, load, windows[0], windows)


def test_no_column_has_predictions_that_are_called_wrong() -> None:
    wrong = trial(15.0, 900, 8, instances=2)
    slow = replace(wrong, windows=(replace(wrong.numbers, p99=60.0 * MS, rate=90.0),) * 4)
    right = as_predicted(wrong, 4)
    for result, is_expected in ((result_of([slow]), False), (result_of([right]), True)):
        for text in (repr(result), result.html()):
            assert ("predicted/s" in text) is is_expected
            assert ("its predictions are not shown" in text) is not is_expected


def test_each_column_has_one_unit() -> None:
    best, late, slow = confirmed(400, 401), confirmed(400, 399, p99=19 * MS, instances=2), confirmed(99, instances=3)
    rows = [line.split() for line in repr(result_of([best, late, slow])).splitlines() if " clients " in line]
    assert [row[row.index("clients") + 1 :] for row in rows] == [
        ["400", "best", "1", "5", "best", "400", "5"],
        ["400", "within", "noise", "1", "19", "+280%", "400", "19"],
        ["99", "-75%", "1", "5", "within", "noise", "99", "5"],
    ]


def test_windows_that_do_not_agree_are_named() -> None:
    settings, load = Settings(max_batch_size=8), Load(concurrency=4)
    windows = tuple(Numbers(1 * MS, p99 * MS, 100, 1.0, 100) for p99 in (151, 64, 739))
    bistable = Trial(settings, load, windows[0], windows)
    result = result_of([bistable, confirmed(100, 90)], p99_ms=1000)
    sentence = "Unstable under 4 clients: the present settings had a p99 of 64, 151, 739 ms in windows of one load."
    assert sentence in repr(result) and sentence in result.html()
    assert "Unstable" not in repr(result_of([confirmed(100, 90)]))


def test_settings_within_noise_of_each_other_are_marked() -> None:
    best, near, far = confirmed(100, 104, 96), confirmed(97, 99, 101), confirmed(70, 71, 69)
    noise = Noise([best, near, far], None)
    assert 0.03 < noise.share < 0.05
    assert not noise.differ(near, best) and noise.differ(far, best)
    single = [confirmed(100), confirmed(88)]
    assert not Noise(single, None).differ(*single)  # as long as nothing was measured twice
    late = confirmed(120, p99=21 * MS)
    noise = Noise([best, late], 20)
    assert noise.differ(late, best) and noise.undecided(late, best)
    assert not noise.undecided(confirmed(120, p99=40 * MS), best)
    assert best.numbers.rate == 100 and best.numbers.requests == 300


def test_candidates_that_are_close_are_measured_again(rooted: TuneResult) -> None:
    assert rooted.as_good
    assert all(len(one.windows) > 1 for one in [rooted.confirmed[0], *rooted.as_good])
    assert "may be equally good: windows of the same settings differ by" in repr(rooted)
    hasty = tuned(FakeLive(*MODELS["square root"]), seconds=2.0, concurrency=8)
    assert sum(len(one.windows) for one in hasty.confirmed) <= 8 and hasty.run.seconds < 3


def test_what_makes_no_sense_is_refused() -> None:
    live = FakeLive(*MODELS["linear"])
    for wrong, text in (
        ({"p99_ms": 0}, "p99_ms must be more than 0"),
        ({"seconds": 0}, "seconds must be more than 0"),
        ({"max_instances": 0}, "max_instances must be 1 or more"),
        ({"concurrency": 2, "request_rate": 3}, "give only one of"),
        ({"concurrency": 0}, "concurrency must be 1 or more"),
        ({"request_rate": -1}, "a request rate must be more than 0"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            tuned(live, **wrong)
    with pytest.raises(InvalidArgumentError, match="arrivals must be two or more"):
        loads_of(None, None, [1.0], 4)
    assert live.loads == []


def test_a_search_that_is_cut_short_has_the_present_settings() -> None:
    times = ServiceTimes.fit(np.array([1.0, 16.0]), np.array([5.0 * MS, 5.0 * MS]))
    known = Calibration({1: ProbeResult(times, RequestPattern(np.ones(1)))})
    choices = list(space(Settings.from_config(CONFIG), 1, 16))
    found = search(choices, [Load(concurrency=4)], CONFIG, known, None, lambda: True)
    assert found.tried == 1 and found.best(None)[0].settings == Settings.from_config(CONFIG)
    assert predict(choices[0], Load(concurrency=4), CONFIG, known, 300).numbers.rate == pytest.approx(400, rel=0.1)
    assert SearchResult({}).best(None) == []


def test_the_ensemble_around_a_model_serves_on(lab: Lab) -> None:
    model = lab.load("inner", ADD_SUB, ADD_SUB_CONFIG + "max_batch_size: 4 dynamic_batching { }")
    steps = step("inner", "INPUT0=X INPUT1=X", "OUTPUT0=Y")
    (lab.write("around", "", ensemble_text(steps, batch=4)) / "1" / "model.py").unlink()
    around = lab.server.load("around")
    assert LiveModel(model, {}).ensembles == {"around": 4} and LiveModel(around, {}).ensembles == {}
    with pytest.raises(InvalidArgumentError, match="while ensemble 'around' is loaded"):
        model.tune(seconds=1.0, max_batch_size=2)
    assert around.ready()
    lab.server.unload("around")
    assert LiveModel(model, {}).ensembles == {}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "input 'INPUT0' of model 'untried' has shape .* where -1 is any size: give shapes="),
        ({"shapes": {"INPUT9": [4]}}, "has no input 'INPUT9', which shapes names"),
        ({"inputs": {"INPUT0": [[1.0]]}}, "expected 2 inputs but got 1"),
        ({"inputs": lambda number: {"INPUT0": [[1.0]]}}, "expected 2 inputs but got 1"),
        ({"inputs": {"INPUT0": [[1.0] * 3], "INPUT1": [[1.0] * 2]}}, "operands could not be broadcast"),
        ({"inputs": []}, "the list of inputs is empty"),
    ],
)
def test_requests_that_cannot_be_sent_are_refused_before_the_model_is_loaded_again(
    lab: Lab, options: dict[str, Any], text: str
) -> None:
    model = lab.load("untried", ADD_SUB, config(*IN_AND_OUT, "max_batch_size: 4", count=2))
    before = model.instances()
    with pytest.raises(TritonError, match=text):
        model.tune(seconds=1.0, **options)
    assert model.instances() == before


def test_a_model_that_runs_is_tuned_and_left_as_it_was(lab: Lab) -> None:
    model = lab.load("added", ADD_SUB, ADD_SUB_CONFIG + "max_batch_size: 4 dynamic_batching { }")
    before = model.config()
    with pytest.raises(TypeError, match="tune\\(\\) has no option 'p99'"):
        model.tune(p99=3)
    result = model.tune(seconds=3.0, max_instances=2, shapes={"INPUT0": [4], "INPUT1": [4]})
    assert model.config() == before and len(model.instances()) == 1
    assert result.confirmed and result.run.found.tried  # how many depends on how busy the machine is
    result.apply()
    assert len(model.instances()) == result.best.settings.instances
    result.undo()
    assert model.config() == before and len(model.instances()) == 1
