"""`resources`: what the model's processes hold does not grow with requests, nor with errors and cancellations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..bench import Bench
from ..case import Case, Judgement, Relation
from ..growth import KINDS, Slope, is_steady, measure, slope
from ..probe import TracedLine
from ..sample import Sample

NAME = "resources"
#: Points of a measurement; the slope is that of the second half.
_POINTS = 16
#: Requests between two points, at least and at most.
_LEAST, _MOST = 10, 400
#: Requests in flight together.
_TOGETHER = 16
#: Requests after which a bounded cache is full, mostly.
_WARM = 1_500


def search(bench: Bench) -> Iterator[Case]:
    """Yield what grows with requests, with errors, and with cancellations."""
    plans = [("answered", bench.pool[0].sample)]
    if bench.refused:
        plans.append(("refused", bench.refused[0].sample))
    plans.append(("cancelled", max(bench.pool, key=lambda one: len(one.answer.responses)).sample))
    until, total = bench.deadline, max(bench.left, 0.0)
    shares = {"answered": 0.5, "refused": 0.25, "cancelled": 0.25}
    grown = False
    for kind, sample in plans:
        if bench.over() or grown:
            break
        bench.say({"answered": "thousands of requests", "refused": "errors", "cancelled": "cancellations"}[kind])
        bench.deadline = min(until, bench._clock() + total * shares[kind])
        case = Case(NAME, kind, (sample,), facts={"seconds": min(max(total * shares[kind] * 0.4, 1.0), 12.0)})
        if judge(bench, case, True) is not None:
            grown = True
            bench.deadline = until
            yield case
    bench.deadline = until


def judge(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether anything grows with these requests. What grows once is measured again, for longer."""
    bench.renew()
    seconds = float(case.facts["seconds"])
    send = _sender(bench, case.kind, case.samples[0])
    warm = _warm_up(send, seconds)
    first = _grown(bench, send, seconds, warm)
    if not first:
        return None
    again = _grown(bench, send, 1.5 * seconds, warm)
    for kind, (one, series) in again.items():
        if kind in first:
            return _judgement(bench, case, kind, one, series, send)
    return None


def _judgement(
    bench: Bench, case: Case, kind: str, found: Slope, series: Mapping[str, Any], send: Callable[[int], None]
) -> Judgement:
    line = _line(bench, send) if kind == "memory" else None
    what = {"answered": "request", "refused": "request that fails", "cancelled": "request that is cancelled"}[case.kind]
    each = _amount(kind, found, what)
    place = (line.file, line.line) if line is not None else None
    by = f" Most of it is allocated in line {line.line} of {line.name}: {line.source}" if line is not None else ""
    low, high = (f"{bound:,.3g}" for bound in (found.low, found.high))
    unit = KINDS[kind]
    sure = f"between {low} and {high} {unit} each, over {series['requests'][-1]:,.0f} requests"
    return Judgement(f"{each} ({sure}).{by}", None, None, None, place, {**series, "kind": kind, **found.to_dict()})


def _amount(kind: str, found: Slope, what: str) -> str:
    if kind in ("memory", "shared memory"):
        each = f"{found.per_request:,.0f} bytes"
        return f"Each {what} leaves {each} of {kind} behind"
    name = kind if found.per_request >= 1.5 else kind.removesuffix("s")
    if found.per_request >= 0.9:
        return f"Each {what} leaves {round(found.per_request)} {'file ' if kind == 'descriptors' else ''}{name} open"
    return f"Every {round(1 / found.per_request)} {what}s leave a {name} behind"


def _sender(bench: Bench, kind: str, sample: Sample) -> Callable[[int], None]:
    """Return a function that sends so many requests. Those that are answered vary, as far as the model takes it."""
    scratch, counted = bench.scratch, [0]
    samples: Sequence[Sample] = [sample]
    if kind == "answered":
        samples = [one.sample for one in bench.pool]
    elif kind == "refused":
        samples = [one.sample for one in bench.refused]

    def request() -> Any:
        number = counted[0] = counted[0] + 1
        one = samples[number % len(samples)]
        more: dict[str, Any] = {"request_id": f"check-{number}"}
        if bench.sequences:
            more |= {"correlation_id": bench.sequence_id(), "flags": 3}
        return one.request(scratch.name, **more)

    def send(count: int) -> None:
        for start in range(0, count, _TOGETHER):
            size = min(_TOGETHER, count - start)
            cancel = {number: 0 if number % 2 else -1 for number in range(size)} if kind == "cancelled" else None
            answers = scratch.ask([request() for _ in range(size)], cancel=cancel)
            bench.sent += size
            for answer in answers:
                if not answer.ended or answer.died:
                    bench.recover(answer)
                    raise _Broken
            if bench.over():
                raise _Late

    return send


class _Broken(Exception):
    """The model died or hung, so that nothing can be measured."""


class _Late(Exception):
    """The time is over."""


def _warm_up(send: Callable[[int], None], seconds: float) -> int:
    """Send requests until what the model keeps is there, and return how many go between two points."""
    began = time.monotonic()
    sent = 0
    try:
        while sent < _WARM and time.monotonic() - began < seconds:
            send(_TOGETHER * 2)
            sent += _TOGETHER * 2
    except (_Broken, _Late):
        return 0
    rate = sent / max(time.monotonic() - began, 1e-3)
    return int(min(max(rate * seconds / _POINTS, _LEAST), _MOST))


def _grown(
    bench: Bench, send: Callable[[int], None], seconds: float, step: int
) -> dict[str, tuple[Slope, dict[str, Any]]]:
    """Return what has grown, with its slope and the measurements."""
    if not step:
        return {}
    counts: list[float] = [0.0]
    values = [_settled(bench)]
    began = time.monotonic()
    try:
        while len(values) < _POINTS or (len(values) < 2 * _POINTS and time.monotonic() - began < seconds):
            send(step)
            counts.append(counts[-1] + step)
            values.append(_settled(bench))
    except (_Broken, _Late):
        if len(values) < 8:
            return {}
    found = {}
    half = len(values) // 2
    for kind in KINDS:
        series = [one[kind] for one in values]
        if not is_steady(counts, series):
            continue
        line = slope(counts[half:], series[half:])
        if line.grows(kind):
            found[kind] = line, {"requests": counts, "values": series}
    return found


def _settled(bench: Bench) -> dict[str, float]:
    return measure(bench.scratch.pids)


def _line(bench: Bench, send: Callable[[int], None]) -> TracedLine | None:
    """Return the line of the model that allocates what stays, as tracemalloc sees it."""
    probe = bench.scratch.probe
    if probe is None:
        return None
    bench.say("looking for the line")
    before, bench.deadline = bench.deadline, bench._clock() + 8.0
    sample = bench.pool[0].sample
    try:
        bench.renew()
        probe.trace(lambda: bench.alone(sample))
        send(100)
        probe.mark(lambda: bench.alone(sample))
        send(100)
        return probe.grown(lambda: bench.alone(sample), 100)
    except (_Broken, _Late):
        return None
    finally:
        bench.deadline = before
        bench.renew()


RESOURCES = Relation(
    NAME,
    "What the model's processes hold (memory, descriptors, threads, shared memory) does not grow with requests.",
    search,
    {"answered": judge, "refused": judge, "cancelled": judge},
    weight=3.0,
    careful=frozenset({"answered", "refused", "cancelled"}),
    shrinks=False,
)
