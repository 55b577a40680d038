"""The changes between the recorded answer to a request and its answer now, and their groups by cause."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....core.inference.data_type import DataType
from ....core.inference.infer_request import InferenceRequest
from ....core.inference.tensor import Tensor
from ....core.observe.failure_capsule import FailureCapsule, keep_requests
from ....core.quoting import file_stem
from ....core.status import UnsupportedError
from ....exchanges.comparison import TensorDiff, allow_tolerance, compare_outputs, is_reordered, plain_error
from ....exchanges.exchange import Exchange, addressed
from ....exchanges.golden import GoldenSet
from ....exchanges.snippets import NotSendable, Snippet, recorded_tests
from ....server.api.model import Model
from .paced_sending import Planned

#: The kinds of changes by the word that `--fail-on` has for them.
KINDS = {
    "values": ("value", "distribution"),
    "shapes": ("shape",),
    "datatypes": ("datatype",),
    "outputs": ("outputs",),
    "responses": ("responses", "order"),
    "errors": ("error",),
}
#: The share by which floats may differ if the capture rounds floats of the request: traces of Triton have six digits.
#: Sums may also differ by a tenth of this share of the largest number of their tensor.
ROUNDING = 1e-4
#: Differences of sizes with a gap of this factor between them have different causes.
_APART = 10.0
_NUMBER = re.compile(r"\d+")
#: The changes of one kind and size that have their evidence.
_KEPT = 3


class Evidence(NamedTuple):
    """A request with its answer before and its answer now."""

    planned: Planned
    expected: Exchange
    exchange: Exchange


@dataclass(eq=False)
class AnswerChange:
    """One change. `before` and `after`: both sides in words.

    number: of the request in the capture, from 0
    kind: error, responses, order, outputs, datatype, shape, value, or distribution: of all requests together
    evidence: the request and its answers; None if similar changes have them
    output: the name of the output; empty for a change of the whole answer
    index: the first differing element of response number `response`
    absolute, relative: the size of the largest difference of numbers; 0 for others
    """

    number: int
    request_id: str
    kind: str
    evidence: Evidence | None = field(repr=False)
    output: str = ""
    response: int = 0
    index: tuple[int, ...] = ()
    absolute: float = 0.0
    relative: float = 0.0
    before: str = ""
    after: str = ""

    @property
    def request(self) -> InferenceRequest | None:
        """The request; None if similar changes have the evidence."""
        return self.evidence.planned.captured.exchange.request if self.evidence else None

    @property
    def place(self) -> str:
        """The place in words: `OUT[0, 2] of response 2`."""
        where = f"{self.output}{list(self.index)}" if self.index else self.output
        return f"{where} of response {self.response + 1}" if self.response else where

    def to_dict(self) -> dict[str, Any]:
        return {
            "request": self.number,
            "request_id": self.request_id,
            "place": self.place,
            "before": self.before,
            "after": self.after,
        }


#: The outputs of a request that are not compared, as (number of the response, name).
Unseen = Collection[tuple[int, str]]


def error_words(exchange: Exchange) -> str:
    """Return the error without the parts that depend on the server and on lines of the source; empty if none."""
    return plain_error(exchange.error).partition("\n\nAt:\n")[0] if exchange.error is not None else ""


def outputs_of(exchange: Exchange, unseen: Unseen = ()) -> list[Mapping[str, Tensor]]:
    """Return the outputs of each response before the first error, without outputs that are not compared;
    responses without outputs are left out, unless a capture withholds these."""
    hidden = {number for number, _ in unseen}
    found: list[Mapping[str, Tensor]] = []
    for number, response in enumerate(exchange.responses):
        if response.error is not None:
            break
        if response.outputs or number in hidden:
            found.append({name: each for name, each in response.outputs.items() if (number, name) not in unseen})
    return found


def changes_between(planned: Planned, before: Exchange, after: Exchange, unseen: Unseen = ()) -> list[AnswerChange]:
    """Return the changes from one answer to another, one for each output that differs: in its largest difference of
    numbers, or else in its first."""
    evidence = Evidence(planned, before, after)
    texts = error_words(before), error_words(after)
    if texts[0] != texts[1]:
        pairs = zip(texts, (before, after), strict=True)
        words = [text or _answer_words(outputs_of(each, unseen)) for text, each in pairs]
        return [_change(evidence, "error", words)]
    ones, others = outputs_of(before, unseen), outputs_of(after, unseen)
    if len(ones) != len(others):
        return [_change(evidence, "responses", [_answer_words(ones), _answer_words(others)])]
    if len(ones) > 1 and is_reordered(ones, others):
        return [_change(evidence, "order", [f"{len(ones)} responses", "in another order"])]
    is_rounded = before is planned.captured.exchange and is_inexact(planned)
    largest: dict[str, TensorDiff] = {}
    for diff in compare_outputs(ones, others, _allow_rounding if is_rounded else allow_tolerance):
        known = largest.get(diff.name)
        if not diff.same and (known is None or diff.largest_absolute > known.largest_absolute):
            largest[diff.name] = diff
    return [_tensor_change(evidence, diff) for diff in largest.values()]


def is_inexact(planned: Planned) -> bool:
    """Return whether the capture rounds numbers of the request or its answer."""
    return any(each.how == "inexact" for each in planned.captured.withheld.values())


def _allow_rounding(name: str, datatype: DataType, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    largest = float(np.max(np.abs(other), where=np.isfinite(other), initial=0.0))
    found: NDArray[Any] = allow_tolerance(name, datatype, one, other) + ROUNDING * (np.abs(other) + 0.1 * largest)
    return found


def _answer_words(answers: Sequence[object]) -> str:
    count = len(answers)
    return f"{count} response{'s' * (count != 1)}" if count else "no answer"


def _change(evidence: Evidence, kind: str, sides: Sequence[str], output: str = "", **more: Any) -> AnswerChange:
    planned, (before, after) = evidence.planned, sides
    request_id = planned.captured.exchange.request.request_id
    return AnswerChange(planned.number, request_id, kind, evidence, output, before=before, after=after, **more)


def _tensor_change(evidence: Evidence, diff: TensorDiff) -> AnswerChange:
    return _change(
        evidence,
        diff.kind,
        diff.sides,
        diff.name,
        response=diff.response,
        index=diff.first or (),
        absolute=diff.largest_absolute,
        relative=diff.largest_relative,
    )


class ChangeLog:
    """All changes of a replay in order of the answers. Of changes that are alike in output, kind and size, only three
    have their evidence, the first two and the largest: together they may be larger than the memory.

    Guarantee: of each group of changes at least one has evidence, also if only those above a limit are grouped.
    """

    def __init__(self) -> None:
        self.changes: list[AnswerChange] = []
        self._evident: dict[tuple[object, ...], list[AnswerChange]] = {}

    def add(self, changes: Iterable[AnswerChange]) -> None:
        for change in changes:
            self.changes.append(change)
            powers = (size and f"{size:.0e}"[-4:] for size in (change.absolute, change.relative))
            # a key that only changes of one group have in common: with the powers of 10 of its sizes
            kept = self._evident.setdefault((*_key(change), *powers), [])
            kept.append(change)
            if len(kept) > _KEPT:
                kept.sort(key=lambda each: each.number)
                place = -2 if max(kept, key=lambda each: each.absolute) is kept[-1] else -1
                kept.pop(place).evidence = None


@dataclass(frozen=True)
class ChangeGroup:
    """The changes with one cause. `changes`: at least one, by number of request.

    sizes: the least and the largest difference of numbers in words, empty for others
    alone: whether its requests are answered as before if they are sent alone; None if that was not tried
    note: further words on the cause
    model: the model that was asked, for `keep_failure` and the tests
    """

    changes: tuple[AnswerChange, ...]
    sizes: str = ""
    alone: bool | None = None
    note: str = ""
    model: Any = field(default=None, repr=False, compare=False)

    @property
    def example(self) -> AnswerChange:
        return next((change for change in self.changes if change.evidence is not None), self.changes[0])

    @property
    def kind(self) -> str:
        return self.example.kind

    @property
    def count(self) -> int:
        """The number of requests with the change."""
        return len(self.changes)

    @property
    def fails_on(self) -> str:
        """The word of `--fail-on` for its kind."""
        return next(word for word, kinds in KINDS.items() if self.kind in kinds)

    @property
    def sentence(self) -> str:
        """The change in one sentence."""
        text = _HEADS[self.kind].format(output=self.example.output or "the whole answer")
        text += f" {self.sizes}" if self.sizes else ""
        text += "; sent alone, they are answered as before: other requests of the batch may matter" * bool(self.alone)
        return f"{text}; {self.note}" if self.note else text

    def lines(self) -> list[str]:
        """Return the sentence, and below it the example with both values."""
        example = self.example
        numbers = ", ".join(f"{change.number:,}" for change in self.changes[:5])
        more = ", …" if self.count > 5 else ""
        where = f" {example.place}" if example.place else ""
        return [
            f"{self.count:,} request{'s' * (self.count != 1)}: {self.sentence}",
            f"    request {example.number:,}{where}: {example.before} -> {example.after}",
            *([f"    requests {numbers}{more}"] if self.count > 1 else []),
        ]

    def to_golden(self, name: str = "", directory: str | Path | None = None) -> Path:
        """Keep the example with its answer before as a golden case, and return the file. `directory`: of the golden
        set, by default the notebook's. Raises FileExistsError for a name that is taken."""
        return GoldenSet(directory).add(self._expected(), name, error=True)

    def to_pytest(self, path: str | Path | None = None) -> Snippet:
        """Return a pytest that sends the example over gRPC and compares with the answer before. `path`: the directory
        to write it to. Raises NotSendable if the answer before was an error."""
        expected = self._expected()
        if expected.error is not None:
            raise NotSendable("a test needs a response to compare with, and this request failed before: use to_golden")
        name = f"test_{file_stem(expected.model)}_replay_{self.example.number}"
        snippet = recorded_tests(name, [(expected, self.model.config())])
        if path is not None:
            snippet.save(path)
        return snippet

    def keep_failure(self) -> Any:
        """Keep the example among the failures of the model, whose `replay()` sends it again, and return it: with the
        exception if the model raised one. Raises UnsupportedError for a model of a server elsewhere."""
        if not isinstance(self.model, Model):
            raise UnsupportedError("a server elsewhere keeps no failures: use to_golden or to_pytest")
        request, core = self._evidence().exchange.request, self.model.server.core
        capsule = core.failures.find(self.model.name, [request.serial]) if self.kind == "error" else None
        if capsule is None:
            requests, left_out = keep_requests([request])
            text = f"{self.sentence}: {self.example.place} {self.example.before} -> {self.example.after}"
            capsule = FailureCapsule(
                time_ns=time.time_ns(),
                model=self.model.name,
                version=self.model.serving_version().version,
                instance="",
                pid=0,
                phase="replay",
                batch_id=0,
                text=text,
                exception=None,
                frames=(),
                requests=requests,
                left_out=left_out,
            )
        core.failures.add(capsule)
        return self.model.failures[-1]

    def _expected(self) -> Exchange:
        evidence = self._evidence()
        request = addressed(evidence.planned.captured.exchange.request, self.model.name, -1)
        return replace(evidence.expected, request=request)

    def _evidence(self) -> Evidence:
        evidence = self.example.evidence
        assert evidence is not None, "ChangeLog keeps some of each group"
        return evidence

    def to_dict(self) -> dict[str, Any]:
        """Return the group as JSON values, with the numbers of all its requests."""
        return {
            "kind": self.kind,
            "output": self.example.output,
            "count": self.count,
            "sentence": self.sentence,
            "requests": [change.number for change in self.changes],
            "example": self.example.to_dict(),
        }


