"""`answers`: each request gets one end, and what the config declares."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from ....ipc.processes.stub_log import UNCHECKED
from ..bench import Bench
from ..case import Case, Judgement, Relation
from ..generated import filled
from ..problems import broken_text, is_utf8, rule_broken, text_outputs
from ..sample import ModelAnswer, Sample
from .company import sentence_of

NAME = "answers"
#: Requests that are tried for what the log has said, lines of a traceback, and the seconds in which a line must come.
_LOGGED, _LINES, _SETTLE = 4, 30, 0.3
#: Requests with which it is tried whether the model changes its inputs.
_CHANGED = 3
_FOREIGN = ("Grüße aus Köln", "日本語のテキスト", "naïve café ☃", "🎈🎈🎈")


def search(bench: Bench) -> Iterator[Case]:
    """Yield requests whose answers break a rule, alone, in a batch, and of text that is not ASCII."""
    for known in bench.contract[:1]:
        yield Case(NAME, "alone", (known.sample,))
        return
    for known in bench.pool:
        if next(bench.problems(known.sample, known.answer), None) is not None:
            yield Case(NAME, "alone", (known.sample,))
            return
    for known in bench.edges:
        # one that is not answered in time may be much work
        if known.answer.ended and rule_broken(known.answer):
            yield Case(NAME, "alone", (known.sample,))
            return
    bench.say("which inputs it changes")
    yield from _find_changed(bench)
    bench.say("what the stub has logged")
    yield from _find_logged(bench)
    if bench.scratch.batches and not bench.sequences and len(bench.pool) > 1:
        bench.say("answers of a batch")
        small = sorted(bench.pool, key=lambda one: bench.shape.rows(one.sample))[:2]
        case = Case(NAME, "batch", tuple(one.sample for one in small), (0, 1))
        if judge_batch(bench, case, False) is not None:
            yield case
    bench.say("which texts are UTF-8")
    yield from _find_broken_text(bench)


def judge_alone(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    bench.renew(careful)
    sample, since = case.samples[0], len(bench.scratch.server.logs(bench.scratch.name))
    answer = bench.alone(sample)
    if not answer.ended:
        bench.recover(answer)
        before, bench.scratch.timeout = bench.scratch.timeout, 2 * bench.scratch.timeout
        answer = bench.alone(sample)  # a slow start is not a missing answer
        bench.scratch.timeout = before
        bench.recover(answer)
    found = next(bench.problems(sample, answer), None)
    if found is None:
        return None
    place = answer.place or (_thread_place(bench, since) if rule_broken(answer) else None)
    return Judgement(_message(found[1]), None, expected=None, got=answer, place=place)


def _thread_place(bench: Bench, since: int) -> tuple[str, int] | None:
    """Return the line at which a thread of the model has ended in an exception, which only the log has."""
    until = time.monotonic() + _SETTLE
    while True:
        place = _place_in("\n".join(one.text for one in bench.scratch.server.logs(bench.scratch.name)[since:]))
        if place is not None or time.monotonic() > until:
            return place
        time.sleep(0.02)


def _message(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def judge_batch(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge two requests of one batch, each of which is answered alone."""
    if sum(bench.shape.rows(one) for one in case.sent()) > bench.shape.most_rows:
        return None
    bench.renew(careful)
    if any(rule_broken(bench.alone(one)) for one in case.samples):
        return None
    for number, got in zip(case.order, bench.together(case.sent()), strict=True):
        sample = case.samples[number]
        found = next(bench.problems(sample, got), None)
        if found is not None:
            bench.recover(got)
            words = f"In a batch of {len(case.order)}, {found[1].rstrip('.')}; a request alone is answered."
            return Judgement(words, None, expected=None, got=got, place=got.place)
    return None


def _find_changed(bench: Bench) -> Iterator[Case]:
    if bench.scratch.probe is None:
        return
    for name in bench.pool[0].sample.inputs:
        for known in bench.pool[:_CHANGED]:
            case = Case(NAME, "input", (known.sample,), facts={"input": name})
            if judge_input(bench, case, False) is not None:
                yield case
                return


