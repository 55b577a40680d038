"""`streams`: the responses of a decoupled model come in order, and end after a cancellation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ....exchanges.comparison import is_reordered
from ..bench import Bench, Known
from ..case import Case, Judgement, Relation, show_first
from .company import AT_ONCE, cases_at_once, judge_at_once

NAME = "streams"
#: A model continues after a cancellation if it sends so many more responses, over so many seconds, without checking for
#: it.
_MORE, _SECONDS = 5, 0.2
#: The responses, and the seconds, after a cancellation at which a stream that has not ended is judged.
_ENOUGH = 10, 1.0


def search(bench: Bench) -> Iterator[Case]:
    """Yield streams that differ when sent among many, and streams that continue after their cancellation."""
    bench.say("cancelling streams")
    yield from _find_deaf(bench)
    if bench.over() or not bench.pool:
        return
    bench.say("the order of a stream")
    longest = _sort_longest_first(bench.pool)
    if len(longest[0].answer.responses) > 1:
        yield from show_first(bench, judge_order, [Case(NAME, "order", (longest[0].sample,))])
    bench.say("many streams at once")
    if (NAME, "order") not in bench.found:
        yield from islice(cases_at_once(bench, NAME, "many", longest[:6], rounds=4), 1)


def _sort_longest_first(streams: Sequence[Known]) -> list[Known]:
    return sorted(streams, key=lambda one: -len(one.answer.responses))


def judge_order(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether a stream has the same order of responses each time, alone and among others."""
    bench.renew(careful)
    sample = case.samples[0]
    first = bench.alone(sample)
    for size in (1, 1, 1, 1, AT_ONCE, AT_ONCE):
        answers = bench.at_once([sample] * size)
        if not all(got.ended for got in answers):
            bench.recover(next(got for got in answers if not got.ended))
            return None  # the kind "many" tries that, while there is time
        for got in answers:
            if first.good and got.good and is_reordered(first.responses, got.responses):
                name = next(iter(got.responses[0]), "")
                text = f"The responses of a stream ('{name}') come in another order when the same is sent again"
                more = ", among others" if size > 1 else ""
                return Judgement(f"{text}{more}: a client cannot put them together.", expected=first, got=got)
    return None


def _find_deaf(bench: Bench) -> Iterator[Case]:
    cases = (
        Case(NAME, "cancelled", (known.sample,), facts={"after": after})
        for known in [*_sort_longest_first(bench.pool)[:3], *bench.endless[:1]]
        if len(known.answer.responses) > _MORE and not bench.over()
        for after in (1, 2)
    )
    if (case := next(show_first(bench, judge_cancelled, cases), None)) is not None:
        yield case
    elif bench.pool:
        unended = Case(NAME, "unended", (bench.pool[0].sample,), facts={"after": 1})
        yield from show_first(bench, judge_unended, [unended])


def judge_cancelled(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether a stream ends soon after its cancellation."""
    bench.renew(careful)
    sample = case.samples[0]
    (got,) = bench.at_once([sample], cancel={0: int(case.facts["after"])}, enough=_ENOUGH)
    bench.recover(got)
    if got.polled or got.after < _MORE or got.seconds < _SECONDS:
        return None
    whole = None
    if got.ended:
        whole = bench.alone(sample)
        if not whole.good or len(got.responses) < len(whole.responses):
            return None
        text = f"it sends all {len(got.responses)} responses, {got.after} of them after the cancellation"
    else:
        if got.after < _ENOUGH[0]:
            return None  # the stream is slow, or hangs
        text = f"it sends {got.after} responses more within {_ENOUGH[1]:g} s or somewhat longer"
    text = f"The model goes on after a stream is cancelled: {text}, and never calls is_cancelled()."
    return Judgement(text, expected=whole, got=got)


def judge_unended(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether a cancelled stream ends at all."""
    bench.renew(careful)
    sample = case.samples[0]
    if not bench.alone(sample).good:
        return None
    for after in (-1, int(case.facts["after"])):
        (got,) = bench.at_once([sample], cancel={0: after})
        if not got.ended:
            bench.recover(got)
            text = "A stream that is cancelled never ends: the final flag is not sent after a cancellation."
            return Judgement(text, got=got)
        if "without the final flag" in got.error:
            text = "A stream that is cancelled is dropped without the final flag, so that its client waits for ever."
            return Judgement(text, got=got, place=got.place)
    return None


STREAMS = Relation(
    NAME,
    "The responses of a stream come in the same order among many streams, and stop when the stream is cancelled.",
    search,
    {
        "order": judge_order,
        "many": lambda bench, case, careful: judge_at_once(bench, case, f"among {len(case.order)} streams at once"),
        "cancelled": judge_cancelled,
        "unended": judge_unended,
    },
    why_not=lambda bench: "" if bench.scratch.decoupled else "the model is not decoupled",
    beyond=("slow reads", "send() never waits for a client, so that a model cannot see how fast its stream is read"),
    careful=frozenset({"many"}),
)
