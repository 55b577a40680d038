"""The search of settings by replay: predict thousands of them under a load, and rank them."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ....core.config.model_config import ModelConfig
from ....engine.schedulers.policy_queue import QueuePolicies
from ....notebook.authoring.settings import Settings
from .offered_load import Load, RequestPattern
from .replay import Pace, replay
from .service_times import ServiceTimes
from .settings_trial import Trial, best_first

#: Requests that are replayed for each settings and load at first, and again for the best ones.
_FIRST, AGAIN = 300, 3_000
_BEST = 20
_DOUBT = 1.4
#: How many of the best are predicted again even after the time is over.
_SURELY = 5
_DELAYS_US = (0, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000)


@dataclass(frozen=True)
class ProbeResult:
    """The measurements of a model with one number of instances, all busy: the execution times by batch size, the
    deviations of single executions, and the server's own time (`Pace`).
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
        """Return the measurements for this number of instances, or for the next lower one."""
        return self.probed[max((count for count in self.probed if count <= instances), default=min(self.probed))]


def space(present: Settings, most_instances: int, largest: int, least: int = 0) -> Iterator[Settings]:
    """Yield the settings to try, the present ones first: instances, largest batch from `least` on, delay, preferred
    size."""
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
                    continue  # all waiting requests leave at once, and a preferred size only delays them
                yield from (replace(batching, preferred=(few, size)) for few in sizes if few < size)


def predict(
    settings: Settings, load: Load, config: ModelConfig, known: Calibration, requests: int, seed: int = 0
) -> Trial:
    """Predict the numbers of settings under a load, without the first tenth of the requests, during which the queue
    fills.
    """
    rules, policies = settings.batch_config(config), QueuePolicies.from_config(settings.written(config))
    most = max(requests, 8 * load.concurrency)
    probed = known.for_instances(settings.instances)
    pace = Pace(probed.times, probed.lead, probed.turnaround)
    replayed = replay(load.source(probed.pattern, most, seed), rules, policies, settings.instances, pace)
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
        """Return each settings with its best load, the best settings first."""
        of_settings: dict[Settings, list[Trial]] = {}
        for one in self.candidates.values():
            of_settings.setdefault(one.settings, []).append(one)
        return best_first((best_first(trials, p99_ms)[0] for trials in of_settings.values()), p99_ms)

    def front(self) -> list[Trial]:
        """Return the candidates that no other one beats in both p99 and throughput, by rising p99."""
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
    The order is mixed, so that a search that is cut short has tried all kinds; the first settings are always included.
    """
    stride = next(n for n in itertools.count(len(settings) // 3 + 1) if math.gcd(n, len(settings)) == 1)
    found: dict[tuple[Settings, Load], Trial] = {}
    for number in range(len(settings)):
        if until() and found:
            break
        one = settings[number * stride % len(settings)]
        found |= {(one, load): predict(one, load, config, known, requests=_FIRST) for load in loads}
    refined: set[tuple[Settings, Load]] = set()

    def refine(trials: Sequence[Trial]) -> bool:
        fresh = [one for one in trials if one.key not in refined]
        for one in fresh:
            if until() and len(refined) >= _SURELY:
                return False
            refined.add(one.key)
            found[one.key] = predict(*one.key, config, known, requests=AGAIN, seed=1)
        return bool(fresh)

    # few requests give a poor estimate of a p99: candidates a little above the limit may be below it
    for limit in (p99_ms, p99_ms and p99_ms * _DOUBT):
        refine(SearchResult(found).best(limit)[:_BEST])
    while refine(SearchResult(found).best(p99_ms)[:_SURELY]):
        pass
    return SearchResult(found)


class Deadline:
    """The remainder of a budget of seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._end = self._began + seconds

    @property
    def spent(self) -> float:
        return self._clock() - self._began

    @property
    def left(self) -> float:
        return max(self._end - self._clock(), 0.0)

    def expires_within(self, seconds: float) -> Callable[[], bool]:
        """Return a function that returns whether `seconds` from now have passed, or the budget is used up."""
        end = min(self._clock() + seconds, self._end)
        return lambda: self._clock() >= end