def judge_input(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether the model reads from an input what it has written there itself: with an array of its own for each
    as_numpy() it would give another answer."""
    probe, sample, name = bench.scratch.probe, case.samples[0], str(case.facts["input"])
    if probe is None or name not in sample.inputs:
        return None
    bench.renew(careful)

    def ask() -> ModelAnswer:
        return bench.alone(sample)

    got = ask()
    try:
        probe.give_copies(name, ask)
        expected = ask()
        difference = bench.noise.differ(expected, got)
        if difference is None or not expected.good:
            return None
        probe.give_copies("", ask)
        if any(bench.noise.differ(got, ask()) is not None for _ in range(2)):
            return None  # it differs from one time to the next, with the same array
        probe.give_copies(name, ask, "read-only")
        place = bench.alone(sample).place
    finally:
        probe.give_copies("", ask)
    text = sentence_of(difference, f"because the model changes its input '{name}' and reads it again", "otherwise")
    return Judgement(
        f"{text} as_numpy() returns the same array each time.", difference, expected=expected, got=got, place=place
    )


def _find_logged(bench: Bench) -> Iterator[Case]:
    if _logged(bench, 0) is None:
        return
    for known in bench.pool[:_LOGGED]:
        case = Case(NAME, "logged", (known.sample,))
        if judge_logged(bench, case, True) is not None:
            yield case
            return


def _logged(bench: Bench, since: int) -> tuple[str, tuple[str, int] | None] | None:
    """Return what the server's log says, from that record on, of the model's answers that no client sees."""
    records = bench.scratch.server.logs(bench.scratch.name)[since:]
    for number, record in enumerate(records):
        text = record.text
        states = bench.config.sequence_batching.state
        if any(f"'{state.output_name}' is not an output" in text for state in states):
            continue  # it goes to the scheduler, not to a client
        if text.startswith(UNCHECKED) and not bench.is_left_out_at_times(text):
            return text.removeprefix(UNCHECKED), (record.file, record.line) if record.file else None
        before = "\n".join(one.text for one in records[max(number - _LINES, 0) : number + 1])
        if "Response sender has been closed" in text:
            return "something is sent after the final flag", _place_in(before)
        if "cannot send more than one response" in text:
            return "a request is answered twice", _place_in(before)
    return None


def _place_in(text: str) -> tuple[str, int] | None:
    """Return the last line of a model's file that a traceback names."""
    found = re.findall(r'File "([^"]+\.py)", line (\d+)', text)
    own = [(file, int(line)) for file, line in found if "_pb_stub" not in file and "-packages" not in file]
    return own[-1] if own else None


def judge_logged(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    bench.renew(careful)
    since = len(bench.scratch.server.logs(bench.scratch.name))
    answer = bench.alone(case.samples[0])
    until = time.monotonic() + _SETTLE
    while (found := _logged(bench, since)) is None and time.monotonic() < until:
        time.sleep(0.02)  # what a thread prints comes later
    if found is None:
        return None
    return Judgement(_message(found[0]), None, expected=None, got=answer, place=found[1])


def _find_broken_text(bench: Bench) -> Iterator[Case]:
    names = text_outputs([(one.sample, one.answer) for one in bench.pool])
    texts = [name for name, kind in bench.shape.types.items() if kind.name == "BYTES"]
    if not names or not texts:
        return
    for text in _FOREIGN:
        case = Case(NAME, "text", (_with_text(bench.pool[0].sample, texts, text),), facts={"outputs": sorted(names)})
        if judge_text(bench, case, False) is not None:
            yield case
            return


def _with_text(sample: Sample, names: list[str], text: str) -> Sample:
    inputs = {name: filled(one, text.encode()) if name in names else one for name, one in sample.inputs.items()}
    return sample.with_inputs(inputs)


def judge_text(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    if not is_utf8(case.samples[0]):
        return None  # it was cut in two when it was made smaller
    bench.renew(careful)
    answer = bench.alone(case.samples[0])
    found = broken_text(answer, set(case.facts["outputs"]))
    if found is None:
        return None
    name, element = found
    text = f"'{name}' is not valid UTF-8 where the input is a text that is not ASCII: {element[:40]!r}."
    return Judgement(f"{text} A character is cut in two, or encoded otherwise.", None, None, answer)


ANSWERS = Relation(
    NAME,
    "Each request gets the responses and the one end that are due, of the names, datatypes and shapes of the config.",
    search,
    {
        "alone": judge_alone,
        "batch": judge_batch,
        "input": judge_input,
        "logged": judge_logged,
        "text": judge_text,
    },
)
