"""The ablation of the best settings: each part is taken back in turn, to see what it is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .search import Trial
from .settings import Settings


@dataclass(frozen=True)
class PartGain:
    """One part of the best settings, by its name in config.pbtxt or as `instances`: what it `was` and what it `became`,
    as text; the trials `with_it` and `without` it, both replayed. `live`: the measurement without it, None if there was
    no time.
    """

    part: str
    was: str
    became: str
    with_it: Trial
    without: Trial
    live: Trial | None = None

    @property
    def gain(self) -> float:
        """Return the share by which the part raises the throughput, by replay; where the load fixes that, the share by
        which it shortens the p99.
        """
        better, worse = self.with_it.numbers, self.without.numbers
        return better.rate / worse.rate - 1 if self.with_it.load.closed else 1 - better.p99 / worse.p99

    def live_gain(self, best: Trial) -> float | None:
        """Return the same for the measurements; `best`: the best settings as they were measured."""
        if self.live is None:
            return None
        better, worse = best.numbers, self.live.numbers
        return better.rate / worse.rate - 1 if best.load.closed else 1 - better.p99 / worse.p99


def taken_back(best: Settings, present: Settings) -> Iterator[tuple[str, str, str, Settings]]:
    """Yield each part in which the best settings differ from the present ones: its name, what it was and became, and
    the best settings without it. A delay and preferred sizes are taken back to none where there was no batching.
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
