"""`sequences`: a sequence gets the answers that it gets alone, whatever other sequences there are and were."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ....core.inference.infer_request import SEQUENCE_END, SEQUENCE_START
from ..bench import Bench
from ..case import Case, Judgement, Relation
from ..noise import AnswerDifference
from ..sample import ModelAnswer, Sample
from .company import sentence_of

NAME = "sequences"
#: Requests of each sequence.
_STEPS = 3
#: The most sequences at once.
_MOST = 32
#: The `max_sequence_idle_microseconds` with which expiry is tried.
_IDLE = 200_000
#: The distance of two ids that are the same modulo any number up to 16, any power of two up to 1024, and 100.
_FAR = 230_630_400
_NOT_RESET = "A START leaves what the sequence had before."


def search(bench: Bench) -> Iterator[Case]:
    """Yield pairs of sequences that disturb each other."""
    pool = bench.pool
    pairs = [(pool[0], pool[place]) for place in range(1, min(len(pool), 4))] or [(pool[0], pool[0])]
    for kind in ("ended", "interleaved", "crowded", "restarted", "expired"):
        if kind == "crowded" and (_places(bench) < 3 or (NAME, "interleaved") in bench.found):
            continue  # two at once have been tried
        bench.say(
            {
                "ended": "one sequence after another",
                "interleaved": "interleaved sequences",
                "crowded": "as many sequences as there is room for",
                "restarted": "a sequence that starts again",
                "expired": "sequences that expire",
            }[kind]
        )
        for victim, other in pairs[:2] if kind in ("ended", "interleaved") else pairs[:1]:
            if bench.over():
                return
            facts = {"count": _places(bench)} if kind == "crowded" else {}
            case = Case(NAME, kind, samples=(victim.sample, other.sample), order=(1, 0), facts=facts)
            if JUDGES[kind](bench, case, True) is not None:
                yield case
                break


class _Steps:
    """One sequence: its id and how many requests it has sent."""

    def __init__(self, bench: Bench, sample: Sample, steps: int = _STEPS) -> None:
        self.ident = bench.sequence_id()
        self._sample = sample
        self._steps = steps
        self._done = 0

    def request(self, bench: Bench, end: bool = True, start: bool | None = None):  # type: ignore[no-untyped-def]
        first = self._done == 0 if start is None else start
        self._done = 1 if first else self._done + 1
        last = end and self._done == self._steps
        flags = SEQUENCE_START * first | SEQUENCE_END * last
        return self._sample.request(bench.scratch.name, correlation_id=self.ident, flags=flags)


def _alone(bench: Bench, sample: Sample, steps: int = _STEPS) -> list[ModelAnswer]:
    sequence = _Steps(bench, sample, steps)
    return [bench.scratch.ask([sequence.request(bench)])[0] for _ in range(steps)]


def _first_apart(
    bench: Bench, expected: Sequence[ModelAnswer], got: Sequence[ModelAnswer]
) -> tuple[int, AnswerDifference] | None:
    for step, (one, two) in enumerate(zip(expected, got, strict=True)):
        if (difference := bench.noise.differ(one, two)) is not None:
            return step, difference
    return None


def _judged(
    bench: Bench, expected: Sequence[ModelAnswer], got: Sequence[ModelAnswer], where: str, why: str
) -> Judgement | None:
    if not all(one.good for one in expected):
        return None
    found = _first_apart(bench, expected, got)
    if found is None:
        return None
    step, difference = found
    text = sentence_of(difference, f"for request {step + 1} of a sequence {where}", "in a sequence alone")
    return Judgement(f"{text} {why}", difference, expected=expected[step], got=got[step], place=got[step].place)


def judge_ended(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge a sequence that comes after another has ended, in its slot."""
    victim, other = case.samples[0], case.samples[-1]
    bench.renew()
    expected = _alone(bench, victim)
    bench.renew()
    _alone(bench, other)
    got = _alone(bench, victim)
    return _judged(
        bench, expected, got=got, where="after another has ended", why="What the other has left is not forgotten."
    )


