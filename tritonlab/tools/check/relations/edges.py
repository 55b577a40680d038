"""`edges`: values at the edges of the config are answered, or refused, without damage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ....exchanges.literal import floats
from ..bench import Bench, Known
from ..case import Case, Judgement, Relation, fit, in_time, judge_answers, sentence_of, show_first
from ..generated import is_extreme, join_rows, with_rows
from ..sample import ModelAnswer, Sample
from .company import judge_after

NAME = "edges"
#: Exceptions that are not meant as a refusal of a value.
_ACCIDENTS = {
    *("IndexError", "ZeroDivisionError", "UnboundLocalError", "AttributeError", "TypeError", "RecursionError"),
    "NameError",
}
_ROWS = 32
#: numpy's texts about shapes that do not fit: no author writes them to refuse a value.
_SHAPES = re.compile(
    "zero-size array|empty sequence|could not be broadcast|cannot reshape|not aligned|at least one array"
)
#: The edge values that are ordinary numbers.
_MODERATE = re.compile(r" is -?1000$")


def search(bench: Bench) -> Iterator[Case]:
    """Yield edge values that kill, hang or confuse the model, and rows that depend on each other."""
    bench.say("what edge values did")
    for known in bench.edges:
        kind = _harm(bench, known)
        if kind == "accident" and known.words.startswith("no "):
            where = f" in line {known.answer.place[1]}" if known.answer.place is not None else ""
            bench.notes.append(f"A request {_with(known.words)} ends in {known.answer.summary}{where}.")
        elif kind:
            yield Case(NAME, kind, (known.sample,), facts={"words": known.words})
    bench.say("after edge values")
    yield from _find_poison(bench)
    is_stateful = ("company", "state") in bench.found
    if bench.shape.batches and bench.shape.most_rows > 1 and not (bench.sequences or is_stateful or bench.over()):
        bench.say("many rows")
        yield from _find_rows(bench)
    if not bench.over():
        bench.say("arrays that are read-only or not contiguous")
        _note_layouts(bench)


def _harm(bench: Bench, known: Known) -> str:
    answer = known.answer
    if answer.died:
        return "died"
    if not answer.ended:
        # so large a number may require much work
        return "" if answer.busy and is_extreme(known.words) else "hangs"
    if is_accident(answer):
        return "accident"
    if _is_nan_of_numbers(bench, known):
        return "nan"
    if any(relation == "answers" for relation, _ in bench.found):
        return ""
    if next(bench.problems(known.sample, answer), None) is not None:
        return "answer"
    return ""


def is_accident(answer: ModelAnswer) -> bool:
    """Return whether the exception is not meant as a refusal of a value."""
    exception = answer.exception
    if exception is None:
        return False
    kind = exception.type_name.rpartition(".")[2]
    return kind in _ACCIDENTS or (kind == "ValueError" and _SHAPES.search(exception.text) is not None)


def _is_nan_of_numbers(bench: Bench, known: Known) -> bool:
    """Return whether numbers give NaN, as no request of the usual values does. Only realistic numbers count: with the
    largest of the datatype nearly every sum is infinite."""
    if not (known.answer.good and _MODERATE.search(known.words) and _nan_in(known.answer)):
        return False
    return not any(_nan_in(one.answer) for one in bench.pool)


def _nan_in(answer: ModelAnswer) -> str:
    """Return the first output with a NaN."""
    for outputs in answer.responses:
        for name, tensor in outputs.items():
            if tensor.datatype.numpy.kind == "f" and np.isnan(floats(tensor)).any():
                return name
    return ""


def judge_edge(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    bench.renew(careful)
    sample, words = case.samples[0], str(case.facts["words"])
    answer = bench.alone(sample)
    if not answer.ended and not answer.died:
        answer = bench.retry(sample, answer)
    kind = _harm(bench, Known(sample, answer, words))
    reason = bench.scratch.watch.deaths[-1] if answer.died and bench.scratch.watch.deaths else ""
    problem = next(bench.problems(sample, answer), ("", ""))
    bench.recover(answer)
    if kind != case.kind:
        return None
    request = f"request {_with(words)}"
    text = {
        "died": f"A {request} kills the model's process{f' ({reason})' if reason else ''}.",
        "hangs": f"A {request} is never answered.",
        "accident": f"A {request} ends in {answer.summary}: the model does not expect such a value.",
        "nan": f"'{_nan_in(answer)}' is NaN for a {request}, which is an ordinary number.",
        "answer": f"In the answer to a {request}, {problem[1].rstrip('.')}.",
    }[kind]
    return Judgement(text, got=answer, place=answer.place)


def _with(words: str) -> str:
    """Return an edge value in the form that follows "request": `with no rows`, `whose X is NaN`."""
    return f"{'with' if words.startswith('no ') else 'whose'} {words}"


def _find_poison(bench: Bench) -> Iterator[Case]:
    """Yield edge values that change another request's answer, after them or next to them."""
    if ("company", "state") in bench.found:
        return
    victim = next((one for one in bench.pool if bench.shape.rows(one.sample) == 1), bench.pool[0])
    can_batch = bench.scratch.batches and not bench.sequences and ("company", "batch") not in bench.found
    for known in in_time(bench, bench.edges):
        facts = {"words": known.words}
        if known.answer.died or not known.answer.ended:
            continue
        answer = bench.alone(known.sample)
        bench.recover(answer)
        if bench.noise.differ(victim.answer, bench.alone(victim.sample)) is not None:
            bench.renew()
            yield Case(NAME, "poison", (victim.sample, known.sample), (1, 0), facts)
            return
        if can_batch and known.answer.good:
            pair = victim.sample, known.sample
            cases = [Case(NAME, "beside", pair, order, facts) for order in ((0, 1), (1, 0))]
            if (case := next(show_first(bench, judge_beside, cases), None)) is not None:
                yield case
                return


