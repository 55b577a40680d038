"""`neighbours`: a request that fails, or is cancelled, does not affect the requests next to it and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..bench import Bench
from ..case import Case, Judgement, Relation, fit, in_time, judge_answers, show_first
from ..problems import is_utf8
from ..sample import ModelAnswer, Sample
from .company import judge_after

NAME = "neighbours"
#: The most refused requests that are tried next to others.
_TRIED = 8


def search(bench: Bench) -> Iterator[Case]:
    """Yield cases of a request next to a refused one, after a refused one, and next to a cancelled one."""
    victim = _single(bench)
    together = bench.scratch.batches and not bench.sequences and bench.shape.most_rows > 1
    bad = _different(bench)
    if together:
        bench.say("beside a request that fails")
        # even correct models often decode texts without handling other bytes
        pairs = ((victim, other) for other in bad if is_utf8(other))
        cases = (Case(NAME, "failed", pair, order) for pair in pairs for order in ((0, 1), (1, 0)))
        yield from show_first(bench, judge_failed, in_time(bench, cases))
    bench.say("after a request that has failed")
    for other in in_time(bench, bad):
        answer = bench.alone(other)
        bench.recover(answer)
        if bench.noise.differ(bench.pool[0].answer, bench.alone(bench.pool[0].sample)) is not None:
            yield Case(NAME, "after", (bench.pool[0].sample, other), (1, 0))
            bench.renew()
            break
    bench.say("beside a request that is cancelled")
    if not bench.over():
        yield from _find_cancelled(bench, together)


def _single(bench: Bench) -> Sample:
    """Return a request of one row, so that the batch has room for another one."""
    return next((one.sample for one in bench.pool if bench.shape.rows(one.sample) == 1), bench.pool[0].sample)


def _different(bench: Bench) -> list[Sample]:
    """Return refused requests, first one of each error."""
    by_error: dict[str, Sample] = {}
    for known in bench.refused:
        kind = known.answer.exception.type_name if known.answer.exception is not None else known.answer.summary
        by_error.setdefault(kind, known.sample)
    return list(by_error.values())[:_TRIED]


def judge_failed(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge a request in a batch with a request that fails alone."""
    if not fit(bench, case.sent()):
        return None
    bench.renew(careful)
    bad = bench.alone(case.samples[1])
    if not bad.is_refusal:
        return None
    bench.renew(careful)
    expected = bench.alone(case.samples[0])
    if not expected.good:
        return None
    control = bench.alone(case.samples[0])
    got = bench.together(case.sent())[case.order.index(0)]
    judgement = judge_answers(bench, expected, got, "beside a request that fails", "alone")
    if judgement is None or judgement.difference is None:
        return None
    is_error = judgement.difference.kind == "error"
    if not is_error and ("company", "batch") in bench.found:
        return None
    if bench.noise.differ(expected, control) is not None and not (is_error and control.good):
        return None  # the answer differs when the request is sent again, without the neighbour
    if is_error:
        how = "fails with" if got.ended else "gets no answer beside"
        text = f"A good request {how} a bad one in its batch: {(got.summary or 'no answer').rstrip('.')}. "
        text += "Only the bad one should get an error: give it an InferenceResponse with an error of its own."
        judgement = replace(judgement, sentence=text)
    return replace(judgement, place=got.place or bad.place)


def judge_after_failed(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    where, why = "after a request that has failed", "The failure leaves something behind."
    return judge_after(bench, case, where, why, fails=True)


def _find_cancelled(bench: Bench, together: bool) -> Iterator[Case]:
    victim = _single(bench)
    others = [one for one in bench.pool if one.sample.key != victim.key]
    # a short stream ends before its cancellation arrives
    other = max(others, key=lambda one: len(one.answer.responses)).sample if others else victim
    orders, facts = ((0, 1), (1, 0)) if together else ((1, 0),), {"together": together}
    cases = (Case(NAME, "cancelled", (victim, other), order, facts) for order in orders)
    yield from show_first(bench, judge_cancelled, in_time(bench, cases))


def judge_cancelled(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    bench.renew(careful)
    expected = bench.alone(case.samples[0])
    if not expected.good:
        return None
    together = bool(case.facts.get("together"))
    plain = _with_cancelled(bench, case, together, ())
    place = case.order.index(0)
    if bench.noise.differ(expected, plain[place]) is not None:
        return None  # the other request is enough, cancelled or not
    for _ in range(3):
        for when in (-1, 0, 1) if bench.scratch.decoupled else (-1,):
            got = _with_cancelled(bench, case, together, (when,))[place]
            where = f"{'beside' if together else 'after'} a request that is cancelled"
            judgement = judge_answers(bench, expected, got, where, "alone")
            if judgement is None or judgement.difference is None:
                continue
            bench.renew()  # without the cancellation there is nothing left behind
            again = _with_cancelled(bench, case, together, ())[place]
            if bench.noise.differ(expected, again) is None or (judgement.difference.kind == "error" and again.good):
                return judgement
    return None


def _with_cancelled(bench: Bench, case: Case, together: bool, when: tuple[int, ...]) -> list[ModelAnswer]:
    cancel = {number: when[0] for number, of in enumerate(case.order) if of == 1} if when else {}
    if together:
        return bench.at_once(case.sent(), gather=True, cancel=cancel)
    if bench.sequences:
        return [bench.alone(one) for one in case.sent()]
    bench.at_once(case.samples[1:], cancel={0: when[0]} if when else {})
    return [bench.alone(case.samples[0]) if of == 0 else ModelAnswer() for of in case.order]


NEIGHBOURS = Relation(
    NAME,
    "A request that fails or is cancelled does not touch those beside it and after it.",
    search,
    {"failed": judge_failed, "after": judge_after_failed, "cancelled": judge_cancelled},
    careful=frozenset({"after", "cancelled"}),
)
