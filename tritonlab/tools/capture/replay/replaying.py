"""`replay`: the requests of a capture sent to a model again, and the verdict on its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from os import PathLike
from typing import Any

from ....core.inference.infer_request import SEQUENCE_START
from ....core.status import InvalidArgumentError
from ....exchanges.remote.remote_server import RemoteModel
from ....server.api.model import Model
from ..capture_file import Capture, CapturedRequest
from .answer_changes import (
    ROUNDING,
    ChangeGroup,
    ChangeLog,
    Unseen,
    changes_between,
    group_changes,
    is_inexact,
    outputs_of,
    with_company,
)
from .latency_change import compare_latencies
from .learned_noise import LearnedNoise
from .paced_sending import KeptAnswers, Planned, Replayed, open_sender, play
from .replay_verdict import ReplayVerdict

#: The most requests of a group that are sent again, alone.
_ALONE = 5
#: Requests that were sent later than that are a note: nanoseconds.
_LATE = 100_000_000

#: Gets the progress as a line; returns False to end the replay.
Progress = Callable[[str], object]


def replay(
    model: Model | RemoteModel,
    capture: Capture | str | PathLike[str] | Iterable[CapturedRequest],
    *,
    against: Model | RemoteModel | None = None,
    of: str = "",
    speed: float | None = 1.0,
    limit: int | None = None,
    seconds: float | None = None,
    in_flight: int = 256,
    progress: Progress | None = None,
) -> ReplayVerdict:
    """Replay a capture; `Model.replay` explains the arguments."""
    if speed is not None and not 0 < speed < float("inf"):
        raise InvalidArgumentError(f"speed must be more than 0, or None for as fast as it goes, not {speed}")
    if in_flight < 1:
        raise InvalidArgumentError(f"in_flight={in_flight} sends no request: it must be at least 1")
    requests = Capture(capture) if isinstance(capture, (str, PathLike)) else capture
    requests = requests if isinstance(requests, Capture) else list(requests)
    names = {captured.exchange.model for captured in requests}
    if not of and model.name not in names and len(names) == 1:
        (of,) = names
    of = of or model.name
    if names and of not in names:
        raise InvalidArgumentError(f"the capture has no request to '{of}', but to {', '.join(sorted(names))}: give of=")
    plan = _Plan(requests, of, limit, seconds)
    return _Replay(model, against, plan, speed=speed, in_flight=in_flight, progress=progress).run()


@dataclass
class _Plan:
    """The requests to send, in order of arrival, and the counts of requests that are left out, by reason."""

    requests: Capture | list[CapturedRequest]
    of: str
    limit: int | None
    seconds: float | None
    not_sent: Counter[str] = field(default_factory=Counter)

    @property
    def source(self) -> str:
        return str(self.requests.path) if isinstance(self.requests, Capture) else ""

    def __iter__(self) -> Iterator[Planned]:
        self.not_sent.clear()
        broken: set[int | str] = set()
        open_sequences: set[int | str] = set()
        first, count = None, 0
        for number, captured in enumerate(self.requests):
            if captured.exchange.model != self.of:
                self.not_sent[f"to other models than '{self.of}'"] += 1
                continue
            first = captured.at_ns if first is None else first
            is_over = self.seconds is not None and captured.at_ns - first > self.seconds * 1e9
            if is_over or (self.limit is not None and count >= self.limit):
                self.not_sent["beyond the limit"] += 1
                continue
            count += 1
            request = captured.exchange.request
            sequence, starts = request.correlation_id, bool(request.flags & SEQUENCE_START)
            if sequence and starts:
                broken.discard(sequence)
                open_sequences.add(sequence)
            why = _why_unsent(captured)
            if sequence and not why:
                why = "in sequences after a request that cannot be sent" * (sequence in broken)
                why = why if sequence in open_sequences else "in sequences whose beginning the capture lacks"
            if why:
                self.not_sent[why] += 1
                broken |= {sequence} if sequence else set()
                continue
            yield Planned(number, captured)


def _why_unsent(captured: CapturedRequest) -> str:
    if captured.exchange.unsent:
        return captured.exchange.unsent
    withheld = [place for place, each in captured.withheld.items() if each.how != "inexact"]
    if any(place.startswith("input.") for place in withheld):
        return "with withheld inputs"
    if any(place.startswith("parameter.") for place in withheld):
        return "with withheld parameters"
    return "whose sequence is withheld" if "sequence_id" in captured.withheld else ""


def _why_not_compared(captured: CapturedRequest, unseen: Unseen) -> str:
    """Return why there is no recorded answer to compare with."""
    exchange = captured.exchange
    if exchange.unanswered:
        return exchange.unanswered
    if exchange.cancelled:
        return "cancelled by its client"
    if "error" in captured.withheld:
        return "whose error is withheld"
    if not exchange.has_answer and not unseen:
        return "without a recorded answer"
    if unseen and exchange.error is None and not any(outputs_of(exchange, unseen)):
        return "whose outputs are all withheld"
    return ""


def _unseen(planned: Planned) -> Unseen:
    found = set()
    for place, each in planned.captured.withheld.items():
        kind, _, rest = place.partition(".")
        number, _, name = rest.partition(".")
        if kind == "output" and each.how != "inexact":
            found.add((int(number), name))
    return found


@dataclass
class _Replay:
    """One replay: its passes over the capture, and its findings so far."""

    model: Model | RemoteModel
    against: Model | RemoteModel | None
    plan: _Plan
    _: KW_ONLY
    speed: float | None
    in_flight: int
    progress: Progress | None
    _again: dict[int, int] = field(default_factory=dict)
    _changes: ChangeLog = field(default_factory=ChangeLog)
    _compared: set[int] = field(default_factory=set)
    _not_compared: Counter[str] = field(default_factory=Counter)
    _withheld: set[int] = field(default_factory=set)
    _rounded: set[int] = field(default_factory=set)
    _as_old: set[int] = field(default_factory=set)
    _latencies: dict[int, tuple[int, int]] = field(default_factory=dict)
    _sent: int = 0
    _late: int = 0
    _stopped: str = ""

    def __post_init__(self) -> None:
        self._is_itself = self.against is not None and _place(self.model) == _place(self.against)
        self._noise = LearnedNoise(of_now=self._is_itself) if self.against is not None else None
        #: the first answers of the model whose noise is learned
        self._first = KeptAnswers()

    def run(self) -> ReplayVerdict:
        passes = [("", self.model, self._take)]
        if self._is_itself:
            passes.append((", again", self.model, self._take_again_of_itself))
        elif self.against is not None:
            passes = [
                (" of the model before", self.against, self._first.add),
                *passes,
                (" of the model before, again", self.against, self._take_again),
            ]
        with closing(self._first):
            for words, model, take in passes:
                if not self._stopped:
                    self._pass(words, model, take)
        groups = self._groups()
        return ReplayVerdict(
            self.model,
            self.plan.source,
            sent=self._sent,
            compared=len(self._compared),
            same=len(self._compared - {change.number for group in groups for change in group.changes}),
            not_sent=dict(sorted(self.plan.not_sent.items())),
            not_compared=dict(sorted(self._not_compared.items())),
            groups=tuple(groups),
            noise=self._noise,
            latency=self._latency(),
            notes=tuple(self._notes()),
            stopped=self._stopped,
        )

    def _pass(self, words: str, model: Model | RemoteModel, take: Callable[[Replayed], None]) -> None:
        """Send all requests once."""
        done = 0
        sender = open_sender(model, self.in_flight)
        playing = play(self.plan, sender, speed=self.speed, in_flight=self.in_flight)
        try:
            with closing(playing):
                for replayed in playing:
                    take(replayed)
                    done += 1
                    if done % 100 or self.progress is None:
                        continue
                    if self.progress(f"replay{words}: {done:,} answers") is False:
                        self._stopped = "stopped"
                        return
        except KeyboardInterrupt:
            self._stopped = "interrupted"

    # -- the answers of each pass

    def _take(self, replayed: Replayed) -> None:
        """Compare an answer of the model."""
        planned, found = replayed.planned, replayed.exchange
        number, unseen = planned.number, _unseen(planned)
        self._sent += 1
        self._late = max(self._late, replayed.behind_ns)
        if self._is_itself:
            self._first.add(replayed)
        why = _why_not_compared(planned.captured, unseen)
        expected, old = planned.captured.exchange, None if self._is_itself else self._first.get(replayed)
        if why and old is not None:  # the model before answers in the place of the capture
            expected, unseen, why = old, set(), ""
        if why:
            self._not_compared[why] += 1
            return
        self._compared.add(number)
        if unseen:
            self._withheld.add(number)
        if expected is planned.captured.exchange and is_inexact(planned):
            self._rounded.add(number)
        changes = changes_between(planned, expected, found, unseen)
        if changes and old is not None and expected is not old:
            still = {change.output for change in changes_between(planned, old, found)}
            kept = changes if "" in still else [change for change in changes if change.output in still]
            if len(kept) < len(changes):
                self._as_old.add(number)
            changes = kept
        self._changes.add(changes)
        if self._noise is not None and old is not None:
            self._noise.add_other(number, old, found, unseen)
        before = old if old is not None else planned.captured.exchange
        if found.error is None and before.error is None and before.total_ns > 0:
            self._latencies[number] = before.total_ns, found.total_ns

    def _take_again(self, replayed: Replayed) -> None:
        """Learn the noise of the model before from its second answer."""
        number = replayed.planned.number
        self._again[number] = replayed.exchange.total_ns
        first = self._first.get(replayed)
        if self._noise is not None and first is not None:
            self._noise.add_again(replayed.planned, first, replayed.exchange, _unseen(replayed.planned))

    def _take_again_of_itself(self, replayed: Replayed) -> None:
        """Learn the noise of a model that is compared with itself, from its second answer and the recorded one."""
        planned, unseen = replayed.planned, _unseen(replayed.planned)
        first = self._first.get(replayed)
        if self._noise is None or first is None:
            return
        self._noise.add_again(planned, first, replayed.exchange, unseen)
        if planned.number in self._compared:
            self._noise.add_other(planned.number, first, planned.captured.exchange, unseen)

    # -- the verdict

    def _groups(self) -> list[ChangeGroup]:
        noise = self._noise
        changes = self._changes.changes
        found = []
        if noise is not None and noise.noisy:
            changes = [change for change in changes if not noise.covers(change)]
            found = [group for output in noise.noisy for group in self._shifted(output, noise)]
        groups = sorted([*found, *group_changes(changes)], key=lambda group: (-group.count, group.example.number))
        return [replace(self._with_company(group), model=self.model) for group in groups]

    def _shifted(self, output: str, noise: LearnedNoise) -> Iterator[ChangeGroup]:
        """Yield the group of an output that differs over all requests together."""
        tests = noise.test(output)
        members = [change for change in self._changes.changes if change.output == output]
        if not tests or not members:
            return
        first = noise.first_beyond(output, {change.number for change in members if change.evidence is not None})
        members.sort(key=lambda change: (change.number != first, change.number))
        note = "; ".join(test.text for test in tests)
        yield ChangeGroup(tuple(replace(change, kind="distribution") for change in members), note=note)

    def _with_company(self, group: ChangeGroup) -> ChangeGroup:
        """Send requests of the group again, alone, unless they belong to a sequence or to a noisy output."""
        noisy = self._noise is not None and self._noise.noisy
        evidence = [each.evidence.planned for each in group.changes if each.evidence is not None]
        chosen = [planned for planned in evidence if not planned.captured.exchange.request.correlation_id]
        if not chosen or noisy or self._stopped or group.kind == "distribution" or isinstance(self.model, RemoteModel):
            return group
        answers = {}
        for planned in chosen[:_ALONE]:
            sender = open_sender(self.model, 1)
            for replayed in play([planned], sender, speed=None):
                answers[planned.number] = replayed.exchange
        return with_company(group, answers, _unseen)

    def _latency(self) -> Any:
        numbers = sorted(self._latencies)
        before, now = ([self._latencies[number][side] for number in numbers] for side in (0, 1))
        if self.against is not None and not self._is_itself:
            again = [self._again[number] for number in numbers if self._again.get(number)]
            return compare_latencies(before, now, "the model before, replayed here, too", again)
        if self.speed != 1.0:
            return None
        return compare_latencies(before, now, "the capture: times of another moment, and of its server")

    def _notes(self) -> Iterator[str]:
        if self._withheld:
            yield f"outputs of {len(self._withheld):,} requests are withheld in the capture: they were not compared"
        if self._rounded:
            yield (
                f"{len(self._rounded):,} requests have floats that the capture rounds: their answers were compared "
                f"within {ROUNDING:g} of the value"
            )
        if self._as_old:
            yield (
                f"{len(self._as_old):,} requests are answered otherwise than recorded by the model before, too, and "
                "equally by both: no change"
            )
        if self._noise is not None and (noisy := self._noise.noisy):
            yield from self._noise.sentences()
            if self._noise.is_undecided:
                names = ", ".join(name or "whole answers" for name in noisy)
                least = self._noise.least_requests()
                yield f"these requests are too few to tell noise of {names} from a change: it takes {least} at least"
        elif self._changes.changes and self._noise is None:
            yield "a model with noise differs from itself: replay(capture, against=OLD) learns how much"
        if self._late > _LATE and self.speed is not None:
            yield f"requests were sent up to {self._late / 1e6:,.0f} ms late: the recorded pace was not kept"
        if self.speed != 1.0 and self.against is None:
            yield "latencies were not compared: the pace is not the recorded one"


def _place(model: Model | RemoteModel) -> tuple[object, ...]:
    """Return a key of the version of a model on its server."""
    server = (model.link.protocol, model.link.address) if isinstance(model, RemoteModel) else id(model.server)
    return server, model.name, model.version
