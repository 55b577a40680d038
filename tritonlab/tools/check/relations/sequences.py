"""`sequences`: a sequence gets the same answers as alone, whatever other sequences run before and next to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ....core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ..bench import Bench
from ..case import Case, Judgement, Relation, in_time, judge_answers, show_first
from ..sample import ModelAnswer, Sample

NAME = "sequences"
#: Requests of each sequence.
_STEPS = 3
#: The most sequences at once.
_MOST = 32
#: The `max_sequence_idle_microseconds` of the expiry trial.
_IDLE = 200_000
#: The difference of two ids that are equal modulo any number up to 16, any power of two up to 1024, and 100.
_FAR = 230_630_400


def search(bench: Bench) -> Iterator[Case]:
    """Yield pairs of sequences that disturb each other."""
    pool = bench.pool
    pairs = [(pool[0], pool[place]) for place in range(1, min(len(pool), 4))] or [(pool[0], pool[0])]
    for kind, words in (
        ("ended", "one sequence after another"),
        ("interleaved", "interleaved sequences"),
        ("crowded", "as many sequences as there is room for"),
        ("restarted", "a sequence that starts again"),
        ("expired", "sequences that expire"),
    ):
        if kind == "crowded" and (_places(bench) < 3 or (NAME, "interleaved") in bench.found):
            continue  # two sequences at once have been tried
        bench.say(words)
        facts = {"count": _places(bench)} if kind == "crowded" else {}
        tried = in_time(bench, pairs[:2] if kind in ("ended", "interleaved") else pairs[:1])
        cases = (Case(NAME, kind, (victim.sample, other.sample), (1, 0), facts) for victim, other in tried)
        yield from show_first(bench, judge, cases, True)


class _Steps:
    """One sequence: its id and how many requests it has sent."""

    def __init__(self, bench: Bench, sample: Sample, steps: int = _STEPS) -> None:
        self.ident = bench.sequence_id()
        self._bench = bench
        self._sample = sample
        self._steps = steps
        self._done = 0

    def request(self) -> InferenceRequest:
        self._done += 1
        flags = SEQUENCE_START * (self._done == 1) | SEQUENCE_END * (self._done == self._steps)
        return self._sample.request(self._bench.scratch.name, correlation_id=self.ident, flags=flags)

    def send(self, count: int = _STEPS) -> list[ModelAnswer]:
        """Send `count` requests, one after the other."""
        return [self._bench.ask([self.request()])[0] for _ in range(count)]


class _Scene(NamedTuple):
    """The answers of the judged sequence, and where and why they may differ from its answers alone, in words."""

    got: list[ModelAnswer]
    where: str
    why: str


def judge(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge a sequence by its answers alone, in the scenes of a case, each in new processes."""
    victim, other = case.samples[0], case.samples[-1]
    bench.renew()
    expected = _Steps(bench, victim).send()
    for scene in SCENES[case.kind](bench, victim, other, **case.facts):
        if not all(one.good for one in expected):
            return None
        for step, (one, got) in enumerate(zip(expected, scene.got, strict=True), 1):
            where = f"for request {step} of a sequence {scene.where}"
            if (judgement := judge_answers(bench, one, got, where, "in a sequence alone", scene.why)) is not None:
                return judgement
    return None


def _play_ended(bench: Bench, victim: Sample, other: Sample) -> Iterator[_Scene]:
    """Send a sequence after another has ended, in the same slot."""
    bench.renew()
    _Steps(bench, other).send()
    got = _Steps(bench, victim).send()
    yield _Scene(got, "after another has ended", "What the other has left is not forgotten.")


def _play_interleaved(bench: Bench, victim: Sample, other: Sample) -> Iterator[_Scene]:
    """Send the requests of a sequence and of another one alternately."""
    for order, at_once in (((0, 1), False), ((0, 1), True), ((1, 0), True)):
        bench.renew()
        pair = _Steps(bench, victim), _Steps(bench, other)
        if isinstance(pair[0].ident, int):
            pair[1].ident = pair[0].ident + _FAR  # a table of fixed size puts both into one place
        got: list[ModelAnswer] = []
        for _ in range(_STEPS):
            requests = [pair[number].request() for number in order]
            answers = bench.ask(requests) if at_once else [bench.ask([one])[0] for one in requests]
            got.append(answers[order.index(0)])
        yield _Scene(got, "beside another one", "The two sequences share what each should have.")


def _places(bench: Bench) -> int:
    """Return how many sequences one instance holds at once, as far as that is tried."""
    batching = bench.config.sequence_batching
    oldest = int(batching.oldest.max_candidate_sequences) if batching.HasField("oldest") else 0
    return min(oldest or max(int(bench.config.max_batch_size), 1), _MOST)


def _play_crowded(bench: Bench, victim: Sample, other: Sample, count: int) -> Iterator[_Scene]:
    """Send a sequence next to as many others as the scheduler admits."""
    bench.renew()
    every = [_Steps(bench, victim), *(_Steps(bench, other) for _ in range(count - 1))]
    rounds = [[one.send(1)[0] for one in every] for _ in range(_STEPS)]
    got = [answers[0] for answers in rounds]
    why = f"The scheduler lets {count} sequences in at once, and the model does not keep all of them."
    yield _Scene(got, f"beside {count - 1} others", why)


def _play_restarted(bench: Bench, victim: Sample, other: Sample) -> Iterator[_Scene]:
    """Send a sequence with the id of another one that has had no END."""
    bench.renew()
    before = _Steps(bench, other, 9)
    before.send(2)
    again = _Steps(bench, victim)
    again.ident = before.ident
    yield _Scene(again.send(), "that starts again under its id", "A START leaves what the sequence had before.")


def _play_expired(bench: Bench, victim: Sample, other: Sample) -> Iterator[_Scene]:
    """Send a sequence after another has been idle for too long, in the same slot."""
    batching = dict(bench.scratch.written()["sequence_batching"])
    batching["max_sequence_idle_microseconds"] = _IDLE
    try:
        bench.scratch.start(sequence_batching=batching)
        _Steps(bench, other, 9).send(2)
        time.sleep(_IDLE / 1e6 * 1.5)
        got = _Steps(bench, victim).send()
    finally:
        bench.scratch.start()
    yield _Scene(got, "after another has expired", "What the expired one has left is not forgotten.")


SCENES: dict[str, Callable[..., Iterator[_Scene]]] = {
    "ended": _play_ended,
    "interleaved": _play_interleaved,
    "crowded": _play_crowded,
    "restarted": _play_restarted,
    "expired": _play_expired,
}

SEQUENCES = Relation(
    NAME,
    "A sequence gets the answers that it gets alone: beside others, after them, and when it starts again.",
    search,
    dict.fromkeys(SCENES, judge),
    why_not=lambda bench: "" if bench.sequences else "the model has no sequences",
    weight=2.0,
    careful=frozenset(SCENES),
)
