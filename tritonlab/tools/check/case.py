"""`Case`, a repeatable experiment of a check with one or two requests; `Judgement`, its result; and the functions with
which all relations search and judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from .noise import AnswerDifference
from .sample import ModelAnswer, Sample

if TYPE_CHECKING:
    from .bench import Bench


@dataclass(frozen=True)
class Case:
    """One experiment. `kind`: one of the kinds of `relation`. `samples`: the judged request and, if there is one, the
    other. `order`: their numbers in the order of sending. `facts`: further facts, as JSON values.
    """

    relation: str
    kind: str
    samples: tuple[Sample, ...]
    order: tuple[int, ...] = (0,)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def sent(self) -> list[Sample]:
        """Return the requests in the order in which they are sent."""
        return [self.samples[number] for number in self.order]

    def changed(self, **fields: Any) -> Case:
        return replace(self, **fields)


@dataclass(frozen=True)
class Judgement:
    """The result of a case whose relation does not hold. `expected` and `got` are the answers of the judged request.
    `place`: the line in the model's file, if known. `series`: measurements for a plot."""

    sentence: str
    difference: AnswerDifference | None = None
    expected: ModelAnswer | None = None
    got: ModelAnswer | None = None
    place: tuple[str, int] | None = None
    series: Mapping[str, Any] | None = None


_One = TypeVar("_One")

#: Judges a case: None if the relation holds. The flag is set if the case must run in new processes.
Judge = Callable[["Bench", Case, bool], "Judgement | None"]


@dataclass(frozen=True)
class Relation:
    """One relation of a check. `search` yields suspicious cases; `judges` decide, by kind of case. `why_not` returns
    why the relation does not apply to a model, "" if it does. `beyond`: the part that cannot be tried, and why, in
    words. `weight`: its share of the time. `careful`: the kinds whose trials each need new processes.
    """

    name: str
    explanation: str
    search: Callable[[Bench], Iterator[Case]]
    judges: Mapping[str, Judge]
    why_not: Callable[[Bench], str] = lambda bench: ""
    beyond: tuple[str, str] | None = None
    weight: float = 1.0
    careful: frozenset[str] = frozenset()
    shrinks: bool = True


def judge_answers(
    bench: Bench, expected: ModelAnswer, got: ModelAnswer, where: str, alone: str, why: str = ""
) -> Judgement | None:
    """Judge whether two answers to a request differ by more than noise. `where` and `alone`: how it was sent for each
    answer, in words; `why`: a sentence to append. A long stream that was only slower does not count.
    """
    difference = bench.noise.differ(expected, got)
    if difference is None or expected.sends or got.sends:
        return None
    text = sentence_of(difference, where, alone)
    return Judgement(f"{text} {why}" if why else text, difference, expected, got, got.place)


def sentence_of(difference: AnswerDifference, where: str, alone: str) -> str:
    """Return how two answers differ, as a sentence."""
    if difference.kind == "error":
        return f"A request that is answered {alone} fails {where}: {difference.got.removeprefix('error: ')}."
    if difference.kind == "count":
        return f"A request gets {difference.got} {where}, and {difference.expected} {alone}."
    what = f"The {difference.kind} of '{difference.output}'"
    what = {"value": difference.place, "outputs": f"Output '{difference.output}'"}.get(difference.kind, what)
    return f"{what} is {difference.got} {where}, and {difference.expected} {alone}."


def show_first(bench: Bench, judge: Judge, cases: Iterable[Case], careful: bool = False) -> Iterator[Case]:
    """Yield the first case that shows a failure."""
    for case in cases:
        if judge(bench, case, careful) is not None:
            yield case
            return


def in_time(bench: Bench, ones: Iterable[_One]) -> Iterator[_One]:
    """Yield these until the time is over."""
    for one in ones:
        if bench.over():
            return
        yield one


def fit(bench: Bench, samples: Sequence[Sample]) -> bool:
    """Return whether requests fit into one batch."""
    return sum(map(bench.shape.rows, samples)) <= bench.shape.most_rows