_HEADS = {
    "error": "other errors",
    "responses": "another number of responses",
    "order": "the same responses in another order",
    "outputs": "output {output} appeared or is missing",
    "datatype": "{output} has another datatype",
    "shape": "{output} has another shape",
    "value": "{output} has other values",
    "distribution": "{output} has other values over all requests together",
}


def group_changes(changes: Iterable[AnswerChange]) -> list[ChangeGroup]:
    """Return the groups of changes with one cause: the same output, kind and size. The groups with the most requests
    are first.

    Errors have one cause if their texts are the same except for numbers. Differences of numbers have one cause if no
    gap of a factor of 10 lies between their sizes, absolute or relative, whichever gives fewer groups.
    """
    by_kind: dict[tuple[str, ...], list[AnswerChange]] = {}
    for change in sorted(changes, key=lambda change: (change.number, change.output)):
        by_kind.setdefault(_key(change), []).append(change)
    found = [group for members in by_kind.values() for group in _by_size(members)]
    return sorted(found, key=lambda group: (-group.count, group.example.number, group.example.output))


def _key(change: AnswerChange) -> tuple[str, ...]:
    if change.kind in ("error", "datatype", "responses"):
        return change.kind, change.output, *(_NUMBER.sub("#", text) for text in (change.before, change.after))
    return change.kind, change.output


