"""The search of settings by replay: predict thousands of them under a load, and rank them."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ....core.config.model_config import ModelConfig
from ....engine.schedulers.policy_queue import QueuePolicies
from .offered_load import Load, RequestPattern
from .replay import Numbers, Pace, replay
from .service_times import ServiceTimes
from .settings import Settings

#: Requests that are replayed for each settings and load at first, and again for the best ones.
_FIRST, AGAIN = 300, 3_000
_BEST = 20
_DOUBT = 1.4
#: How many of the best are predicted again even when the time is over.
_SURELY = 5
#: Predictions that differ by this share are tied.
_REPLAY_ERROR = 0.1
_DELAYS_US = (0, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000)


@dataclass(frozen=True)
class ProbeResult:
    """The measurements of a model with one number of instances, all of them busy: how long executions take by batch
    size, how much single ones differ, and what the server needs for itself (`Pace`).
    """

    times: ServiceTimes
    pattern: RequestPattern
    lead: int = 0
    turnaround: int = 0


@dataclass(frozen=True)
class Calibration:
    """The measurements by number of instances."""

    probed: Mapping[int, ProbeResult]

    def for_instances(self, instances: int) -> ProbeResult:
        """Return the measurements for so many instances, or those of the next lower number."""
        return self.probed[max((count for count in self.probed if count <= instances), default=min(self.probed))]


@dataclass(frozen=True)
class Trial:
    """Settings, a load, and their numbers together: predicted, or measured live."""

    settings: Settings
    load: Load
    numbers: Numbers

    def keeps(self, p99_ms: float | None) -> bool:
        """Return whether requests were executed, and the p99 is within the limit."""
        return self.numbers.requests > 0 and (p99_ms is None or self.numbers.p99 <= p99_ms * 1e6)

    def is_ranked_by_rate(self, p99_ms: float | None) -> bool:
        """Return whether throughput decides; where the load fixes that, or the limit is missed, the p99 does."""
        return self.load.closed and self.keeps(p99_ms)

    def rank(self, p99_ms: float | None) -> tuple[bool, float]:
        """Return what is larger for the better of two, without regard to ties (`best_first`): whether its p99 is within
        the limit, then its throughput or the shorter p99.
        """
        if self.is_ranked_by_rate(p99_ms):
            return True, self.numbers.rate
        return self.keeps(p99_ms), -self.numbers.p99 if self.numbers.requests else -math.inf


Figure = Callable[[Numbers], float]
_Candidate = TypeVar("_Candidate")


def rate_of(numbers: Numbers) -> float:
    return numbers.rate


def p99_of(numbers: Numbers) -> float:
    return numbers.p99


def best_first(
    candidates: Iterable[_Candidate],
    p99_ms: float | None,
    trial: Callable[[_Candidate], Trial],
    are_tied: Callable[[_Candidate, _Candidate, Figure], bool],
) -> list[_Candidate]:
    """Return the candidates by rank. A tie on p99 goes to the higher throughput, and a tie on both to the shorter p99:
    a hair's breadth of p99 must not outrank many times the throughput.
    """
    found = sorted(candidates, key=lambda one: trial(one).rank(p99_ms), reverse=True)
    ordered = [one for one in found if trial(one).is_ranked_by_rate(p99_ms)]
    others = [one for one in found if not trial(one).is_ranked_by_rate(p99_ms)]
    for is_kept in (True, False):
        by_p99 = [one for one in others if trial(one).keeps(p99_ms) is is_kept]
        for near in _groups(by_p99, lambda one, other: are_tied(one, other, p99_of)):
            fastest = sorted(near, key=lambda one: trial(one).numbers.rate, reverse=True)
            for same in _groups(fastest, lambda one, other: are_tied(one, other, rate_of)):
                ordered += sorted(same, key=lambda one: trial(one).numbers.p99)
    return ordered


def _groups(
    ordered: Sequence[_Candidate], are_tied: Callable[[_Candidate, _Candidate], bool]
) -> Iterator[list[_Candidate]]:
    """Yield the candidates in groups of those that are tied with the first of their group."""
    group: list[_Candidate] = []
    for one in ordered:
        if group and not are_tied(group[0], one):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _itself(one: Trial) -> Trial:
    return one


def _nearly(one: Trial, other: Trial, figure: Figure) -> bool:
    """Return whether two predictions differ by less than replays are off."""
    value, base = figure(one.numbers), figure(other.numbers)
    return abs(value - base) <= _REPLAY_ERROR * max(value, base)


def space(present: Settings, most_instances: int, largest: int, least: int = 0) -> Iterator[Settings]:
    """Yield the settings to try: instances, largest batch from `least` on, delay, preferred size; the present ones
    first."""
    yield present
    for instances in present.counts(most_instances):
        if not present.max_batch_size:
            yield present.on(instances)
            continue
        plain = replace(present.on(instances), dynamic=False, preferred=(), delay_us=0)
        yield plain
        sizes = sorted({largest, *(1 << n for n in range(1, largest.bit_length()) if 1 << n <= largest)})
        for size in (size for size in sizes if size >= least):
            for delay in _DELAYS_US:
                batching = replace(plain, max_batch_size=size, dynamic=True, delay_us=delay)
                yield batching
                if not delay:
                    continue  # whatever waits goes at once, and a preferred size only holds back
                yield from (replace(batching, preferred=(few, size)) for few in sizes if few < size)


def predict(
    settings: Settings, load: Load, config: ModelConfig, known: Calibration, requests: int, seed: int = 0
) -> Trial:
    """Predict the numbers of settings under a load, without the first tenth of the requests, which fills the queue."""
    rules, policies = settings.batch_config(config), QueuePolicies.from_config(settings.written(config))
    most = max(requests, 8 * load.concurrency)
    probed = known.for_instances(settings.instances)
    pace = Pace(probed.times, probed.lead, probed.turnaround)
    replayed = replay(
        source=load.source(probed.pattern, most, seed),
        config=rules,
        policies=policies,
        lanes=settings.instances,
        pace=pace,
    )
    return Trial(settings, load, replayed.numbers(skip=0.1 if load.closed else 0.0))


@dataclass(frozen=True)
class SearchResult:
    """The predictions of a search, by settings and load."""

    candidates: Mapping[tuple[Settings, Load], Trial]

    @property
    def tried(self) -> int:
        """The number of settings that were replayed."""
        return len({settings for settings, _ in self.candidates})

    def best(self, p99_ms: float | None) -> list[Trial]:
        """Return each settings with the load under which they are best, the best settings first."""
        of_settings: dict[Settings, list[Trial]] = {}
        for (settings, _), one in self.candidates.items():
            of_settings.setdefault(settings, []).append(one)
        best = [best_first(trials, p99_ms, _itself, _nearly)[0] for trials in of_settings.values()]
        return best_first(best, p99_ms, _itself, _nearly)

    def front(self) -> list[Trial]:
        """Return the candidates of which none has both a shorter p99 and a higher throughput, by rising p99."""
        best: list[Trial] = []
        for one in sorted(self.candidates.values(), key=lambda one: (one.numbers.p99, -one.numbers.rate)):
            if not best or one.numbers.rate > best[-1].numbers.rate:
                best.append(one)
        return best


def search(
    settings: Sequence[Settings],
    loads: Sequence[Load],
    config: ModelConfig,
    known: Calibration,
    p99_ms: float | None,
    until: Callable[[], bool],
) -> SearchResult:
    """Predict all settings under every load until `until()` is True, then the best of them again with more requests.
    The order is mixed, so that a search that is cut short has seen all kinds; the first settings are never left out.
    """
    stride = next(n for n in itertools.count(len(settings) // 3 + 1) if math.gcd(n, len(settings)) == 1)
    found: dict[tuple[Settings, Load], Trial] = {}
    for number in range(len(settings)):
        if until() and found:
            break
        one = settings[number * stride % len(settings)]
        found |= {
            (one, load): predict(settings=one, load=load, config=config, known=known, requests=_FIRST) for load in loads
        }
    refined: set[tuple[Settings, Load]] = set()

    def refine(candidates: Sequence[Trial]) -> bool:
        fresh = [one for one in candidates if (one.settings, one.load) not in refined]
        for one in fresh:
            if until() and len(refined) >= _SURELY:
                return False
            refined.add((one.settings, one.load))
            found[one.settings, one.load] = predict(one.settings, one.load, config, known, requests=AGAIN, seed=1)
        return bool(fresh)

    # few requests are a poor estimate of a p99: those a little above the limit may be below it
    for limit in (p99_ms, p99_ms and p99_ms * _DOUBT):
        refine(SearchResult(found).best(limit)[:_BEST])
    while refine(SearchResult(found).best(p99_ms)[:_SURELY]):
        pass
    return SearchResult(found)


class Deadline:
    """The rest of a budget of seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def left(self) -> float:
        return max(self._end - self._clock(), 0.0)

    def expires_within(self, seconds: float) -> Callable[[], bool]:
        """Return a function that returns whether so many seconds from now, or the budget, are over."""
        end = min(self._clock() + seconds, self._end)
        return lambda: self._clock() >= end
