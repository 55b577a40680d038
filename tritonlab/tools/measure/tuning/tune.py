"""The tuner, which finds the best settings of a model within a latency limit: it measures execution times, searches by
replay, and confirms the best live.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....core.short_number import duration_text, short_number
from ....core.status import InvalidArgumentError, TritonError
from ....core.unknown_option import UnknownOption
from ....ipc.link.interrupts import shielded
from ....notebook.authoring.settings import Settings
from ....notebook.authoring.workspace import Workspace
from ....notebook.views.work_view import Work, WorkStep, shown_work
from ....server.api.model import Model
from .live_model import LiveModel, Measurement, NothingMeasured
from .offered_load import Load, RequestPattern, loads_of
from .search import AGAIN, Calibration, Deadline, ProbeResult, predict, search, space
from .service_times import ServiceTimes
from .settings_result import Reload
from .settings_trial import Noise, PartGain, Trial, leaders, ranked, take_back_parts
from .tune_result import TuneResult, TuneRun

#: How many of the best settings are confirmed live, besides the present ones.
CONFIRMED = 3
#: Shares of the budget: for the probes, for the search, and at the end for the gain of each setting; the rest is for
#: the confirmation.
_PROBES, _SEARCH, _ABLATION = 0.4, 0.25, 0.15
#: Shares of the budget: for the present settings under several loads, and for separating these loads.
_PRESENT, _LOADS_APART = 0.15, 0.05
#: The most that candidates under other loads may take, as a share of the remaining budget.
_OTHER_LOADS = 0.4
#: The least and the most seconds of a probe and of a confirmation window.
_PROBE, _WINDOW = (0.1, 0.6), (0.3, 2.0)
#: The present settings are measured under so many loads even after the time is over.
_SURELY = 5
#: The most windows of candidates that are measured to separate them.
_WINDOWS = 4
#: Microseconds for which a batch waits in a probe, so that the clients' next requests arrive together.
_PROBE_DELAY_US = 500
#: Replays have small errors, so a prediction must be so far below the limit.
_MARGIN = 0.9
_MOST_CLIENTS = 256
#: Candidates with this share of the best prediction may be the best.
_NEARLY = 0.9

#: The options of `load_test` about the requests.
LOAD_OPTIONS = ("inputs", "weights", "shapes", "parameters", "priority", "timeout", "seed")


@dataclass
class Goal:
    """The goal of tuning: at most `p99_ms` milliseconds for 99 of 100 requests, under one of three kinds of load
    (`loads_of`), with limits for the number of instances and the batch size, within `seconds` seconds.
    """

    p99_ms: float | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    arrivals: Sequence[float] | None = None
    max_instances: int | None = None
    max_batch_size: int | None = None
    seconds: float = 60.0

    def complete(self, present: Settings, ensembles: Mapping[str, int]) -> Goal:
        """Return the goal with its defaults filled in. `ensembles`: the ensembles that contain the model, with the
        max_batch_size that each needs. Raises InvalidArgumentError.
        """
        if self.p99_ms is not None and self.p99_ms <= 0:
            raise InvalidArgumentError(f"p99_ms must be more than 0, not {self.p99_ms:g}")
        if self.seconds <= 0:
            raise InvalidArgumentError(f"seconds must be more than 0, not {self.seconds:g}")
        if self.max_instances is not None and self.max_instances < 1:
            raise InvalidArgumentError(f"max_instances must be 1 or more, not {self.max_instances}")
        if self.max_instances is not None and not present.counts(self.max_instances):
            least = present.devices
            wrong = f"max_instances must be {least} or more, one on each GPU, not {self.max_instances}"
            raise InvalidArgumentError(wrong)
        widest = present.changed(max_batch_size=self.max_batch_size)
        widest.check_serving(ensembles)
        instances = self.max_instances or max(present.instances, min(os.cpu_count() or 1, 4), 2)
        return replace(self, max_instances=instances, max_batch_size=widest.max_batch_size)

    def allows(self, settings: Settings) -> bool:
        """Return whether settings are within the limits of a checked goal."""
        return settings.instances <= (self.max_instances or 1) and settings.max_batch_size <= (self.max_batch_size or 0)

    def loads(self) -> list[Load]:
        most = 2 * (self.max_batch_size or 1) * (self.max_instances or 1)
        return loads_of(self.concurrency, self.request_rate, self.arrivals, min(max(most, 2), _MOST_CLIENTS))


def tune(
    model: LiveModel,
    goal: Goal,
    reload: Reload,
    clock: Callable[[], float] = time.monotonic,
    work: Work | None = None,
) -> TuneResult:
    """Tune a model, and leave it loaded as before. The run ends with the findings so far on an interrupt or Stop of
    `work`, at the end of the time, or if no request was answered for some time.
    """
    authored, tuning = model.authored, _Tuning(model, goal, clock, work)
    run = tuning.run
    try:
        tuning.go()
    except KeyboardInterrupt:
        run.stopped = "interrupted"
    except NothingMeasured as error:
        run.stopped = "out of time"
        run.notes.append(f"{error.message}: allow more `seconds`, or tune when the machine has less else to do.")
    finally:
        shielded(model.restore)  # after an impatient second interrupt the model must not keep a candidate's settings
    run.seconds = tuning.deadline.spent
    return TuneResult(model.name, tuning.present, authored, goal.p99_ms, run=run, reload=reload)


class _Tuning:
    """The steps of one run. `run` has the findings so far."""

    def __init__(self, model: LiveModel, goal: Goal, clock: Callable[[], float], work: Work | None = None) -> None:
        self.model = model
        self._work = work
        self.config = model.config
        self.present = Settings.from_config(self.config)
        self.ensembles = model.ensembles
        self.goal = goal.complete(self.present, self.ensembles)
        self.p99_ms = goal.p99_ms
        #: for predictions
        self.limit = None if goal.p99_ms is None else goal.p99_ms * _MARGIN
        self.loads = self.goal.loads()
        model.check()  # before the first load
        self.run = TuneRun()
        self.deadline = Deadline(goal.seconds, clock)

    def begin(self, text: str) -> None:
        """Report the next step, with the best settings so far. Raises KeyboardInterrupt once Stop was pressed."""
        work = self._work
        if work is None:
            return
        if work.stopping.is_set():
            raise KeyboardInterrupt
        measured = ranked(self.run.measured, self.p99_ms)[:1]
        best = [(f"requests/s, best of {len(self.run.measured)}", short_number(one.numbers.rate)) for one in measured]
        p99 = [("its p99", duration_text(one.numbers.p99 / 1e9)) for one in measured]
        work.begin(text, *best, *p99)

    def go(self) -> None:
        goal, run = self.goal, self.run
        run.calibration = self.calibrate()
        least = max(self.ensembles.values(), default=0)
        if least > 2:
            needs = max(self.ensembles, key=lambda name: self.ensembles[name])
            run.notes.append(
                f"A max_batch_size of less than {least} was not tried: ensemble '{needs}' needs {least}, and would "
                "have stopped serving."
            )
        choices = list(dict.fromkeys(space(self.present, goal.max_instances or 1, goal.max_batch_size or 0, least)))
        until = self.deadline.expires_within(goal.seconds * _SEARCH)
        self.begin(f"replaying {len(choices):,} settings")
        run.found = search(choices, self.loads, self.config, run.calibration, self.limit, until)
        self.confirm()
        self.measure_rivals(spare=goal.seconds * _ABLATION)
        self.ablate()

    def calibrate(self) -> Calibration:
        """Measure execution times by batch size for each number of instances, all busy, with clients that fill batches
        of 1, 2, 4 and so on. Numbers of instances that could not be measured are named in the notes.
        """
        goal, notes = self.goal, self.run.notes
        most, largest = goal.max_instances or 1, goal.max_batch_size or 0
        sizes = sorted({1, max(largest, 1), *(1 << n for n in range(largest.bit_length()))})
        each = float(np.clip(goal.seconds * _PROBES / (most * len(sizes)), *_PROBE))
        until = self.deadline.expires_within(goal.seconds * _PROBES)
        probed: dict[int, ProbeResult] = {}
        for instances in self.present.counts(most):
            if until() and probed:
                notes.append(f"{instances} and more instances were not measured, and are taken to be as fast as fewer.")
                break
            self.begin(f"measuring batches with {instances} instance{'s' * (instances > 1)}")
            try:
                self.model.load(_batching(self.present.on(instances), largest))
            except TritonError as error:
                if not probed:
                    raise
                notes.append(f"{instances} instances do not load: {_first_line(error)}")
                goal.max_instances = instances - 1
                break
            measured: list[Measurement] = []
            for size in (1, *sizes[:0:-1]):  # the ends first: times of sizes between them can be interpolated
                if len(measured) < 2 or not until():
                    measured.append(self.model.measure(Load(concurrency=size * instances), each))
            probed[instances] = _sum_up(measured)
        return Calibration(probed)

    def confirm(self) -> None:
        """Measure the best candidates live, each under its best predicted load, and the present settings under all
        loads.

        If the best exceed the limit, latencies are longer than predicted: the best candidates that would still keep it
        are measured, too. If measurements contradict predictions, the predicted load may be the wrong one.
        """
        run, p99_ms = self.run, self.p99_ms
        chosen = _choose_different([one for one in run.found.best(self.limit) if one.settings != self.present])
        share = 1.0 if p99_ms is None else 0.7
        # after the best: the least interesting comes last, in case the time ends
        self.measure_candidates(chosen[:1], share / (len(chosen) + 1))
        self.measure_present()
        self.measure_candidates(chosen[1:], share)
        better = [one for one in run.measured if one.settings != self.present]
        if p99_ms is not None and better and not any(one.keeps(p99_ms) for one in better):
            longer = min(one.numbers.p99 / one.predicted.p99 for one in better)
            again = run.found.best(p99_ms * _MARGIN / max(longer, 1.0))
            self.measure_candidates(_choose_different([one for one in again if not run.has_measured(one)]))
        self.measure_other_loads()

    def measure_present(self) -> None:
        """Measure the present settings live under all loads, first the predicted one and the most clients, while there
        is time: their best load must be measured, and latency need not rise with load.
        """
        seconds, loads = self.goal.seconds, self.goal.loads()
        until = self.deadline.expires_within(seconds * _PRESENT)
        each = float(np.clip(seconds * _PRESENT / len(loads), *_PROBE))
        trials = [self.predict(self.present, load) for load in loads]
        expected = max(trials, key=lambda one: one.rank(self.p99_ms))
        for number, one in enumerate(dict.fromkeys((expected, *reversed(trials)))):
            if number >= _SURELY and until():
                break
            self.measure_load(one, each)
        if any(one.settings == self.present for one in self.run.measured):
            self.measure_rivals(max(self.deadline.left - seconds * _LOADS_APART, 0.0), self.present)

    def measure_other_loads(self) -> None:
        """Measure the candidates under the other loads, too, if any measurement contradicts its prediction."""
        run = self.run
        noise = Noise(run.measured, self.p99_ms)
        if not any(noise.contradicts(one) for one in run.measured):
            return
        until = self.deadline.expires_within(self.deadline.left * _OTHER_LOADS)
        for leader in leaders(ranked(run.measured, self.p99_ms)):
            for load in reversed(self.goal.loads()):
                one = self.predict(leader.settings, load)
                if until():
                    return
                if not run.has_measured(one):
                    self.measure_load(one, _PROBE[1])

    def measure_rivals(self, spare: float = 0.0, settings: Settings | None = None) -> None:
        """Measure the best and those that may still be better, in turns, so that other work of the machine affects all
        of them equally.

        It ends when they surely differ, or when only `spare` seconds are left. Given `settings`, separate their loads.
        """
        cost, p99_ms, measured = 0.0, self.p99_ms, self.run.measured
        for _ in range(_WINDOWS - 1):
            best, *others = ranked([one for one in measured if settings in (None, one.settings)], p99_ms)
            noise, first = Noise(measured, p99_ms), leaders([best, *others])
            if settings is None:  # keep the best load of each settings, and loads that may yet be within the limit
                others = [one for one in others if one in first or not one.keeps(p99_ms)]
            rivals = [one for one in others if noise.undecided(one, best)]
            for one in [best, *rivals] if rivals else []:
                before = self.deadline.left
                if before <= spare + cost:
                    return
                measured[measured.index(one)] = self.measure(one, _WINDOW[1] / 2)
                cost = max(cost, before - self.deadline.left)
            if not rivals:
                return

    def ablate(self) -> None:
        """Take back one part of the best settings at a time. If settings are better without a part, they are confirmed
        like the others; if the best settings change, their own parts are taken back.
        """
        run, p99_ms = self.run, self.p99_ms
        while True:
            best = ranked(run.measured, p99_ms)[0]
            run.gains = self._measure_gains(best)
            fewer = [one.without for one in run.gains if one.without.windows]
            run.measured += [
                one
                for one in fewer
                if not run.has_measured(one)
                and self.goal.allows(one.settings)
                and ranked([best, one], p99_ms)[0] is one
            ]
            self.measure_rivals()
            if ranked(run.measured, p99_ms)[0].key == best.key:
                return

    def _measure_gains(self, best: Trial) -> list[PartGain]:
        """Replay the best settings without each part, and measure each of these live while there is time."""
        cost, found = 0.0, []
        whole = self._replay(best.settings, best.load, seed=2)
        for part, was, became, settings in take_back_parts(best.settings, self.present):
            without = self._replay(settings, best.load, seed=2)
            before = self.deadline.left
            if before > cost:
                without = self._try_to_measure(without, float(np.clip(before / 8, *_WINDOW))) or without
                cost = max(cost, before - self.deadline.left)
            found.append(PartGain(part, was, became, with_it=whole, without=without))
        return found

    def predict(self, settings: Settings, load: Load) -> Trial:
        """Return the search's prediction, or make a new one."""
        return self.run.found.candidates.get((settings, load)) or self._replay(settings, load)

    def _replay(self, settings: Settings, load: Load, seed: int = 0) -> Trial:
        assert self.run.calibration is not None
        return predict(settings, load, self.config, self.run.calibration, requests=AGAIN, seed=seed)

    def measure(self, trial: Trial, seconds: float) -> Trial:
        """Return the trial with one additional window. Raises TritonError if all requests fail."""
        self.begin(f"measuring {trial.settings} under {trial.load}")
        self.model.load(trial.settings)
        return trial.measured(self.model.measure(trial.load, seconds).numbers)

    def _try_to_measure(self, trial: Trial, seconds: float) -> Trial | None:
        """Return the trial with one additional window; None, with a note, if all requests fail."""
        try:
            return self.measure(trial, seconds)
        except TritonError as error:
            self.run.notes.append(f"{trial.settings} under {trial.load}: {_first_line(error)}")
            return None

    def measure_load(self, trial: Trial, seconds: float) -> None:
        """Measure settings under one of several loads; if all requests fail, add a note and continue."""
        if (measured := self._try_to_measure(trial, seconds)) is not None:
            self.run.measured.append(measured)

    def measure_candidates(self, chosen: Sequence[Trial], share: float = 1.0) -> None:
        """Measure candidates live within a share of the remaining time, at least one."""
        each = self.deadline.left * share / max(len(chosen), 1) - 0.5  # loading takes time, too
        for candidate in chosen:
            if not self.deadline.left and self.run.measured:
                self.run.stopped = "the budget was used up"
                return
            self.run.measured.append(self.measure(candidate, float(np.clip(each, *_WINDOW))))


