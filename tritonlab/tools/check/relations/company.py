"""`company`: a request gets the same answer as alone, whatever precedes it and whatever is next to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from ....core.inference.data_type import DataType
from ....core.status import TritonError
from ....exchanges.comparison import value_text
from ....exchanges.literal import floats
from ..bench import Bench, Known
from ..case import Case, Judgement, Relation, fit, in_time, judge_answers, sentence_of, show_first
from ..generated import near_collisions
from ..noise import AnswerDifference
from ..sample import ModelAnswer, Sample

NAME = "company"
#: The most batches of requests that are tried.
_BATCHES = 60
#: Requests that are sent at once, not in a batch.
AT_ONCE = 8
#: The most requests similar to the first one, and how often two instances are called at once.
_SIMILAR, _ROUNDS = 16, 40
#: Errors of edge values for which a new instance is tried.
_REFUSED = 6
#: The most requests that are sent before one, to see if their number matters.
_MANY = 1_000
#: Values equal to another request's before answers count as mixed up: fewer may be equal by chance.
_MIXED_UP = 3


def search(bench: Bench) -> Iterator[Case]:
    """Yield suspicious cases of state, of a batch, and of a second instance."""
    bench.say("one after the other")
    state = _find_state(bench)
    if state is None and not bench.over():
        bench.say("requests that are easily mistaken")
        state = _find_mistaken(bench)
    if state is None and not bench.over():
        bench.say("edge values alone")
        state = _find_refused_after(bench)
    if state is not None:
        yield state
    if not bench.sequences and bench.scratch.batches:
        bench.say("batches")
        batch = _find_batch(bench, is_stateful=state is not None)
        if batch is not None:
            yield batch
    if not bench.sequences and not bench.over():
        bench.say("several at once")
        yield from _find_crowd(bench, is_stateful=state is not None)
    if not (bench.over() or bench.sequences or bench.scratch.is_ensemble):
        bench.say("two instances")
        instances = Case(NAME, "instances", (bench.pool[0].sample,))
        yield from show_first(bench, judge_instances, [instances], True)
        if bench.has_one_instance:
            return
        if state is None and not bench.over() and not {(NAME, "crowd"), (NAME, "instances")} & bench.found:
            bench.say("two instances at the same time")
            yield from _find_busy(bench)


# -- state


def _find_state(bench: Bench) -> Case | None:
    """Return two requests of which the second, after the first, gets another answer than alone."""
    bench.renew()
    sent: list[Sample] = []
    half = len(bench.pool) // 2
    for known in [*bench.pool[half:], *bench.pool, *bench.pool[:half]]:
        answer = bench.alone(known.sample)
        if bench.noise.differ(known.answer, answer) is not None:
            for other in [*reversed(sent[-6:]), known.sample]:
                case = _state(known.sample, other)
                if judge_state(bench, case, True) is not None:
                    return case
                if bench.over():
                    return None
            many = Case(NAME, "state", (known.sample, sent[-1] if sent else known.sample), (*[1] * 8, 0))
            return many if judge_state(bench, many, True) is not None else None
        sent.append(known.sample)
    return None


def _find_mistaken(bench: Bench) -> Case | None:
    """Return two requests of which the second gets another answer after the first than before it: similar requests,
    edge values, and many elements."""
    similar = [*islice(near_collisions(bench.pool[0].sample), _SIMILAR), *(one.sample for one in bench.pool[:1])]
    for samples in (similar, [*(one.sample for one in bench.mixed_company()), bench.pool[0].sample]):
        if len(samples) < 2 or bench.over():
            continue
        bench.renew()
        before = _each(bench, samples)
        bench.renew()
        after = _each(bench, samples[::-1])[::-1]
        for place, (one, two) in enumerate(zip(before, after, strict=True)):
            if not (one.good or two.good) or bench.noise.differ(one, two) is None:
                continue
            others = [*reversed(samples[:place]), *samples[place + 1 :]]
            cases = in_time(bench, (_state(samples[place], other) for other in others))
            if (case := next(show_first(bench, judge_state, cases, True), None)) is not None:
                return case
    return None


def _find_refused_after(bench: Bench) -> Case | None:
    """Return an edge value that was refused but that a new instance answers, and the request that causes the refusal;
    one edge value of each error is tried."""
    by_error = {one.answer.summary: one for one in reversed(bench.edges) if one.answer.ended and not one.answer.good}
    for known in in_time(bench, [*by_error.values()][:_REFUSED]):
        if known.answer.died or not bench.fresh_answer(known.sample).good:
            continue
        others = [*bench.pool, *(one for one in bench.edges if one is not known)]
        cases = in_time(bench, (_state(known.sample, other.sample) for other in others))
        if (case := next(show_first(bench, judge_state, cases, True), None)) is not None:
            return case
    return None


def _state(victim: Sample, other: Sample) -> Case:
    return Case(NAME, "state", (victim, other), (1, 0))


def _each(bench: Bench, samples: Sequence[Sample]) -> list[ModelAnswer]:
    answers = []
    for sample in samples:
        answers.append(bench.alone(sample))
        bench.recover(answers[-1])
    return answers


def judge_state(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    victim = case.samples[case.order[-1]]
    expected = bench.fresh_answer(victim)
    if not expected.good:
        return None
    bench.renew()
    for sample in case.sent()[:-1]:
        bench.alone(sample)
    count = len(case.order) - 1
    if len(case.samples) == 1 or case.samples[0].key == case.samples[1].key:
        when = "when it is sent a second time" if count == 1 else f"after it was sent {count} times"
    else:
        when = "after another request" if count == 1 else f"after {count} other requests"
    why = "The model keeps something between requests."
    return judge_answers(bench, expected, bench.alone(victim), when, "to a new instance", why)


def judge_after(bench: Bench, case: Case, where: str, why: str = "", *, fails: bool = False) -> Judgement | None:
    """Judge a request after the other one of a case. The other one is the cause only if the request alone, sent twice,
    gets the same answer. `fails`: whether the other one must fail."""
    victim, other = case.samples
    expected = bench.fresh_answer(victim)
    if not expected.good:
        return None
    bench.renew()
    before = bench.alone(other)
    if fails and not before.is_refusal:
        return None
    bench.recover(before)
    judgement = judge_answers(bench, expected, bench.alone(victim), where, "to a new instance", why)
    if judgement is None or is_stateful(bench, victim, expected):
        return None
    return replace(judgement, place=judgement.place or before.place) if fails else judgement


def is_stateful(bench: Bench, sample: Sample, expected: ModelAnswer, times: int = 1) -> bool:
    """Return whether a request alone, sent again, gets another answer, so that no other cause is needed. `expected`:
    its answer from a new instance; `times`: how often it is sent again."""
    bench.renew()
    return any(bench.noise.differ(expected, bench.alone(sample)) is not None for _ in range(times + 1))


# -- batches


def search_more(bench: Bench) -> Iterator[Case]:
    """Yield suspicious cases of random company as long as there is time: one after the other, and in batches."""
    known = [*bench.pool, *bench.mixed_company()]
    batches = bench.scratch.batches and bench.shape.most_rows > 1
    bench.renew()
    sent: list[Known] = []
    count = 0
    while not bench.over():
        chosen = _random_batch(bench, known) if batches else []
        count += len(chosen) or 1
        victim = known[int(bench.random.integers(len(known)))]
        others = chosen or sent[-4:]
        answers = bench.together([one.sample for one in chosen]) if chosen else [bench.alone(victim.sample)]
        for place, (one, got) in enumerate(zip(chosen or [victim], answers, strict=True)):
            if bench.noise.differ(one.answer, got) is None:
                continue
            bench.recover(got)
            for case in _reasons(bench, one, chosen, place=place, before=others, count=count):
                yield case
                if (NAME, case.kind) in bench.found:
                    return
            bench.renew()  # these requests cannot show the cause
            count = 0
            break
        sent = [*sent, *(chosen or [victim])][-8:]


def _reasons(
    bench: Bench, victim: Known, batch: Sequence[Known], *, place: int, before: Sequence[Known], count: int
) -> Iterator[Case]:
    """Yield cases that may explain why a request is answered differently: its batch, an earlier request, or their
    number.
    """
    if batch and (case := _reduce(bench, batch, place)) is not None:
        yield case
    last = before[-1] if before else victim
    pairs = [_state(victim.sample, other.sample) for other in reversed(before)]
    many = [_state(victim.sample, last.sample).changed(order=(*[1] * count, 0))] if count <= _MANY else []
    for case in in_time(bench, (*pairs, *many)):
        if judge_state(bench, case, True) is not None:
            yield case


def _random_batch(bench: Bench, pool: Sequence[Known]) -> list[Known]:
    most = bench.shape.most_rows
    size = int(bench.random.integers(2, min(most, 16) + 1)) if most >= 2 else 1
    chosen: list[Known] = []
    while (
        len(chosen) < size
        and (one := pool[int(bench.random.integers(len(pool)))])
        and fit(bench, [each.sample for each in (*chosen, one)])
    ):
        chosen.append(one)
    return chosen


def _find_batch(bench: Bench, is_stateful: bool) -> Case | None:
    batches = in_time(bench, _batches(bench))
    if is_stateful:
        pairs = (Case(NAME, "batch", tuple(known.sample for known in order[:2]), (0, 1)) for order in batches)
        return next(show_first(bench, judge_batch, pairs, True), None)
    for order in batches:
        answers = bench.together([known.sample for known in order])
        for place, (known, answer) in enumerate(zip(order, answers, strict=True)):
            if bench.noise.differ(known.answer, answer) is None:
                continue
            bench.recover(answer)
            if (case := _reduce(bench, order, place)) is not None:
                return case
            break
    return None


def _batches(bench: Bench) -> Iterator[list[Known]]:
    """Yield batches of requests: two, the same one twice, mixed lengths, full ones, and random ones."""
    pool, most = bench.pool, bench.shape.most_rows
    singles = [one for one in pool if bench.shape.rows(one.sample) == 1] or pool[:1]
    first = pool[0]
    yield [first, first]
    for other in pool[1:5]:
        if fit(bench, (first.sample, other.sample)):
            yield [first, other]
            yield [other, first]
    if bench.shape.ragged:
        yield from _ragged_batches([*singles, *bench.long], most)
    yield [singles[number % len(singles)] for number in range(min(most, 64))]
    for other in bench.mixed_company():
        if fit(bench, (first.sample, other.sample)):
            yield [other, singles[-1]]
            yield [singles[-1], other]
    pool = [*pool, *bench.mixed_company()]
    for _ in range(_BATCHES):
        if len(chosen := _random_batch(bench, pool)) > 1:
            yield chosen


def _ragged_batches(singles: Sequence[Known], most: int) -> Iterator[list[Known]]:
    """Yield batches of one-row requests, all of different lengths: the longest last, first, and in the middle."""
    by_length = {one.sample.size[0]: one for one in singles}
    mixed = [by_length[length] for length in sorted(by_length)][-most:]
    if len(mixed) > 1:
        yield mixed
        yield mixed[::-1]
        for shorter, longer in pairwise(mixed):
            yield [shorter, longer, shorter][:most]


def _reduce(bench: Bench, order: Sequence[Known], place: int) -> Case | None:
    """Return the smallest suspicious case with the request at that place."""
    others = [one.sample for number, one in enumerate(order) if number != place]
    orders: list[tuple[Sample, tuple[int, ...]]] = [(other, each) for other in others for each in ((0, 1), (1, 0))]
    for other in others[:4]:
        for count in range(2, len(order)):
            orders += [(other, (*[1] * before, 0, *[1] * (count - before))) for before in (0, count, min(place, count))]
    cases = (Case(NAME, "batch", (order[place].sample, other), numbers) for other, numbers in orders)
    return next(show_first(bench, judge_batch, cases), None)


def judge_batch(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    sent = case.sent()
    if not fit(bench, sent):
        return None
    bench.renew(careful)
    expected = [bench.alone(one) for one in sent]
    if not all(one.good for one in expected):
        return None
    bench.renew(careful)
    got = bench.together(sent)
    for place, number in enumerate(case.order):
        difference = bench.noise.differ(expected[place], got[place])
        if difference is not None and number == 0:
            first = bench.fresh_answer(case.samples[0]) if careful else expected[place]
            if bench.noise.differ(first, got[place]) is None:
                return None  # alone in a new instance it gets the same answer: earlier requests matter, not the batch
            text = _batch_sentence(bench, difference, case=case, place=place, expected=expected)
            return Judgement(text, difference, expected[place], got[place], got[place].place)
    return None


def _batch_sentence(
    bench: Bench, difference: AnswerDifference, case: Case, place: int, expected: Sequence[ModelAnswer]
) -> str:
    count = len(case.order)
    where = f"as request {place + 1} of a batch of {count}"
    text = sentence_of(difference, where, "alone")
    same = all(one.key == case.samples[0].key for one in case.samples)
    if difference.kind == "value" and not same:
        for other, number in enumerate(case.order):
            if number != 0 and _value(expected[other], difference) == difference.got and _are_mixed_up(bench):
                return f"{text} {difference.got} is what the other request gets: the answers are mixed up."
        return f"{text} What is in the other request gets into it."
    if difference.kind == "error":
        return f"{text} The model cannot execute these requests together."
    return text


def _are_mixed_up(bench: Bench) -> bool:
    """Return whether requests of one batch, which all get different answers alone, get more than two values of each
    other's answers."""
    by_answer: list[Known] = []
    for one in bench.pool:
        is_other = all(bench.noise.differ(one.answer, each.answer) is not None for each in by_answer)
        if is_other and len(by_answer) < AT_ONCE and fit(bench, [each.sample for each in (*by_answer, one)]):
            by_answer.append(one)
    if len(by_answer) < 2:
        return False
    values = 0
    for one, got in zip(by_answer, bench.together([each.sample for each in by_answer]), strict=True):
        for other in by_answer:
            if other is one or not got.good or bench.noise.differ(one.answer, got) is None:
                continue
            if bench.noise.differ(other.answer, got) is None:
                values += _apart(one.answer, other.answer)
                break
    return values >= _MIXED_UP


