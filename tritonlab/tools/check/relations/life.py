"""`life`: the model starts, several times at once, serves through a reload, recovers after its process is killed, and
ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ....core.status import TritonError
from ..bench import Bench, OutOfTime, Stopped
from ..case import Case, Judgement, Relation, judge_answers
from ..sample import ModelAnswer, Sample
from .company import instances_of, is_stateful

NAME = "life"
#: Seconds that `finalize` may take.
_FINALIZE = 3.0
#: The most requests that are sent without a reload, to see if they get the same answer.
_CONTROLS = 1_000
#: Hash seeds, and the requests that are sent with each.
_SEEDS, _HASHED = (1, 2, 3), 4
#: The most seconds for four starts of a process, which is not forked.
_HASHED_SECONDS = 8.0


def search(bench: Bench) -> Iterator[Case]:
    """Yield the steps of the life cycle that fail."""
    for kind, words in (
        ("end", "its end"),
        ("starts", "several starts at once"),
        ("killed", "a killed process"),
        ("reload", "a reload under load"),
    ):
        if bench.over():
            break
        if kind == "starts" and bench.scratch.is_ensemble:
            continue  # the model has no instances of its own
        bench.say(words)
        case = Case(NAME, kind, (bench.pool[0].sample,))
        if JUDGES[kind](bench, case, True) is not None:
            yield case
    if bench.is_hashed and bench.scratch.is_hashable:
        bench.say("another order of sets")
        bench.need(_HASHED_SECONDS)
        yield from _find_order_of_hashes(bench)


def judge_end(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether `finalize` ends without an error."""
    bench.renew()
    bench.alone(case.samples[0])
    failures = bench.scratch.server.core.failures
    before = {id(one) for one in failures.of_model(bench.scratch.name)[0]}
    seconds = bench.scratch.stop(_FINALIZE)
    after = [one for one in failures.of_model(bench.scratch.name)[0] if id(one) not in before]
    bench.scratch.fresh()
    if seconds >= _FINALIZE:
        return Judgement(f"The model does not end: finalize, or a thread, goes on for more than {_FINALIZE:g} seconds.")
    for capsule in after:
        if capsule.phase == "finalize":
            place = capsule.place
            where = (place.file, place.line) if place is not None else None
            return Judgement(f"finalize fails: {capsule.headline}.", place=where)
    return None


def judge_starts(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether several instances can start at the same time, and answer."""
    bench.renew()
    expected = bench.alone(case.samples[0])
    try:
        bench.scratch.start(**instances_of(bench, 3))
        if bench.sequences:
            return None
        answers = [bench.together(list(case.samples), instance)[0] for instance in range(3)]
    except TritonError as error:
        exception = getattr(error, "exception", None)
        frames = exception.frames if exception is not None else ()
        place = (frames[-1].file, frames[-1].line) if frames else None
        why = str(exception or error.message).partition("\n")[0][:200]
        text = f"One instance starts, but three at the same time do not: {why}."
        got = ModelAnswer(error=error.message, exception=exception)
        return Judgement(text, expected=expected, got=got, place=place)
    finally:
        bench.scratch.start()
    if ("company", "instances") in bench.found:
        return None
    for number, got in enumerate(answers, 1):
        where = f"from instance {number} of three"
        if (judgement := judge_answers(bench, expected, got, where, "from the only instance")) is not None:
            return judgement
    return None


def judge_killed(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether the model recovers, with the same answers, after its process is killed."""
    bench.renew()
    expected = bench.alone(case.samples[0])
    instance = bench.scratch.instances[0]
    if instance.pid is None:
        return None
    os.kill(instance.pid, signal.SIGKILL)
    until = time.monotonic() + max(5.0, 5 * bench.scratch.load_seconds)
    while time.monotonic() < until:
        time.sleep(0.02)
        if instance.replacement.count > 0 and instance.state.name == "READY":
            break
    else:
        reason = str(instance.replacement.failure or instance.state.value).partition("\n")[0]
        bench.scratch.fresh()
        return Judgement(f"The model does not come back when its process is killed: {reason.rstrip('.')}.")
    got = bench.alone(case.samples[0])
    bench.recover(got)
    return judge_answers(bench, expected, got, "after the process was killed", "before")


def judge_reload(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge requests that arrive during a reload of the model."""
    bench.renew()
    expected = bench.alone(case.samples[0])
    if not expected.good or bench.sequences:
        return None
    answers: list[ModelAnswer] = []
    stop = threading.Event()

    def ask() -> None:
        with suppress(OutOfTime, Stopped):
            while not stop.is_set():
                answers.append(bench.alone(case.samples[0]))
                time.sleep(0.002)

    thread = threading.Thread(target=ask, name="check load", daemon=True)
    thread.start()
    try:
        bench.scratch.load()
        time.sleep(0.05)
    except TritonError as error:
        why = error.message.partition("\n")[0][:200]
        return Judgement(f"The model cannot be loaded again while it serves: {why}.")
    finally:
        stop.set()
        thread.join(bench.scratch.timeout + 1)
        bench.scratch.fresh()
    for got in answers:
        judgement = judge_answers(bench, expected, got, "while the model is loaded again", "else")
        if judgement is not None:
            if got.good and is_stateful(bench, case.samples[0], expected, min(len(answers), _CONTROLS)):
                return None
            return judgement
    return None


def _find_order_of_hashes(bench: Bench) -> Iterator[Case]:
    """Yield a request that a process with other text hashes answers differently."""
    samples = [one.sample for one in bench.pool[:_HASHED]]
    answers = _ask_by_seed(bench, _SEEDS, samples)
    for seed, others in zip(_SEEDS[1:], answers[1:], strict=True):
        for sample, one, other in zip(samples, answers[0], others, strict=True):
            if bench.noise.differ(one, other) is not None:
                yield Case(NAME, "hashes", (sample,), facts={"seed": seed})
                return


def _ask_by_seed(bench: Bench, seeds: Sequence[int], samples: Sequence[Sample]) -> list[list[ModelAnswer]]:
    """Return the answers of new processes, one for each of these seeds."""
    found = []
    with bench.scratch.with_hash_seeds() as start:
        for seed in seeds:
            start(seed)
            found.append([bench.alone(one) for one in samples])
    return found


def judge_hashes(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether the answer differs with another hash seed, and is the same with the same seed."""
    if not bench.scratch.is_hashable:
        return None
    seeds = (_SEEDS[0], int(case.facts["seed"]), _SEEDS[0])
    expected, got, control = (one for (one,) in _ask_by_seed(bench, seeds, case.samples))
    if bench.noise.differ(expected, control) is not None:
        return None
    where, other = (f"in a process with PYTHONHASHSEED={seed}" for seed in (seeds[1], seeds[0]))
    why = "The order of a set, or hash(), is part of the answer; for texts both differ from process to process."
    return judge_answers(bench, expected, got, where, other, why)


JUDGES = {"end": judge_end, "starts": judge_starts, "killed": judge_killed, "reload": judge_reload}

LIFE = Relation(
    NAME,
    "The model starts several times at once, serves through a reload, comes back when it is killed, and ends; "
    "all of its processes answer alike.",
    search,
    {**JUDGES, "hashes": judge_hashes},
    careful=frozenset(JUDGES),
    shrinks=False,
)