def _batching(settings: Settings, largest: int) -> Settings:
    """Return settings that make batches of up to `largest` requests."""
    delay_us = _PROBE_DELAY_US if largest > 1 else 0
    return replace(settings, max_batch_size=largest, dynamic=largest > 1, preferred=(), delay_us=delay_us)


def _sum_up(measured: Sequence[Measurement]) -> ProbeResult:
    """Sum up the probes of one number of instances; the first has the fewest clients, the last the most."""
    sizes, took = np.concatenate([one.sizes for one in measured]), np.concatenate([one.took for one in measured])
    times, most = ServiceTimes.fit(sizes, took), measured[min(1, len(measured) - 1)]
    ratios = took / np.array([times(int(size)) for size in sizes])
    return ProbeResult(times, RequestPattern(ratios, most.gap, measured[0].think), most.lead, most.turnaround)


def _choose_different(best: Sequence[Trial]) -> list[Trial]:
    """Return the best candidates to measure, first those with another number of instances or another load, then those
    with only another delay, if little is lost. An error of a replay is the same for all of one kind.
    """
    kinds: dict[tuple[int, Load], Trial] = {}
    for one in best:
        if one.numbers.rate >= _NEARLY * best[0].numbers.rate:
            kinds.setdefault((one.settings.instances, one.load), one)
    others = (one for one in best if one not in kinds.values())
    return [*kinds.values(), *others][:CONFIRMED]


def _first_line(error: TritonError) -> str:
    return error.message.partition("\n")[0]


def tune_model(model: Model, **options: Any) -> TuneResult:
    """Run `Model.tune`. Raises UnknownOption."""
    UnknownOption.check("tune", options, [*Goal.__dataclass_fields__, *LOAD_OPTIONS])
    goal = {key: value for key, value in options.items() if key in Goal.__dataclass_fields__}
    load = {key: value for key, value in options.items() if key in LOAD_OPTIONS}
    live, aim = LiveModel(model, load), Goal(**goal)
    work = Work(f"Tuning of {model.name}", aim.seconds, WorkStep("loading the model"))
    workspace: Workspace | None = getattr(model.server, "workspace", None)
    tuning = workspace.mark_tuned(model.name) if workspace is not None else nullcontext()
    with shown_work(work), tuning:
        return tune(live, aim, live.reload, work=work)
