"""The tuner, which finds the settings of a model that do most within a limit of latency: it measures how long
executions take, searches by replay, and confirms the best live.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....core.config.model_config import ModelConfig
from ....core.status import InvalidArgumentError, TritonError
from ....core.unknown_option import UnknownOption
from ....ipc.link.interrupts import shielded
from ....server.api.model import Model
from .ablation import PartGain, taken_back
from .live_model import LiveModel, Measurement, NothingMeasured
from .measured_candidate import MeasuredCandidate, Noise, leaders, ranked
from .offered_load import Load, RequestPattern, loads_of
from .replay import Numbers
from .search import AGAIN, Calibration, Deadline, ProbeResult, SearchResult, Trial, best_first, predict, search, space
from .service_times import ServiceTimes
from .settings import Reload, Settings
from .tune_result import TuneResult, TuneRun
from .tuned_model import Written, not_written

#: How many of the best are confirmed live, besides the present settings.
CONFIRMED = 3
#: Shares of the budget for the probes and for the search, and for the gain of each setting, at the end; the rest is for
#: the confirmation.
_PROBES, _SEARCH, _ABLATION = 0.4, 0.25, 0.15
#: Shares of the budget for the present settings under several loads, and for telling these loads apart.
_PRESENT, _LOADS_APART = 0.15, 0.05
#: The share of what is left that candidates under other loads may take.
_OTHER_LOADS = 0.4
#: Seconds of a probe and of a window of the confirmation, least and most.
_PROBE, _WINDOW = (0.1, 0.6), (0.3, 2.0)
#: The present settings are measured under so many loads even when the time is over.
_SURELY = 5
#: How many windows of candidates are measured, at most, to separate them.
_WINDOWS = 4
#: Microseconds for which a batch waits in a probe, so that the clients' next requests come together.
_PROBE_DELAY_US = 500
#: A replay is a little off, so its prediction must stay so far below the limit.
_MARGIN = 0.9
_MOST_CLIENTS = 256
#: Candidates that are predicted to do this share of the best may be the best.
_NEARLY = 0.9

#: The options of `load_test` for the requests.
LOAD_OPTIONS = ("inputs", "weights", "shapes", "parameters", "priority", "timeout", "seed")


@dataclass
class Goal:
    """The goal of tuning: at most `p99_ms` milliseconds for 99 of 100 requests, under one of three kinds of load
    (`loads_of`), with at most so many instances and so large a batch, within `budget_s` seconds.
    """

    p99_ms: float | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    arrivals: Sequence[float] | None = None
    max_instances: int | None = None
    max_batch_size: int | None = None
    budget_s: float = 60.0

    def checked(self, present: Settings, ensembles: Mapping[str, int]) -> Goal:
        """Return the goal with its defaults filled in. `ensembles`: those around the model, with the max_batch_size
        that each of them needs. Raises InvalidArgumentError.
        """
        if self.p99_ms is not None and self.p99_ms <= 0:
            raise InvalidArgumentError(f"p99_ms must be more than 0, not {self.p99_ms:g}")
        if self.budget_s <= 0:
            raise InvalidArgumentError(f"budget_s must be more than 0, not {self.budget_s:g}")
        if self.max_instances is not None and self.max_instances < 1:
            raise InvalidArgumentError(f"max_instances must be 1 or more, not {self.max_instances}")
        if self.max_instances is not None and not present.counts(self.max_instances):
            least = present.devices
            wrong = f"max_instances must be {least} or more, one on each GPU, not {self.max_instances}"
            raise InvalidArgumentError(wrong)
        widest = present.changed(max_batch_size=self.max_batch_size)
        widest.check_serving(ensembles)
        instances = self.max_instances or max(present.instances, min(os.cpu_count() or 1, 4), 2)
        values = {**vars(self), "max_instances": instances, "max_batch_size": widest.max_batch_size}
        return Goal(**values)

    def allows(self, settings: Settings) -> bool:
        """Return whether settings are within the limits of a checked goal."""
        return settings.instances <= (self.max_instances or 1) and settings.max_batch_size <= (self.max_batch_size or 0)

    def loads(self) -> list[Load]:
        most = 2 * (self.max_batch_size or 1) * (self.max_instances or 1)
        return loads_of(self.concurrency, self.request_rate, self.arrivals, min(max(most, 2), _MOST_CLIENTS))


@dataclass
class _RunState:
    """The findings of a run so far."""

    calibration: Calibration | None = None
    found: SearchResult = field(default_factory=lambda: SearchResult({}))
    measured: list[MeasuredCandidate] = field(default_factory=list)
    gains: list[PartGain] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""

    def predicted(self, settings: Settings, load: Load, config: ModelConfig) -> Trial:
        """Return the prediction of the search, or a new one."""
        assert self.calibration is not None
        known = self.found.candidates.get((settings, load))
        return known or predict(settings, load, config, known=self.calibration, requests=AGAIN)

    def has_measured(self, trial: Trial) -> bool:
        """Return whether these settings were measured under this load."""
        return any((one.live.settings, one.live.load) == (trial.settings, trial.load) for one in self.measured)


def tune(model: LiveModel, goal: Goal, reload: Reload, clock: Callable[[], float] = time.monotonic) -> TuneResult:
    """Tune a model, and leave it loaded as it was. An interrupt, the end of the budget, or a time in which no request
    was answered, ends the run with what was found until then.
    """
    config, authored = model.config, model.authored
    present = Settings.from_config(config)
    ensembles = model.ensembles
    goal = goal.checked(present, ensembles)
    loads, work = goal.loads(), _RunState()
    model.check()  # before anything is loaded
    began = clock()
    deadline = Deadline(goal.budget_s, clock)
    try:
        work.calibration = calibrate(model, goal, deadline, work.notes)
        least = max(ensembles.values(), default=0)
        if least > 2:
            work.notes.append(_kept_serving(max(ensembles, key=lambda name: ensembles[name]), least))
        choices = list(dict.fromkeys(space(present, goal.max_instances or 1, goal.max_batch_size or 0, least)))
        until = deadline.expires_within(goal.budget_s * _SEARCH)
        work.found = search(
            settings=choices,
            loads=loads,
            config=config,
            known=work.calibration,
            p99_ms=_limit(goal.p99_ms),
            until=until,
        )
        confirm(model, config, goal=goal, work=work, deadline=deadline)
        measure_rivals(model, goal, work, deadline, spare=goal.budget_s * _ABLATION)
        ablate(model, config, goal=goal, work=work, deadline=deadline)
    except KeyboardInterrupt:
        work.stopped = "interrupted"
    except NothingMeasured as error:
        work.stopped = "out of time"
        work.notes.append(f"{error.message}: set a larger budget_s, or tune when the machine has less else to do.")
    finally:
        shielded(model.restore)  # an impatient second interrupt must not leave the model with a candidate's settings
    result = tuple(work.measured), tuple(work.gains), tuple(work.notes), clock() - began, work.stopped
    found = TuneRun(work.calibration, work.found, *result)
    return TuneResult(model.name, present, authored, goal.p99_ms, run=found, reload=reload)


def calibrate(model: LiveModel, goal: Goal, deadline: Deadline, notes: list[str]) -> Calibration:
    """Measure service times by batch size for each number of instances, all of them busy, with clients that fill
    batches of 1, 2, 4 and so on. The numbers of instances that could not be measured are in `notes`.
    """
    most, largest = goal.max_instances or 1, goal.max_batch_size or 0
    sizes = sorted({1, max(largest, 1), *(1 << n for n in range(largest.bit_length()))})
    each = float(np.clip(goal.budget_s * _PROBES / (most * len(sizes)), *_PROBE))
    until = deadline.expires_within(goal.budget_s * _PROBES)
    probed: dict[int, ProbeResult] = {}
    present = Settings.from_config(model.config)
    for instances in present.counts(most):
        if until() and probed:
            notes.append(f"{instances} and more instances were not measured, and are taken to be as fast as fewer.")
            break
        try:
            model.load(_batching(present.on(instances), largest))
        except TritonError as error:
            if not probed:
                raise
            notes.append(f"{instances} instances do not load: {error.message.partition(chr(10))[0]}")
            goal.max_instances = instances - 1
            break
        measured: list[Measurement] = []
        for size in (1, *sizes[:0:-1]):  # the ends first: sizes between them can be interpolated
            if len(measured) < 2 or not until():
                measured.append(model.measure(Load(concurrency=size * instances), each))
        probed[instances] = _probed(measured)
    return Calibration(probed)


def _kept_serving(ensemble: str, size: int) -> str:
    needs = f"ensemble '{ensemble}' needs {size}, and would have stopped serving"
    return f"A max_batch_size of less than {size} was not tried: {needs}."


def _batching(settings: Settings, largest: int) -> Settings:
    """Return settings under which batches of up to so many requests are made."""
    delay_us = _PROBE_DELAY_US if largest > 1 else 0
    return replace(settings, max_batch_size=largest, dynamic=largest > 1, preferred=(), delay_us=delay_us)


def _probed(measured: Sequence[Measurement]) -> ProbeResult:
    """Sum up the probes of one number of instances, of which the first had few clients and the next the most."""
    sizes, took = np.concatenate([one.sizes for one in measured]), np.concatenate([one.took for one in measured])
    times, most = ServiceTimes.fit(sizes, took), measured[min(1, len(measured) - 1)]
    ratios = took / np.array([times(int(size)) for size in sizes])
    return ProbeResult(times, RequestPattern(ratios, most.gap, measured[0].think), most.lead, most.turnaround)


def confirm(model: LiveModel, config: ModelConfig, goal: Goal, work: _RunState, deadline: Deadline) -> None:
    """Measure the best candidates live, each under the load under which it is predicted to do best, and the present
    settings under all loads. If the best miss the limit, latencies are longer than predicted: the best of those that
    keep it then are measured, too. If measurements contradict predictions, the predicted load may be the wrong one.
    """
    best = work.found.best(_limit(goal.p99_ms))
    chosen = _different([one for one in best if one.settings != Settings.from_config(config)])
    share = 1.0 if goal.p99_ms is None else 0.7
    # after the best: what is not measured any more when the time is over should be the least interesting
    _measure(model, chosen=chosen[:1], work=work, deadline=deadline, share=share / (len(chosen) + 1))
    measure_present(model, config, goal=goal, work=work, deadline=deadline)
    _measure(model, chosen=chosen[1:], work=work, deadline=deadline, share=share)
    better = [one for one in work.measured if one.live.settings != Settings.from_config(config)]
    if goal.p99_ms is not None and better and not any(one.live.keeps(goal.p99_ms) for one in better):
        longer = min(one.live.numbers.p99 / one.predicted.numbers.p99 for one in better)
        again = work.found.best(goal.p99_ms * _MARGIN / max(longer, 1.0))
        _measure(model, _different([one for one in again if not work.has_measured(one)]), work, deadline)
    measure_other_loads(model, config, goal=goal, work=work, deadline=deadline)


def measure_present(model: LiveModel, config: ModelConfig, goal: Goal, work: _RunState, deadline: Deadline) -> None:
    """Measure the present settings live under all loads, the predicted one and the most clients first, as long as there
    is time: where they do best is not left to a prediction, and latency need not rise with load.
    """
    present, loads = Settings.from_config(config), goal.loads()
    until = deadline.expires_within(goal.budget_s * _PRESENT)
    each = float(np.clip(goal.budget_s * _PRESENT / len(loads), *_PROBE))
    trials = [work.predicted(present, load, config) for load in loads]
    expected = best_first(trials, goal.p99_ms, lambda one: one, lambda one, other, figure: False)[0]
    for number, one in enumerate(dict.fromkeys((expected, *reversed(trials)))):
        if number >= _SURELY and until():
            break
        _measure_load(model, one, each, work)
    if not any(one.live.settings == present for one in work.measured):
        return
    measure_rivals(
        model, goal, work, deadline, spare=max(deadline.left - goal.budget_s * _LOADS_APART, 0.0), settings=present
    )


def measure_other_loads(model: LiveModel, config: ModelConfig, goal: Goal, work: _RunState, deadline: Deadline) -> None:
    """Measure the candidates under the other loads, too, if any measurement contradicts its prediction."""
    noise = Noise(work.measured, goal.p99_ms)
    if not any(noise.contradicts(one) for one in work.measured):
        return
    until = deadline.expires_within(deadline.left * _OTHER_LOADS)
    for leader in leaders(ranked(work.measured, goal.p99_ms)):
        for load in reversed(goal.loads()):
            one = work.predicted(leader.live.settings, load, config)
            if until():
                return
            if not work.has_measured(one):
                _measure_load(model, one, _PROBE[1], work)


def _measure_load(model: LiveModel, one: Trial, seconds: float, work: _RunState) -> None:
    """Measure settings under one of several loads; where all requests fail, say so and go on."""
    try:
        work.measured.append(MeasuredCandidate(one, (_window(model, one, seconds),)))
    except TritonError as error:
        work.notes.append(_not_measured(one, error))


def _not_measured(one: Trial, error: TritonError) -> str:
    return f"{one.settings} under {one.load}: {error.message.partition(chr(10))[0]}"


def _different(best: Sequence[Trial]) -> list[Trial]:
    """Return the best candidates to measure: those of another number of instances or another load before those that
    differ in a delay alone, as long as little is lost. An error of a replay is the same for all of one kind.
    """
    kinds: dict[tuple[int, Load], Trial] = {}
    for one in best:
        if one.numbers.rate >= _NEARLY * best[0].numbers.rate:
            kinds.setdefault((one.settings.instances, one.load), one)
    others = (one for one in best if one not in kinds.values())
    return [*kinds.values(), *others][:CONFIRMED]


def _limit(p99_ms: float | None) -> float | None:
    return None if p99_ms is None else p99_ms * _MARGIN


def _measure(
    model: LiveModel, chosen: Sequence[Trial], work: _RunState, deadline: Deadline, share: float = 1.0
) -> None:
    """Measure candidates live within a share of the time that is left, at least one."""
    each = deadline.left * share / max(len(chosen), 1) - 0.5  # a load takes its time, too
    for candidate in chosen:
        if not deadline.left and work.measured:
            work.stopped = "the budget was used up"
            return
        window = _window(model, candidate, float(np.clip(each, *_WINDOW)))
        work.measured.append(MeasuredCandidate(candidate, (window,)))


def _window(model: LiveModel, candidate: Trial, seconds: float) -> Numbers:
    model.load(candidate.settings)
    return model.measure(candidate.load, seconds).numbers


def measure_rivals(
    model: LiveModel,
    goal: Goal,
    work: _RunState,
    deadline: Deadline,
    spare: float = 0.0,
    settings: Settings | None = None,
) -> None:
    """Measure the best and those that may be better again, in turns, so that the machine's other work meets all of
    them, until they surely differ or the time is over but for so many seconds to spare. Given `settings`, tell their
    loads apart.
    """
    cost = 0.0
    for _ in range(_WINDOWS - 1):
        pool = [one for one in work.measured if settings in (None, one.live.settings)]
        best, *others = ranked(pool, goal.p99_ms)
        noise, first = Noise(work.measured, goal.p99_ms), leaders([best, *others])
        if settings is None:  # of the loads of one settings, those are left that may be within the limit, too
            others = [one for one in others if one in first or not one.live.keeps(goal.p99_ms)]
        rivals = [one for one in others if noise.undecided(one, best)]
        for one in [best, *rivals] if rivals else []:
            before = deadline.left
            if before <= spare + cost:
                return
            again = one.with_window(_window(model, one.predicted, _WINDOW[1] / 2))
            work.measured[work.measured.index(one)] = again
            cost = max(cost, before - deadline.left)
        if not rivals:
            return


def ablate(model: LiveModel, config: ModelConfig, goal: Goal, work: _RunState, deadline: Deadline) -> None:
    """Take back one part of the best settings at a time. What does better without a part than with it is confirmed as
    the others are; if another is the best then, its own parts are taken back.
    """
    while True:
        best = ranked(work.measured, goal.p99_ms)[0]
        work.gains = _part_gains(model, config, best=best.predicted, work=work, deadline=deadline)
        fewer = [MeasuredCandidate(one.without, (one.live.numbers,)) for one in work.gains if one.live is not None]
        work.measured += [
            one
            for one in fewer
            if not work.has_measured(one.live)
            and goal.allows(one.live.settings)
            and ranked([best, one], goal.p99_ms)[0] is one
        ]
        measure_rivals(model, goal, work, deadline)
        now_best = ranked(work.measured, goal.p99_ms)[0].live
        if (now_best.settings, now_best.load) == (best.live.settings, best.live.load):
            return


def _part_gains(
    model: LiveModel, config: ModelConfig, best: Trial, work: _RunState, deadline: Deadline
) -> list[PartGain]:
    """Replay the best settings without each part, and measure that live as long as there is time."""
    known, cost, found = work.calibration, 0.0, []
    assert known is not None
    whole = predict(best.settings, best.load, config, known, requests=AGAIN, seed=2)
    for part, was, became, settings in taken_back(best.settings, Settings.from_config(config)):
        without = predict(settings, best.load, config, known, requests=AGAIN, seed=2)
        before, measured = deadline.left, None
        if before > cost:
            try:
                measured = replace(without, numbers=_window(model, without, float(np.clip(before / 8, *_WINDOW))))
            except TritonError as error:
                work.notes.append(_not_measured(without, error))
            cost = max(cost, before - deadline.left)
        found.append(PartGain(part, was, became, with_it=whole, without=without, live=measured))
    return found


def tune_model(
    model: Model, options: Mapping[str, Any], written: Callable[[], Written | None] = not_written
) -> TuneResult:
    """Run `Model.tune`. Raises UnknownOption."""
    UnknownOption.check("tune", options, [*Goal.__dataclass_fields__, *LOAD_OPTIONS])
    goal = {key: value for key, value in options.items() if key in Goal.__dataclass_fields__}
    load = {key: value for key, value in options.items() if key in LOAD_OPTIONS}
    live = LiveModel(model, load, written)
    return tune(live, Goal(**goal), live.reload)
