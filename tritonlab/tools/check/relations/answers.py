"""`answers`: each request gets one end, and an answer that fits the config."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from ....core.inference.tensor import Tensor
from ....ipc.processes.stub_log import UNCHECKED
from ..bench import Bench
from ..case import Case, Judgement, Relation, fit, sentence_of, show_first
from ..generated import fill_tensor
from ..problems import broken_text, is_utf8, rule_broken, text_outputs
from ..sample import ModelAnswer, Sample

NAME = "answers"
#: The requests that are tried for a record of the log, the lines of a traceback, and the seconds to wait for a line.
_LOGGED, _LINES, _SETTLE = 4, 30, 0.3
#: Requests to try whether the model changes its inputs.
_CHANGED = 3
_FOREIGN = ("Grüße aus Köln", "日本語のテキスト", "naïve café ☃", "🎈🎈🎈")


def search(bench: Bench) -> Iterator[Case]:
    """Yield requests whose answers break a rule: alone, in a batch, and with text that is not ASCII."""
    wrong = [*bench.contract]
    wrong += [one for one in bench.pool if next(bench.problems(one.sample, one.answer), None) is not None]
    # a request that is not answered in time may be much work
    wrong += [one for one in bench.edges if one.answer.ended and rule_broken(one.answer)]
    if wrong:
        yield Case(NAME, "alone", (wrong[0].sample,))
        return
    bench.say("which inputs it changes")
    yield from _find_changed(bench)
    bench.say("what the stub has logged")
    if _read_log(bench, 0) is not None:
        cases = (Case(NAME, "logged", (known.sample,)) for known in bench.pool[:_LOGGED])
        yield from show_first(bench, judge_logged, cases, True)
    if bench.scratch.batches and not bench.sequences and len(bench.pool) > 1:
        bench.say("answers of a batch")
        small = sorted(bench.pool, key=lambda one: bench.shape.rows(one.sample))[:2]
        yield from show_first(bench, judge_batch, [Case(NAME, "batch", tuple(one.sample for one in small), (0, 1))])
    bench.say("which texts are UTF-8")
    yield from _find_broken_text(bench)


def judge_alone(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    bench.renew(careful)
    sample, since = case.samples[0], len(bench.scratch.server.logs(bench.scratch.name))
    answer = bench.alone(sample)
    if not answer.ended:
        answer = bench.retry(sample, answer)
        bench.recover(answer)
    found = next(bench.problems(sample, answer), None)
    if found is None:
        return None
    place = answer.place or (_thread_place(bench, since) if rule_broken(answer) else None)
    return Judgement(_message(found[1]), got=answer, place=place)


def _thread_place(bench: Bench, since: int) -> tuple[str, int] | None:
    """Return the line at which an exception has ended a thread of the model; only the log has it."""
    until = time.monotonic() + _SETTLE
    while True:
        place = _place_in("\n".join(one.text for one in bench.scratch.server.logs(bench.scratch.name)[since:]))
        if place is not None or time.monotonic() > until:
            return place
        time.sleep(0.02)


def _message(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def judge_batch(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge two requests of one batch that are both answered alone."""
    if not fit(bench, case.sent()):
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
            return Judgement(words, got=got, place=got.place)
    return None


def _find_changed(bench: Bench) -> Iterator[Case]:
    if bench.scratch.probe is None:
        return
    cases = (
        Case(NAME, "input", (known.sample,), facts={"input": name})
        for name in bench.pool[0].sample.inputs
        for known in bench.pool[:_CHANGED]
    )
    yield from show_first(bench, judge_input, cases)


def judge_input(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether the model reads from an input the values that it has written there itself: if each as_numpy()
    returned its own array, the answer would differ."""
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
            return None  # the answer varies from one time to the next, with the same array
        probe.give_copies(name, ask, "read-only")
        place = bench.alone(sample).place
    finally:
        probe.give_copies("", ask)
    text = sentence_of(difference, f"because the model changes its input '{name}' and reads it again", "otherwise")
    return Judgement(f"{text} as_numpy() returns the same array each time.", difference, expected, got, place)


def _read_log(bench: Bench, since: int) -> tuple[str, tuple[str, int] | None] | None:
    """Return the server's log after that record, about answers of the model that no client sees."""
    records = bench.scratch.server.logs(bench.scratch.name)[since:]
    for number, record in enumerate(records):
        text = record.text
        states = bench.config.sequence_batching.state
        if any(f"'{state.output_name}' is not an output" in text for state in states):
            continue  # the error goes to the scheduler, not to a client
        if text.startswith(UNCHECKED) and not bench.is_left_out_at_times(text):
            return text.removeprefix(UNCHECKED), (record.file, record.line) if record.file else None
        before = "\n".join(one.text for one in records[max(number - _LINES, 0) : number + 1])
        if "Response sender has been closed" in text:
            return "something is sent after the final flag", _place_in(before)
        if "cannot send more than one response" in text:
            return "a request is answered twice", _place_in(before)
    return None


def _place_in(text: str) -> tuple[str, int] | None:
    """Return the last line of a model's file in a traceback."""
    found = re.findall(r'File "([^"]+\.py)", line (\d+)', text)
    own = [(file, int(line)) for file, line in found if "_pb_stub" not in file and "-packages" not in file]
    return own[-1] if own else None


def judge_logged(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    bench.renew(careful)
    since = len(bench.scratch.server.logs(bench.scratch.name))
    answer = bench.alone(case.samples[0])
    until = time.monotonic() + _SETTLE
    while (found := _read_log(bench, since)) is None and time.monotonic() < until:
        time.sleep(0.02)  # a thread prints later
    if found is None:
        return None
    return Judgement(_message(found[0]), got=answer, place=found[1])


def _find_broken_text(bench: Bench) -> Iterator[Case]:
    names = text_outputs([(one.sample, one.answer) for one in bench.pool])
    texts = [name for name, kind in bench.shape.types.items() if kind.name == "BYTES"]
    if not names or not texts:
        return
    plain, facts = bench.pool[0].sample, {"outputs": sorted(names)}
    samples = (plain.with_inputs({**plain.inputs, **_fill(plain, texts, text)}) for text in _FOREIGN)
    yield from show_first(bench, judge_text, (Case(NAME, "text", (sample,), facts=facts) for sample in samples))


def _fill(sample: Sample, names: list[str], text: str) -> dict[str, Tensor]:
    return {name: fill_tensor(sample.inputs[name], text.encode()) for name in names if name in sample.inputs}


def judge_text(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    if not is_utf8(case.samples[0]):
        return None  # the text was cut in two by shrinking
    bench.renew(careful)
    answer = bench.alone(case.samples[0])
    found = broken_text(answer, set(case.facts["outputs"]))
    if found is None:
        return None
    name, element = found
    text = f"'{name}' is not valid UTF-8 where the input is a text that is not ASCII: {element[:40]!r}."
    return Judgement(f"{text} A character is cut in two, or encoded otherwise.", got=answer)


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