def judge_interleaved(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge a sequence whose requests come in turn with those of another."""
    victim, other = case.samples[0], case.samples[-1]
    bench.renew()
    expected = _alone(bench, victim)
    for order, at_once in (((0, 1), False), ((0, 1), True), ((1, 0), True)):
        bench.renew()
        pair = _Steps(bench, victim), _Steps(bench, other)
        if isinstance(pair[0].ident, int):
            pair[1].ident = pair[0].ident + _FAR  # a table of fixed size has one place for both
        got: list[ModelAnswer] = []
        for _ in range(_STEPS):
            requests = [pair[number].request(bench) for number in order]
            answers = bench.scratch.ask(requests) if at_once else [bench.scratch.ask([one])[0] for one in requests]
            got.append(answers[order.index(0)])
        judged = _judged(
            bench, expected, got=got, where="beside another one", why="The two sequences share what each should have."
        )
        if judged is not None:
            return judged
    return None


def _places(bench: Bench) -> int:
    """Return how many sequences one instance has at once, as far as they are tried."""
    batching = bench.config.sequence_batching
    oldest = int(batching.oldest.max_candidate_sequences) if batching.HasField("oldest") else 0
    return min(oldest or max(int(bench.config.max_batch_size), 1), _MOST)


def judge_crowded(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge a sequence beside as many others as the scheduler lets in."""
    victim, other = case.samples[0], case.samples[-1]
    bench.renew()
    expected = _alone(bench, victim)
    bench.renew()
    count = int(case.facts["count"])
    every = [_Steps(bench, victim), *(_Steps(bench, other) for _ in range(count - 1))]
    rounds = [[bench.scratch.ask([one.request(bench)])[0] for one in every] for _ in range(_STEPS)]
    got = [answers[0] for answers in rounds]
    why = f"The scheduler lets {count} sequences in at once, and the model does not keep all of them."
    return _judged(bench, expected, got=got, where=f"beside {count - 1} others", why=why)


def judge_restarted(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge a sequence whose id has a START again, without an END before."""
    victim, other = case.samples[0], case.samples[-1]
    bench.renew()
    expected = _alone(bench, victim)
    bench.renew()
    before = _Steps(bench, other, 9)
    for _ in range(2):
        bench.scratch.ask([before.request(bench)])
    again = _Steps(bench, victim)
    again.ident = before.ident
    got = [bench.scratch.ask([again.request(bench)])[0] for _ in range(_STEPS)]
    return _judged(bench, expected, got=got, where="that starts again under its id", why=_NOT_RESET)


def judge_expired(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge a sequence that comes after another has been idle for too long, in its slot."""
    victim, other = case.samples[0], case.samples[-1]
    bench.renew()
    expected = _alone(bench, victim)
    batching = dict(bench.scratch.written()["sequence_batching"])
    batching["max_sequence_idle_microseconds"] = _IDLE
    try:
        bench.scratch.start(sequence_batching=batching)
        idle = _Steps(bench, other, 9)
        for _ in range(2):
            bench.scratch.ask([idle.request(bench)])
        time.sleep(_IDLE / 1e6 * 1.5)
        got = _alone(bench, victim)
    finally:
        bench.scratch.start()
    return _judged(
        bench,
        expected,
        got=got,
        where="after another has expired",
        why="What the expired one has left is not forgotten.",
    )


JUDGES = {
    "ended": judge_ended,
    "interleaved": judge_interleaved,
    "crowded": judge_crowded,
    "restarted": judge_restarted,
    "expired": judge_expired,
}

SEQUENCES = Relation(
    NAME,
    "A sequence gets the answers that it gets alone: beside others, after them, and when it starts again.",
    search,
    JUDGES,
    why_not=lambda bench: "" if bench.sequences else "the model has no sequences",
    weight=2.0,
    careful=frozenset(JUDGES),
)
