"""The noise of a model: the differences between two of its answers to the same request, and a test whether other
answers differ by more.

Of each request there are three answers: `one` and `again` of the same model, and `other`. If the other model is the
same, `again` and `other` can be exchanged: of the requests where one of them is farther from `one`, it is `other` in
half, and `other` is above `again` in half. The test counts the requests, so it needs no distribution of the noise, nor
the same noise for all inputs. Of n requests that differ, the probability of a surplus of T * sqrt(n) is at most
2 * exp(-T * T / 2) (Hoeffding), if requests are independent.

A single answer is a change if it differs by more than 4 times the largest difference between `one` and `again` of all
requests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....exchanges.comparison import equal_elements
from ....exchanges.exchange import Exchange
from ....exchanges.literal import floats
from .answer_changes import AnswerChange, Unseen, changes_between, error_words, outputs_of
from .paced_sending import Planned

#: The most false alarms of one replay of a model that did not change.
FALSE_ALARMS = 1e-3
#: A single value may differ by the largest difference of the noise times this.
MARGIN = 4.0

#: The distance and the signed mean difference of an output, by its name; the whole answer has the name "".
Gaps = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class NoiseTest:
    """The result of the test of one output.

    requests: how many requests differ; `surplus`: how many more of them are on one side
    chance: the most probability of such a surplus for the same model
    """

    output: str
    words: str
    requests: int
    surplus: int
    chance: float

    @property
    def text(self) -> str:
        share = (self.requests + self.surplus) / 2 / self.requests
        chance = max(self.chance, 1e-99)
        return f"{self.words} in {share:.0%} of {self.requests:,} requests (by chance: {chance:.0e} at most)"


@dataclass
class LearnedNoise:
    """The noise of one model, learned request by request.

    of_now: whether it is of the model as it is now, so that `other` is the answer before
    largest: the largest difference of numbers, by output; `counts`: in how many requests it differs; `free`: outputs
    that differ in other things than numbers
    """

    of_now: bool = False
    requests: int = 0
    largest: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    free: set[str] = field(default_factory=set)
    _other: dict[int, Gaps] = field(default_factory=dict)
    _again: dict[int, Gaps] = field(default_factory=dict)

    def add_other(self, number: int, one: Exchange, other: Exchange, unseen: Unseen) -> None:
        """Note the distance of `other` from `one`."""
        self._other[number] = gaps(one, other, unseen)

    def add_again(self, planned: Planned, one: Exchange, again: Exchange, unseen: Unseen) -> None:
        """Learn from two answers of the model itself."""
        self.requests += 1
        self._again[planned.number] = gaps(one, again, unseen)
        for change in changes_between(planned, one, again, unseen):
            self.counts[change.output] += 1
            if change.kind == "value" and 0 < change.absolute < math.inf:
                self.largest[change.output] = max(self.largest.get(change.output, 0.0), change.absolute)
            else:
                self.free.add(change.output)

    @property
    def noisy(self) -> list[str]:
        """The outputs that differ from themselves; "" if whole answers do, as with errors now and then."""
        return sorted(self.counts)

    def covers(self, change: AnswerChange) -> bool:
        """Return whether the noise is as large as the change."""
        if "" in self.counts and not change.output:
            return True
        if change.output in self.free:
            return True
        return change.kind == "value" and change.absolute <= MARGIN * self.largest.get(change.output, 0.0)

    def test(self, output: str) -> list[NoiseTest]:
        """Return the tests in which `other` differs from the model by more than chance."""
        limit = FALSE_ALARMS / (2 * len(self.counts))
        both = [(self._other[n], self._again[n]) for n in sorted(self._other.keys() & self._again.keys())]
        pairs = [(one.get(output, _SAME), two.get(output, _SAME)) for one, two in both]
        farther = np.array([_sign(one[0], two[0]) for one, two in pairs])
        higher = np.array([_sign(one[1], 0.0) for one, _ in pairs])
        words = ("is higher", "is lower")
        found = [
            _count(output, farther, "differs from the answers before by more than the noise", "differs by less"),
            _count(output, higher, *(reversed(words) if self.of_now else words)),
        ]
        return [test for test in found if test is not None and test.chance < limit]

    def least_requests(self) -> int:
        """Return the number of requests below which the test cannot find anything."""
        return math.ceil(2 * math.log(2 / (FALSE_ALARMS / (2 * max(len(self.counts), 1)))))

    @property
    def is_undecided(self) -> bool:
        """Return whether there is noise, and too few requests to tell it from a change."""
        return bool(self.counts) and len(self._other.keys() & self._again.keys()) < self.least_requests()

    def first_beyond(self, output: str, numbers: Collection[int]) -> int:
        """Return the request of `numbers` whose `other` is the farthest beyond the noise, relative to the distances of
        all."""
        both = sorted(self._other.keys() & self._again.keys() & set(numbers))
        beyond = {n: self._other[n].get(output, _SAME)[0] - self._again[n].get(output, _SAME)[0] for n in both}
        return max(both, key=lambda n: (math.isfinite(beyond[n]), abs(beyond[n])), default=-1)

    def sentences(self) -> list[str]:
        """Return the noise of each output as a sentence."""
        found = []
        for name in self.noisy:
            subject = name or "the whole answer (an error, or the number of responses)"
            much = f" by up to {self.largest[name]:.3g}" if name in self.largest and name not in self.free else ""
            found.append(f"{subject} differs from itself{much} in {self.counts[name]:,} of {self.requests:,} requests")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the noise as JSON values."""
        found = {name: {"requests": self.counts[name], "largest": self.largest.get(name)} for name in self.noisy}
        return {"requests": self.requests, "outputs": found, "false_alarms": FALSE_ALARMS}