def _by_size(members: Sequence[AnswerChange]) -> list[ChangeGroup]:
    if members[0].kind != "value" or not any(change.absolute for change in members):
        return [ChangeGroup(tuple(members))]
    parts = [(name, _split(members, size)) for name, size in _SIZES.items()]
    name, found = min(parts, key=lambda part: len(part[1]))  # of as many, the absolute ones
    return [_sized(name, each) for each in found]


_SIZES: dict[str, Callable[[AnswerChange], float]] = {
    "absolute": lambda change: change.absolute,
    "relative": lambda change: change.relative,
}


def _split(members: Sequence[AnswerChange], size: Callable[[AnswerChange], float]) -> list[list[AnswerChange]]:
    """Return members in groups without a gap between their sizes; those whose size is not finite are one group."""
    ordered = sorted(members, key=size)
    groups: list[list[AnswerChange]] = []
    last = math.nan
    for change in ordered:
        if not groups or size(change) > last * _APART:
            groups.append([])
        groups[-1].append(change)
        last = size(change)
    return groups


def _sized(name: str, members: Sequence[AnswerChange]) -> ChangeGroup:
    sizes = [_SIZES[name](change) for change in members]
    low, high = min(sizes), max(sizes)
    words = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
    text = f"by {words}" if name == "absolute" else f"by {words} of the value"
    ordered = sorted(members, key=lambda change: change.number)
    return ChangeGroup(tuple(ordered), text if math.isfinite(low) else "which are not finite")


def with_company(
    group: ChangeGroup, answers: Mapping[int, Exchange], unseen: Callable[[Planned], Unseen]
) -> ChangeGroup:
    """Return the group with the knowledge whether its requests change when they are sent alone. `answers`: those to
    some of its requests, sent alone, by number."""
    found = []
    for change in group.changes:
        if change.number in answers and change.evidence is not None:
            planned, expected, _ = change.evidence
            again = changes_between(planned, expected, answers[change.number], unseen(planned))
            found.append(any(each.output == change.output for each in again))
    return replace(group, alone=not any(found)) if found else group
