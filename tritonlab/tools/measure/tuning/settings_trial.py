"""`Trial`, settings under a load with their predicted and measured numbers, and the order of trials; `Noise`, which
separates real differences between settings from differences between two measurements of the same ones; `PartGain`, the
gain of one part of the best settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np

from ....notebook.authoring.settings import Settings
from .offered_load import Load
from .replay import Numbers

#: The assumed difference between two windows of the same settings, before any were measured twice, and the number of
#: measured differences that it is worth.
_SUPPOSED, _WEIGHT = 0.1, 1.0
#: Two settings differ if their distance is at least so many standard errors.
_ERRORS = 2.0
#: A candidate whose p99 exceeds the limit by less than this share may still keep it.
_NARROWLY = 1.2
#: A measurement contradicts its prediction if it differs by more than this share, and by more than noise.
_OFF = 0.25
#: Predictions that differ by at most this share are tied.
_REPLAY_ERROR = 0.1

Figure = Callable[[Numbers], float]


rate_of: Figure = attrgetter("rate")
p99_of: Figure = attrgetter("p99")


@dataclass(frozen=True)
class Trial:
    """Settings under a load. `predicted`: the numbers by replay. `windows`: the numbers of live measurements at
    different times, none if only the replay was made.
    """

    settings: Settings
    load: Load
    predicted: Numbers
    windows: tuple[Numbers, ...] = ()

    @cached_property
    def numbers(self) -> Numbers:
        """The median of the windows; the prediction if there are none."""
        return _median(self.windows) if self.windows else self.predicted

    @property
    def key(self) -> tuple[Settings, Load]:
        return self.settings, self.load

    def measured(self, window: Numbers) -> Trial:
        """Return the trial with one additional window."""
        return replace(self, windows=(*self.windows, window))

    def keeps(self, p99_ms: float | None) -> bool:
        """Return whether requests were executed, and the p99 is within the limit."""
        return self.numbers.requests > 0 and (p99_ms is None or self.numbers.p99 <= p99_ms * 1e6)

    def is_ranked_by_rate(self, p99_ms: float | None) -> bool:
        """Return whether throughput decides; if the load fixes it, or the limit is exceeded, the p99 decides."""
        return self.load.closed and self.keeps(p99_ms)

    def rank(self, p99_ms: float | None) -> tuple[bool, float]:
        """Return a key that is larger for the better of two, regardless of ties (`best_first`): whether the p99 is
        within the limit, then the throughput or the shorter p99.
        """
        if self.is_ranked_by_rate(p99_ms):
            return True, self.numbers.rate
        return self.keeps(p99_ms), -self.numbers.p99 if self.numbers.requests else -math.inf


#: Returns whether two trials may be equal in one number.
Tied = Callable[[Trial, Trial, Figure], bool]


def are_nearly_equal(one: Trial, other: Trial, figure: Figure) -> bool:
    """Return whether two predictions differ by less than the error of replays."""
    value, base = figure(one.numbers), figure(other.numbers)
    return abs(value - base) <= _REPLAY_ERROR * max(value, base)


def best_first(trials: Iterable[Trial], p99_ms: float | None, are_tied: Tied = are_nearly_equal) -> list[Trial]:
    """Return the trials by rank. A tie on p99 goes to the higher throughput, and a tie on both to the shorter p99: a
    minimal gain in p99 must not outrank a multiple of the throughput.
    """
    found = sorted(trials, key=lambda one: one.rank(p99_ms), reverse=True)
    ordered = [one for one in found if one.is_ranked_by_rate(p99_ms)]
    others = [one for one in found if not one.is_ranked_by_rate(p99_ms)]
    for is_kept in (True, False):
        by_p99 = [one for one in others if one.keeps(p99_ms) is is_kept]
        for near in _groups(by_p99, p99_of, are_tied):
            fastest = sorted(near, key=lambda one: one.numbers.rate, reverse=True)
            for same in _groups(fastest, rate_of, are_tied):
                ordered += sorted(same, key=lambda one: one.numbers.p99)
    return ordered


def _groups(ordered: Sequence[Trial], figure: Figure, are_tied: Tied) -> Iterator[list[Trial]]:
    """Yield the trials in groups, each with the trials that are tied with its first."""
    group: list[Trial] = []
    for one in ordered:
        if group and not are_tied(group[0], one, figure):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


class Noise:
    """The noise of measurements. `share`: the standard deviation between windows of the same settings and load,
    relative to their mean, of the deciding number: the throughput or the p99.
    """

    def __init__(self, measured: Sequence[Trial], p99_ms: float | None) -> None:
        self._p99_ms = p99_ms
        self._shares: dict[Figure, float] = {rate_of: _share(measured, rate_of), p99_of: _share(measured, p99_of)}
        by_rate = any(one.is_ranked_by_rate(p99_ms) for one in measured)
        self.share = self._shares[rate_of if by_rate else p99_of]

    def are_tied(self, one: Trial, other: Trial, figure: Figure) -> bool:
        """Return whether the difference in a number may be noise."""
        value, base = figure(one.numbers), figure(other.numbers)
        error = self._shares[figure] * math.sqrt(1 / len(one.windows) + 1 / len(other.windows))
        return abs(value - base) <= _ERRORS * error * max(value, base)

    def differ(self, one: Trial, other: Trial) -> bool:
        """Return whether they surely differ: one keeps the limit and the other does not, or in throughput, or in p99
        where the p99 decides.
        """
        if one.keeps(self._p99_ms) is not other.keeps(self._p99_ms):
            return True
        by_rate = one.is_ranked_by_rate(self._p99_ms)
        return not self.are_tied(one, other, rate_of) or not (by_rate or self.are_tied(one, other, p99_of))

    def undecided(self, one: Trial, best: Trial) -> bool:
        """Return whether more windows may show that this trial is better than the best."""
        if one.keeps(self._p99_ms) is best.keeps(self._p99_ms):
            # of the trials tied on p99 the fastest is the best, until more windows separate them
            return self.are_tied(one, best, rate_of if one.is_ranked_by_rate(self._p99_ms) else p99_of)
        if self._p99_ms is None or one.keeps(self._p99_ms):
            return False
        error = _ERRORS * self._shares[p99_of] / math.sqrt(len(one.windows))
        narrowly = one.numbers.p99 <= self._p99_ms * 1e6 * max(_NARROWLY, 1 + error)
        return narrowly and one.numbers.rate > best.numbers.rate

    def contradicts(self, one: Trial) -> bool:
        """Return whether a measurement contradicts its prediction."""
        for figure in (rate_of, p99_of):
            measured, predicted = figure(one.numbers), figure(one.predicted)
            error = max(_ERRORS * self._shares[figure] / math.sqrt(len(one.windows)), _OFF)
            if not abs(measured - predicted) <= error * max(measured, predicted):
                return True
        return False


def ranked(measured: Iterable[Trial], p99_ms: float | None) -> list[Trial]:
    """Return measured trials, the best first; throughput decides ties within noise."""
    trials = list(measured)
    return best_first(trials, p99_ms, Noise(trials, p99_ms).are_tied)


def leaders(ordered: Iterable[Trial]) -> list[Trial]:
    """Return the first trial of each settings."""
    first: dict[Settings, Trial] = {}
    for one in ordered:
        first.setdefault(one.settings, one)
    return list(first.values())


def _share(measured: Sequence[Trial], figure: Figure) -> float:
    squares, count = _WEIGHT * _SUPPOSED**2, _WEIGHT
    for one in measured:
        values = np.array([figure(window) for window in one.windows])
        squares += float(((values / values.mean() - 1) ** 2).sum())
        count += len(values) - 1
    return math.sqrt(squares / count)


def _median(windows: Sequence[Numbers]) -> Numbers:
    """Return the median of each number, and the sum of requests."""
    rows = np.median([(one.p50, one.p99, one.rate, one.mean_size) for one in windows], axis=0)
    p50, p99, rate, mean_size = map(float, rows)
    return Numbers(p50, p99, rate, mean_size, requests=sum(one.requests for one in windows))


@dataclass(frozen=True)
class PartGain:
    """One part of the best settings, by its name in config.pbtxt or as `instances`: its values before (`was`) and after
    (`became`), as text; the replayed trials `with_it` and `without` it. The latter has windows if there was time to
    measure it.
    """

    part: str
    was: str
    became: str
    with_it: Trial
    without: Trial

    @property
    def gain(self) -> float:
        """Return the share by which the part raises the throughput, by replay; if the load fixes the throughput, the
        share by which it shortens the p99.
        """
        return self._gain(self.with_it.predicted, self.without.predicted)

    def live_gain(self, best: Trial) -> float | None:
        """Return the same for the measurements; `best`: the trial of the best settings with its measurements."""
        return self._gain(best.numbers, self.without.numbers) if self.without.windows else None

    def _gain(self, better: Numbers, worse: Numbers) -> float:
        return better.rate / worse.rate - 1 if self.with_it.load.closed else 1 - better.p99 / worse.p99


def take_back_parts(best: Settings, present: Settings) -> Iterator[tuple[str, str, str, Settings]]:
    """Yield each part in which the best settings differ from the present ones: its name, its values before and after,
    and the best settings without it. Without batching before, a delay and preferred sizes are reset to none.
    """
    if best.dynamic and not present.dynamic:
        yield "dynamic_batching", "no", "yes", replace(best, dynamic=False, preferred=(), delay_us=0)
    elif present.dynamic and not best.dynamic:
        batching = replace(best, dynamic=True, preferred=_fitting(present.preferred, best), delay_us=present.delay_us)
        yield "dynamic_batching", "yes", "no", batching
    if best.max_batch_size != present.max_batch_size:
        former = replace(best, max_batch_size=present.max_batch_size)
        former = replace(former, preferred=_fitting(best.preferred, former))
        yield "max_batch_size", str(present.max_batch_size), str(best.max_batch_size), former
    if best.dynamic and best.delay_us != present.delay_us:
        delays = f"{present.delay_us:,} µs", f"{best.delay_us:,} µs"
        yield "max_queue_delay_microseconds", *delays, replace(best, delay_us=present.delay_us)
    if best.dynamic and best.preferred != present.preferred:
        sizes = _words(present.preferred), _words(best.preferred)
        yield "preferred_batch_size", *sizes, replace(best, preferred=_fitting(present.preferred, best))
    if best.instances != present.instances:
        yield "instances", str(present.instances), str(best.instances), replace(best, instances=present.instances)


def _fitting(preferred: tuple[int, ...], settings: Settings) -> tuple[int, ...]:
    return tuple(size for size in preferred if size <= settings.max_batch_size)


def _words(preferred: tuple[int, ...]) -> str:
    return ", ".join(map(str, preferred)) or "none"