_SAME = (0.0, 0.0)


def _sign(one: float, other: float) -> int:
    return (one > other) - (one < other)


def _count(output: str, signs: Any, above: str, below: str) -> NoiseTest | None:
    """Return the test of signs; None if all are 0."""
    total = int(np.count_nonzero(signs))
    if not total:
        return None
    surplus = int(signs.sum())
    chance = min(1.0, 2 * math.exp(-surplus * surplus / total / 2))
    return NoiseTest(output, above if surplus > 0 else below, total, abs(surplus), chance)


def gaps(one: Exchange, other: Exchange, unseen: Unseen) -> Gaps:
    """Return how far the outputs of two answers to one request are apart. Equal outputs are left out; an answer with
    another error or another number of responses has only its whole, infinitely far."""
    ones, others = outputs_of(one, unseen), outputs_of(other, unseen)
    if error_words(one) != error_words(other) or len(ones) != len(others):
        return {"": (math.inf, 0.0)}
    found: Gaps = {}
    for first, second in zip(ones, others, strict=True):
        _add_gaps(found, first, second)
    return found


def _add_gaps(found: Gaps, one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    for name in dict.fromkeys([*one, *other]):
        distance, shift = _gap(one.get(name), other.get(name))
        if distance:
            known = found.get(name, _SAME)
            found[name] = known[0] + distance, known[1] + shift


def _gap(one: Tensor | None, other: Tensor | None) -> tuple[float, float]:
    """Return the mean distance of elements, and the mean of `other` - `one`; of BYTES the share of elements
    that differ."""
    if one is None or other is None or one.datatype is not other.datatype or one.shape != other.shape:
        return math.inf, 0.0
    if one.data.tobytes() == other.data.tobytes():
        return _SAME
    if one.datatype is DataType.BYTES:
        try:
            return float((one.numpy() != other.numpy()).mean()), 0.0
        except ValueError:  # bytes that are no elements
            return math.inf, 0.0
    first, second = floats(one), floats(other)
    with np.errstate(all="ignore"):
        apart = np.where(equal_elements(first, second), 0.0, second.astype(np.float64) - first.astype(np.float64))
        distance, shift = float(np.abs(apart).mean()), float(apart.mean())
    return (distance, shift) if math.isfinite(distance) else (math.inf, 0.0)