def _apart(one: ModelAnswer, other: ModelAnswer) -> int:
    """Return in how many values two answers differ."""
    count = 0
    for first, second in zip(one.responses, other.responses, strict=False):
        for name in first.keys() & second.keys():
            if first[name].shape != second[name].shape:
                count += 1
            elif first[name].datatype is DataType.BYTES:
                count += int(np.sum(first[name].numpy() != second[name].numpy()))
            else:
                count += int(np.sum(floats(first[name]) != floats(second[name])))
    return count


def _value(answer: ModelAnswer, difference: AnswerDifference) -> str:
    """Return the other answer's value where the two differ."""
    try:
        return value_text(answer.responses[difference.response][difference.output], difference.index)
    except (IndexError, KeyError):
        return ""


# -- several at once, not in a batch


def _find_crowd(bench: Bench, is_stateful: bool) -> Iterator[Case]:
    if is_stateful or {(NAME, "batch"), ("streams", "many")} & bench.found:
        return
    bench.renew()
    for case in cases_at_once(bench, NAME, "crowd", bench.pool, rounds=6):
        yield case
        if (NAME, "crowd") in bench.found:
            return


def judge_crowd(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    others = len(case.order) - 1
    are = "another request is" if others == 1 else f"{others} other requests are"
    return judge_at_once(bench, case, f"while {are} under way")


def cases_at_once(bench: Bench, relation: str, kind: str, known: Sequence[Known], rounds: int) -> Iterator[Case]:
    """Send `AT_ONCE` of the known requests in each round, and yield a case of the first one with another answer than
    alone."""
    for number in in_time(bench, range(rounds)):
        chosen = [known[(number + each) % len(known)] for each in range(AT_ONCE)]
        answers = bench.at_once([one.sample for one in chosen])
        for one, answer in zip(chosen, answers, strict=True):
            if bench.noise.differ(one.answer, answer) is not None:
                other = next((each for each in chosen if each.sample.key != one.sample.key), one)
                bench.recover(answer)
                yield Case(relation, kind, (one.sample, other.sample), (0, 1) * (AT_ONCE // 2))
                break


def judge_at_once(bench: Bench, case: Case, where: str) -> Judgement | None:
    """Judge whether a request gets another answer among others than alone; `where` describes that in the sentence."""
    expected = bench.fresh_answer(case.samples[0])
    if not expected.good:
        return None
    for rounds in range(1, 5):
        answers = bench.at_once(case.sent())
        for number, got in zip(case.order, answers, strict=True):
            judgement = judge_answers(bench, expected, got, where, "alone") if number == 0 else None
            if judgement is not None:
                return None if _differ_in_turn(bench, case, rounds) else judgement
    return None


def _differ_in_turn(bench: Bench, case: Case, rounds: int) -> bool:
    """Return whether the request is also answered differently if as many are sent one after the other."""
    expected = bench.fresh_answer(case.samples[0])
    bench.renew()
    answers = [bench.alone(one) for _ in range(rounds) for one in case.sent()]
    return any(
        number == 0 and bench.noise.differ(expected, got) is not None
        for number, got in zip(case.order * rounds, answers, strict=True)
    )


# -- two instances


def judge_instances(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    sample = case.samples[0]
    expected = bench.fresh_answer(sample)
    if not expected.good:
        return None
    try:
        bench.scratch.start(**instances_of(bench, 2))
        answers = [bench.together([sample], instance) for instance in (0, 1)]
    except TritonError:
        bench.has_one_instance = True
        return None  # the relation `life` tries that
    finally:
        bench.scratch.start()
    for number, (got,) in enumerate(answers, 1):
        where = f"from instance {number} of two"
        if (judgement := judge_answers(bench, expected, got, where, "from the only instance")) is not None:
            return judgement
    return None


def instances_of(bench: Bench, count: int) -> dict[str, Any]:
    """Return the changes of the config for `count` instances."""
    return {"instance_group": [{**bench.scratch.written()["instance_group"][0], "count": count}]}


def _find_busy(bench: Bench) -> Iterator[Case]:
    first = bench.pool[0]
    other = next((one for one in bench.pool if bench.noise.differ(first.answer, one.answer) is not None), None)
    if other is not None:
        case = Case(NAME, "busy", (first.sample, other.sample), (0, 1) * AT_ONCE)
        yield from show_first(bench, judge_busy, [case], True)


def judge_busy(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge requests that run on two instances at the same time, each in its own batch."""
    expected = bench.fresh_answer(case.samples[0])
    if not expected.good:
        return None
    try:
        bench.scratch.start(**instances_of(bench, 2), dynamic_batching=None)
        found, rounds = _judge_among(bench, case, expected, _ROUNDS)
        if found is None:
            return None
        bench.scratch.start(dynamic_batching=None)
        # one instance may give the same answers to as many requests
        return found if _judge_among(bench, case, expected, rounds + 1)[0] is None else None
    except TritonError:
        return None  # the relation `life` tries that
    finally:
        bench.scratch.start()


def _judge_among(bench: Bench, case: Case, expected: ModelAnswer, most: int) -> tuple[Judgement | None, int]:
    """Send the requests of a case at once, at most `most` times; return the result of the first differing answer of
    the judged request, and its round."""
    where, why = "while another instance executes another request", "The two instances share something."
    for rounds in range(1, most + 1):
        for number, got in zip(case.order, bench.at_once(case.sent()), strict=True):
            if number == 0 and (found := judge_answers(bench, expected, got, where, "alone", why)) is not None:
                return found, rounds
        if bench.over():
            break
    return None, most


COMPANY = Relation(
    NAME,
    "A request gets the answer that it gets alone, whatever is before it, beside it in a batch, or elsewhere.",
    search,
    {
        "state": judge_state,
        "batch": judge_batch,
        "crowd": judge_crowd,
        "instances": judge_instances,
        "busy": judge_busy,
    },
    weight=2.0,
    careful=frozenset({"state", "crowd", "instances", "busy"}),
)
