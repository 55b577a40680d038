"""`resources`: the resources of the model's processes do not grow with requests, errors or cancellations."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from ..bench import Bench, OutOfTime
from ..case import Case, Judgement, Relation, fit
from ..growth import KINDS, Slope, is_steady, measure, shared_blocks, slope, steady_share
from ..probe import TracedLine
from ..sample import ModelAnswer, Sample

NAME = "resources"
#: Points of a measurement; the slope is taken from the second half.
_POINTS = 16
#: The fewest points with which a measurement that was cut short counts.
_LEAST_POINTS = 8
#: The most requests between two points.
_MOST = 400
#: Requests in flight together.
TOGETHER = 16
#: Requests after which most bounded caches are full.
_WARM = 1_600
#: Requests of new values after which a growing cache counts as unbounded.
_NEW = 20_000
#: Resources with small limits, which do not need many thousands of units to fail.
_SCARCE = ("descriptors", "threads", "blocks")
#: Requests for which allocations are traced, and the most seconds for that.
_TRACED, _TRACING = 100, 10.0
#: The seconds that optional measurements must leave for tracing.
_LINE_SECONDS = 6.0
#: The share of the least growth that must be seen again: a slope near the least growth is above it one time, below it
#: the next.
_AGAIN = 0.5
#: The fewest gained objects that count: a small cache, or an interpreter that is warming up, has as many.
_OBJECTS = 1000
#: The share of a plan's time for one measurement: two show whether something grows, and four make sure.
_ONCE = 0.22
#: Seconds after which an overloaded model answers again.
_PAUSE = 1.5
#: The least share of the process's growth that Python's own count of a line must have, to be the same growth.
_CLOSE = 0.8
#: Seconds in which no other process may make a block of shared memory, for it to count as the model's.
_IDLE = 0.3


def search(bench: Bench) -> Iterator[Case]:
    """Yield the resources that grow with requests, with errors, and with cancellations. Raises OutOfTime if there was
    no time to measure that."""
    longest = max(bench.pool, key=lambda one: len(one.answer.responses))
    plans = [("answered", 0.5, "thousands of requests", bench.pool[0])]
    plans += [("refused", 0.25, "errors", one) for one in bench.refused[:1]]
    plans += [("cancelled", 0.25, "cancellations", longest)]
    until, total = bench.deadline, max(bench.left, 0.0)
    cut = False
    for kind, share, words, known in plans:
        bench.say(words)
        bench.limit(total * share)  # however long the earlier ones took
        case = Case(NAME, kind, (known.sample,), facts={"seconds": min(max(total * share * _ONCE, 1.0), 12.0)})
        try:
            grown = judge(bench, case, False) is not None
        except OutOfTime:
            cut, grown = True, False
        if grown:
            bench.deadline = until
            yield case
            break
    bench.deadline = until
    if cut:
        raise OutOfTime


def judge(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    """Judge whether anything grows with these requests. A first growth is measured again, for longer, if `careful` is
    set; otherwise OutOfTime is raised if there was not enough time to decide."""
    scratch = bench.scratch
    is_given = scratch.config.HasField("dynamic_batching") or scratch.is_ensemble or bench.sequences
    # without dynamic batching an execution leaves as much behind as a request
    scratch.start(**({} if is_given else {"dynamic_batching": None}))
    try:
        return _judge(bench, case, careful)
    finally:
        scratch.start()


def _judge(bench: Bench, case: Case, careful: bool) -> Judgement | None:
    seconds = float(case.facts["seconds"])
    load = RepeatedLoad(bench, case.kind, case.samples[0])
    try:
        early = _measure_growth(load, seconds, until=_WARM)
        # a resource with a small limit is full before a cache would be
        first = _find_growth(early, _SCARCE)
        if not first:
            whole = _measure_growth(load, seconds)
            first = _find_growth(whole, tuple(KINDS))
            if not first and _is_short(whole):
                raise OutOfTime
        if not first:
            return None
        if not careful:
            return Judgement("Something grows.")  # the amount is measured when the case is judged
        bench.need(3 * seconds + _TRACING)
        longer = max(min(1.5 * seconds, bench.left - _LINE_SECONDS), seconds)
        last = _measure_growth(load, longer)
        again = _keep_growth(first, _find_growth(last, tuple(first), _AGAIN))
        again = again or {kind: grown for kind, grown in first.items() if kind in _SCARCE}
        if _is_short(last):  # that refutes nothing: the search has seen it as well
            again = first
    except Broken as broken:
        return _judge_broken(bench, case, load, broken)
    except OutOfTime:
        if not careful:
            raise
        return None
    kind = next((one for one in KINDS if one in again), None)
    if kind is None:
        return None
    found = again[kind]
    new = _measure_cache(bench, load, kind=kind, seconds=seconds) if kind in ("memory", "objects") else None
    if new is not None:
        if kind not in (grown := _find_growth(new, (kind,), _AGAIN)):
            return None  # the cache is full
        found = grown[kind]
    return _describe_growth(bench, case, kind=kind, found=found, load=load)


def _measure_cache(bench: Bench, load: RepeatedLoad, kind: str, seconds: float) -> Measured | None:
    """Return a measurement with new values only, which the load sends from then on, if the same requests sent again
    leave nothing behind: then a cache is growing. None if they do, or if there is no time to measure it."""
    bench.need(3 * seconds + _TRACING)
    if not load.varies or bench.left < 2 * seconds + _LINE_SECONDS:
        return None
    with suppress(Broken):
        load.values = "known"
        known = _measure_growth(load, seconds)
        if len(known.requests) >= _LEAST_POINTS and not _find_growth(known, (kind,), _AGAIN):
            load.values = "new"
            new = _measure_growth(load, min(2 * seconds, bench.left - _LINE_SECONDS), until=_NEW)
            if len(new.requests) >= _LEAST_POINTS and load.varies:
                return new
    load.values = "both"
    return None


def _judge_broken(bench: Bench, case: Case, load: RepeatedLoad, broken: Broken) -> Judgement | None:
    """Judge a model that has answered many requests and then stops answering."""
    answer = broken.answer
    if case.kind != "answered" or load.sent < 2 * TOGETHER or load.is_varied(broken.sample):
        return None
    if answer.exception is None and answer.ended and not answer.died:
        bench.need(_PAUSE + _TRACING)
        time.sleep(_PAUSE)
        if bench.alone(broken.sample).good:
            if (failing := _judge_broken_batch(bench, broken)) is not None:
                return failing
            refused = f"After {load.sent:,} requests the model refuses more for a while: {answer.summary.rstrip('.')}."
            bench.notes.append(refused)
            return None
    text = f"After {load.sent:,} requests the model begins to fail: {answer.summary or answer.text()}."
    return Judgement(text, got=answer, place=answer.place)


def _judge_broken_batch(bench: Bench, broken: Broken) -> Judgement | None:
    """Judge a request that is answered alone, and fails again in a batch with the same other requests."""
    batch = [broken.sample]
    for one in broken.mates:
        if one is not broken.sample and fit(bench, [one, *batch]):
            batch.insert(0, one)
    if len(batch) < 2 or not bench.scratch.batches or bench.sequences:
        return None
    for _ in range(2):
        bench.renew()
        if not all(bench.alone(one).good for one in batch):
            return None
        got = bench.together(batch)[-1]
        if got.good or not got.ended:
            return None
    why = got.summary.rstrip(".")
    text = f"A request that is answered alone fails as the last one of a batch of {len(batch)}: {why}."
    return Judgement(text, got=got, place=got.place)


def _describe_growth(bench: Bench, case: Case, kind: str, found: GrownUse, load: RepeatedLoad) -> Judgement:
    line = _line(bench, load) if kind in ("memory", "objects") else None
    what = {"answered": "request", "refused": "request that fails", "cancelled": "request that is cancelled"}[case.kind]
    what += " of new values" * (load.values == "new")
    each = _amount(kind, found.slope, what)
    place = (line.file, line.line) if line is not None else None
    by = ""
    if line is not None:
        size = f", {_bytes(line.per_request)} each," if kind == "objects" else ""
        by = f" Most of it{size} is allocated in line {line.line} of {line.name}: {line.source}"
        if kind == "memory" and not _CLOSE < line.per_request / found.slope.per_request < 1 / _CLOSE:
            by += f" (Python itself counts {_bytes(line.per_request)} there; the process has grown by the other number)"
    sure = f"over {found.requests[-1]:,.0f} requests"
    low, high = _bytes(found.slope.low), _bytes(found.slope.high)
    if kind in ("memory", "shared memory") and low != high:
        sure = f"between {low} and {high}, {sure}"
    series = {"requests": found.requests, "values": found.values, "kind": kind, **vars(found.slope)}
    if load.values == "new":
        least = f"more than {found.requests[-1]:,.0f}"
        by = f" The same requests sent again leave nothing, as in a cache without a bound, or of {least} entries.{by}"
    return Judgement(f"{each} ({sure}).{by}", place=place, series=series)


def _amount(kind: str, found: Slope, what: str) -> str:
    if kind in ("memory", "shared memory"):
        return f"Each {what} leaves {_bytes(found.per_request)} of {kind} behind"
    name = {"descriptors": "file descriptor", "threads": "thread", "objects": "Python object", "files": "file"}.get(
        kind, "block of shared memory (/dev/shm)"
    )
    left = "behind" if kind in ("objects", "blocks", "files") else "open" if kind == "descriptors" else "running"
    if found.per_request >= 0.95:
        count = round(found.per_request)
        return f"Each {what} leaves {count} {name}{'s' * (count > 1)} {left}"
    return f"On average each {what} leaves {found.per_request:.2g} {name}s {left}"


def _bytes(amount: float) -> str:
    """Return a number of bytes with two digits."""
    unit, size = next((one for one in (("MB", 1e6), ("kB", 1e3)) if amount >= one[1]), ("bytes", 1.0))
    return f"{float(f'{amount / size:.2g}'):g} {unit}"


class Broken(Exception):
    """An answer after which nothing can be measured: the model died, hangs or fails."""

    def __init__(self, sample: Sample, answer: ModelAnswer, mates: Sequence[Sample] = ()) -> None:
        super().__init__(sample, answer, mates)
        self.sample = sample
        self.mates = mates
        self.answer = answer

    def __str__(self) -> str:
        return self.answer.text()


class RepeatedLoad:
    """The requests of one measurement: answered ones, half of them with new values each time; failing ones; or
    cancelled ones.
    """

    def __init__(self, bench: Bench, kind: str, sample: Sample) -> None:
        self.bench = bench
        self.kind = kind
        self.sent = 0
        #: the request that makes the model report its resources: any request; in a replay the only known one
        self.plain = bench.pool[0].sample if bench.pool else sample
        known = {"answered": bench.pool, "refused": bench.refused}.get(kind, [])
        self._samples = [one.sample for one in known] or [sample]
        self._pool = {id(one) for one in self._samples}
        #: whether requests with new values are sent; the model has to accept them
        self.varies = kind == "answered"
        self.values: Literal["both", "known", "new"] = "both"
        self._others = shared_blocks()

    def blocks(self) -> set[str]:
        """Return the names in /dev/shm since the start."""
        return shared_blocks() - self._others

    def is_varied(self, sample: Sample) -> bool:
        """Return whether the request was made for this load, so that the model may refuse it."""
        return id(sample) not in self._pool

    def _next(self) -> Sample:
        self.sent += 1
        if self.varies and (self.values == "new" or (self.values == "both" and self.sent % 2)):
            return self.bench.varied()
        return self._samples[self.sent % len(self._samples)]

    def send(self, count: int) -> None:
        """Send `count` requests. Raises Broken, OutOfTime."""
        bench = self.bench
        for start in range(0, count, TOGETHER):
            samples = [self._next() for _ in range(min(TOGETHER, count - start))]
            requests = [
                sample.request(bench.scratch.name, request_id=f"check-{self.sent + number}", **bench.whole_sequence())
                for number, sample in enumerate(samples)
            ]
            cancel = {n: 0 if n % 2 else -1 for n in range(len(samples))} if self.kind == "cancelled" else None
            for sample, answer in zip(samples, bench.ask(requests, cancel=cancel), strict=True):
                if not answer.ended or answer.died or (self.kind == "answered" and not answer.good):
                    if self.is_varied(sample) and answer.ended and not answer.died:
                        self.varies = False  # the model does not accept all values
                        continue
                    bench.recover(answer)
                    raise Broken(sample, answer, samples)
            if bench.over():
                raise OutOfTime


class Measured(NamedTuple):
    """Points of a measurement: requests sent, and the resources held then, by kind."""

    requests: list[float]
    held: list[dict[str, float]]


class GrownUse(NamedTuple):
    """A resource that has grown: its slope, and the points."""

    slope: Slope
    requests: list[float]
    values: list[float]


def _measure_growth(load: RepeatedLoad, seconds: float, until: int = 0) -> Measured:
    """Send requests and measure now and then, for that time or until so many are sent. If the relation's time is over,
    the measurements so far are used. Raises Broken, OutOfTime."""
    found = Measured([0.0], [_measure_use(load)])
    began = time.monotonic()
    step = TOGETHER
    load.send(step)
    rate = step / max(time.monotonic() - began, 1e-3)
    step = int(min(max(rate * seconds / _POINTS, TOGETHER), until / _POINTS if until else _MOST))
    sent = 0
    while len(found.requests) < _POINTS or (len(found.requests) < 2 * _POINTS and time.monotonic() - began < seconds):
        if until and (sent >= until or time.monotonic() - began > seconds):
            break
        try:
            load.send(step)
        except OutOfTime:
            break
        sent += step
        found.requests.append(float(sent))
        found.held.append(_measure_use(load))
    return found


def _measure_use(load: RepeatedLoad) -> dict[str, float]:
    bench = load.bench
    held = measure(bench.scratch.pids)
    held["blocks"] = float(len(load.blocks()))
    held["files"] = float(bench.scratch.count_files())
    if bench.scratch.probe is not None:
        held["objects"] = bench.scratch.probe.count(lambda: bench.alone(load.plain))
    return held


def _find_growth(measured: Measured, kinds: Sequence[str], share: float = 1.0) -> dict[str, GrownUse]:
    """Return the resource that has grown alike in both halves, by the slope of the second. `share`: the required share
    of the least growth."""
    if _is_short(measured):
        return {}
    found = {}
    half = len(measured.requests) // 2
    for kind in kinds:
        values = [one[kind] for one in measured.held]
        line = slope(measured.requests[half:], values[half:])
        if kind == "objects" and values[-1] - values[0] < _OBJECTS:
            continue
        if is_steady(values, kind) and line.grows(kind, share) and not (kind == "blocks" and _grows_alone()):
            found[kind] = GrownUse(line, measured.requests, values)
    return found


def _is_short(measured: Measured) -> bool:
    """Return whether a measurement ended before it could show growth."""
    return len(measured.requests) < _LEAST_POINTS


def _keep_growth(first: Mapping[str, GrownUse], again: Mapping[str, GrownUse]) -> dict[str, GrownUse]:
    """Return the resources that have grown again, and not much less than at first."""
    return {
        kind: found
        for kind, found in again.items()
        if kind in _SCARCE or found.slope.per_request >= steady_share(kind) * first[kind].slope.per_request
    }


def _grows_alone() -> bool:
    """Return whether other processes make blocks of shared memory now."""
    before = shared_blocks()
    time.sleep(_IDLE)
    return bool(shared_blocks() - before)


def _line(bench: Bench, load: RepeatedLoad) -> TracedLine | None:
    """Return the line of the model that allocates the remaining memory, according to tracemalloc."""
    probe = bench.scratch.probe
    if probe is None:
        return None
    bench.say("looking for the line")
    bench.need(_TRACING)
    timeout = bench.scratch.timeout
    try:
        bench.renew()
        bench.scratch.timeout = max(timeout, _TRACING)  # the request that compares traces takes seconds
        probe.do("trace", lambda: bench.alone(load.plain))
        load.send(_TRACED)
        probe.do("mark", lambda: bench.alone(load.plain))
        load.send(_TRACED)
        return probe.grown(lambda: bench.alone(load.plain), _TRACED)
    except (Broken, OutOfTime):
        return None
    finally:
        bench.scratch.timeout = timeout
        bench.renew_after_time()  # `renew` would raise OutOfTime, and the finding would be lost


RESOURCES = Relation(
    NAME,
    "What the model's processes hold (memory, descriptors, threads, shared memory, files) does not grow with requests.",
    search,
    dict.fromkeys(("answered", "refused", "cancelled"), judge),
    weight=3.0,
    careful=frozenset({"answered", "refused", "cancelled"}),
    shrinks=False,
)