def judge_beside(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    if not fit(bench, case.sent()):
        return None
    bench.renew(careful)
    expected = bench.alone(case.samples[0])
    if not (expected.good and bench.alone(case.samples[1]).good):
        return None
    control = bench.alone(case.samples[0])
    got = bench.together(case.sent())[case.order.index(0)]
    if bench.noise.differ(expected, control) is not None:
        return None
    return judge_answers(bench, expected, got, f"in a batch with a request {_with(str(case.facts['words']))}", "alone")


def _find_rows(bench: Bench) -> Iterator[Case]:
    """Yield a request of many rows of which one gets another answer than in a request of its own."""
    shapes: dict[Any, list[Sample]] = {}
    for known in bench.pool:
        for row in range(bench.shape.rows(known.sample)):
            one = with_rows(known.sample, [row])
            shapes.setdefault(tuple(one.shapes.items()), []).append(one)
    rows = max(shapes.values(), key=len)
    counts = sorted({2, 3, min(bench.shape.most_rows, _ROWS)} & set(range(2, bench.shape.most_rows + 1)))
    many = (join_rows([rows[number % len(rows)] for number in range(count)]) for count in counts)
    yield from show_first(bench, judge_rows, (Case(NAME, "rows", (sample,)) for sample in many))


def judge_rows(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge the rows of one request: each must get the same answer as in a request of its own."""
    sample = case.samples[0]
    count = bench.shape.rows(sample)
    if count < 2:
        return None
    bench.renew(careful)
    single = [bench.alone(with_rows(sample, [row])) for row in range(count)]
    if not all(one.good and len(one.responses) == 1 for one in single):
        return None
    bench.renew(careful)
    got = bench.alone(sample)
    if not got.good:
        if got.exception is None and not got.died and got.ended and count < bench.shape.most_rows:
            return None
        text = (
            f"A request of {count} rows fails, though each of them is answered in a request of its own: {got.summary}."
        )
        return Judgement(text, expected=single[0], got=got, place=got.place)
    if len(got.responses) != 1:
        return None
    for row, expected in enumerate(single):
        outputs = {}
        for name, tensor in got.responses[0].items():
            if not tensor.shape or tensor.shape[0] != count:
                return None
            outputs[name] = with_rows(Sample({name: tensor}), [row]).inputs[name]
        one = ModelAnswer(responses=(outputs,))
        difference = bench.noise.differ(expected, one)
        if difference is not None and difference.kind == "value":
            bench.renew(careful)
            if any(
                bench.noise.differ(one, bench.alone(with_rows(sample, [place]))) is not None
                for place, one in reversed([*enumerate(single)])
            ):
                return None  # a row alone is answered according to earlier requests
            where = f"for row {row + 1} of a request of {count} rows"
            text = sentence_of(difference, where, "for the same row in a request of its own")
            return Judgement(text, difference, expected, one)
    return None


def _note_layouts(bench: Bench) -> None:
    """Note the inputs that must be writable for the model, and the inputs that must be contiguous. That is not a
    finding: Triton's arrays always are both, but the arrays of a script or a test that calls the same code may be
    neither."""
    probe, known = bench.scratch.probe, bench.pool[0]
    if probe is None:
        return

    def ask() -> ModelAnswer:
        return bench.alone(known.sample)

    for name in known.sample.inputs:
        try:
            probe.give_copies(name, ask, "read-only")
            got = ask()
            if got.exception is not None and "read-only" in got.exception.text:
                where = f" in line {got.place[1]} of {Path(got.place[0]).name}" if got.place is not None else ""
                bench.notes.append(f"The model writes into its input '{name}'{where}, which Triton allows.")
            probe.give_copies(name, ask, "spread")
            got = ask()
        finally:
            probe.give_copies("", ask)
        if bench.noise.differ(known.answer, got) is not None and bench.noise.differ(known.answer, ask()) is None:
            text = "With an array that is not contiguous the model answers otherwise; Triton's are contiguous."
            bench.notes.append(f"{text} It reads the memory of '{name}' itself.")


EDGES = Relation(
    NAME,
    "Values at the edges of what the config allows are answered or refused, and do no harm; rows are independent.",
    search,
    {
        **dict.fromkeys(("died", "hangs", "accident", "answer", "nan"), judge_edge),
        "poison": lambda bench, case, careful: judge_after(
            bench, case, f"after a request {_with(case.facts['words'])}"
        ),
        "beside": judge_beside,
        "rows": judge_rows,
    },
    careful=frozenset({"poison", "died", "hangs"}),
)
