"""Tuning models that are simulated: what it chooses does at least 95 % of what the best settings of all do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.ensembles import ensemble_text, step
from tests.serving import ADD_SUB, ADD_SUB_CONFIG, Lab, config, lab
from tests.tuning.scheduler_bench import config_of
from tritonlab.core.model_config import ModelConfig
from tritonlab.core.status import InvalidArgumentError, ModelLoadError, TritonError, UnavailableError
from tritonlab.schedulers.policy_queue import QueuePolicies
from tritonlab.tuning.ablation import taken_back
from tritonlab.tuning.gain_figure import gain_figure
from tritonlab.tuning.live_model import LiveModel, Measurement
from tritonlab.tuning.measured_candidate import MeasuredCandidate, Noise
from tritonlab.tuning.offered_load import Load, RequestPattern, loads_of
from tritonlab.tuning.replay import Numbers, Pace, ReplayedBatches, replay
from tritonlab.tuning.search import Calibration, ProbeResult, SearchResult, Trial, predict, search, space
from tritonlab.tuning.service_times import ServiceTimes
from tritonlab.tuning.settings import Settings
from tritonlab.tuning.tune import Goal, tune
from tritonlab.tuning.tune_result import TuneResult

__all__ = ["lab"]

MS = 1_000_000
CONFIG = config_of("max_batch_size: 16 dynamic_batching { } instance_group { count: 1 }")

IN_AND_OUT = ("INPUT0 FP32 -1; INPUT1 FP32 -1", "OUTPUT0 FP32 -1; OUTPUT1 FP32 -1")

Truth = Callable[[int, int], float]


class Clock:
    """Passes when something is loaded or measured."""

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
        """What they truly do, measured for long."""
        return Trial(settings, load, self.run(settings, load, 2_000).numbers(skip=0.1))


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
    said = "A max_batch_size of less than 8 was not tried: ensemble 'whole' needs 8, and would have stopped serving."
    assert said in repr(result)
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


def test_a_limit_that_nobody_keeps_is_said() -> None:
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
    assert len(lines) <= 40 and lines[-1].startswith("  front, predicted (p99 ms: requests/s): ")
    told = json.loads(json.dumps(result.to_dict()))
    assert told["best"]["p99_ms"] <= 20 and len(told["confirmed"]) == 4 and told["config"] == result.config
    svg = ElementTree.fromstring(result.figure())
    assert len([one for one in svg.iter("circle") if one.get("stroke") == "#1976d2"]) == 4
    assert "<table" in result.html() and "dynamic_batching" in result.html()
    assert "(now)" in repr(result)


def test_the_result_has_the_gain_of_each_setting() -> None:
    result = tuned(FakeLive(*MODELS["fixed cost"]), p99_ms=20, concurrency=8, max_batch_size=4)
    assert result.best is not None and result.best.settings.instances == 2
    told = {one["setting"]: one for one in result.to_dict()["bought"]}
    assert told["max_batch_size"]["was"] == "16" and told["instances"]["became"] == "2"
    doubled = told["instances"]
    assert doubled["without"]["instances"] == doubled["without_live"]["instances"] == 1
    assert 60 < doubled["gain_percent"] < 110 and 60 < doubled["live_gain_percent"] < 110
    (line,) = (line for line in repr(result).splitlines() if line.startswith("  instances 1 -> 2"))
    assert f"{doubled['gain_percent']:+.0f}%" in line
    svg = ElementTree.fromstring(gain_figure(result.run.gains, result.best))
    assert len(list(svg.iter("rect"))) == 2 * len(told)
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
    assert {one.settings.instances for one in (each.live for each in result.confirmed[1:])} >= {2}
    assert [one.part for one in result.run.gains][:1] == ["dynamic_batching"]


def test_a_part_is_taken_back_with_what_depends_on_it() -> None:
    plain, batching = Settings(8, False, (), 0, 1), Settings(4, True, (2, 4), 500, 2)
    assert list(taken_back(batching, plain)) == [
        ("dynamic_batching", "no", "yes", Settings(4, False, (), 0, 2)),
        ("max_batch_size", "8", "4", Settings(8, True, (2, 4), 500, 2)),
        ("max_queue_delay_microseconds", "0 us", "500 us", Settings(4, True, (2, 4), 0, 2)),
        ("preferred_batch_size", "none", "2, 4", Settings(4, True, (), 500, 2)),
        ("instances", "1", "2", Settings(4, True, (2, 4), 500, 1)),
    ]
    smaller = Settings(3, True, (2, 4), 500, 2)
    assert list(taken_back(plain, smaller)) == [
        ("dynamic_batching", "yes", "no", Settings(8, True, (2, 4), 500, 1)),
        ("max_batch_size", "3", "8", Settings(3, False, (), 0, 1)),
        ("instances", "2", "1", Settings(8, False, (), 0, 2)),
    ]
    assert list(taken_back(plain, plain)) == []


def confirmed(*rates: float, p99: float = 5 * MS, instances: int = 1) -> MeasuredCandidate:
    settings, load = Settings(instances=instances), Load(concurrency=4)
    windows = tuple(Numbers(1 * MS, p99, rate, 1.0, 100) for rate in rates)
    return MeasuredCandidate(Trial(settings, load, windows[0]), windows)


def test_settings_within_noise_of_each_other_are_said_to_be() -> None:
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
    assert best.live.numbers.rate == 100 and best.live.numbers.requests == 300


def test_candidates_that_are_close_are_measured_again(rooted: TuneResult) -> None:
    assert rooted.as_good
    assert all(len(one.windows) > 1 for one in [rooted.confirmed[0], *rooted.as_good])
    assert "may be equally good: windows of the same settings differ by" in repr(rooted)
    hasty = tuned(FakeLive(*MODELS["square root"]), budget_s=2.0, concurrency=8)
    assert sum(len(one.windows) for one in hasty.confirmed) <= 8 and hasty.run.seconds < 3


def test_what_makes_no_sense_is_refused() -> None:
    live = FakeLive(*MODELS["linear"])
    for wrong, said in (
        ({"p99_ms": 0}, "p99_ms must be more than 0"),
        ({"budget_s": 0}, "budget_s must be more than 0"),
        ({"max_instances": 0}, "max_instances must be 1 or more"),
        ({"concurrency": 2, "request_rate": 3}, "give only one of"),
        ({"concurrency": 0}, "concurrency must be 1 or more"),
        ({"request_rate": -1}, "a request rate must be more than 0"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
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
        model.tune(budget_s=1.0, max_batch_size=2)
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
        model.tune(budget_s=1.0, **options)
    assert model.instances() == before


def test_a_model_that_runs_is_tuned_and_left_as_it_was(lab: Lab) -> None:
    model = lab.load("added", ADD_SUB, ADD_SUB_CONFIG + "max_batch_size: 4 dynamic_batching { }")
    before = model.config()
    with pytest.raises(TypeError, match="tune\\(\\) has no option 'p99'"):
        model.tune(p99=3)
    result = model.tune(budget_s=3.0, max_instances=2, shapes={"INPUT0": [4], "INPUT1": [4]})
    assert model.config() == before and len(model.instances()) == 1
    assert result.confirmed and result.run.found.tried  # how many depends on how busy the machine is
    result.apply()
    assert len(model.instances()) == result.best.settings.instances
    result.undo()
    assert model.config() == before and len(model.instances()) == 1
