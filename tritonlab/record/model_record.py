"""The record of one model: tables of numbers, the words that they stand for, and marks.

Times are nanoseconds of the server's monotonic clock. A word is a number in a table: its place in one of the lists in
`Words`.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from ..core.inference.infer_request import InferenceRequest
from ..core.inference.tensor import Tensor
from .lone_executions import LoneExecutions, RecordLock
from .ring import Ring
from .stream_text import StreamText, StreamTexts

#: How many rows of each table are kept, and how many Python objects of each kind.
EVENTS = 100_000
MARKS = 1_000
#: How many different words of each kind are kept: shapes and instances that always differ must not fill the memory.
_WORDS = 10_000
#: The shapes of requests are remembered for this many loads of a model.
_KEYS = 8

#: A row is one execution. `first`: its first row in REQUESTS, which has its `count` requests one after the other.
BATCHES = ["start", "end", "instance", "batch_id", "version", "size", "count", "reason"]
BATCHES += ["compute_input", "compute_infer", "compute_output", "failed", "first"]
#: A row is one execution of one request; `batch` is its row of BATCHES.
REQUESTS = ["serial", "arrived", "queued", "batch", "size", "shapes"]
#: Facts of few requests, by their row of REQUESTS. `sequence`: the correlation id, or -1 - its number among the words
#: if it is text, or too large for a double. `parent`, `step`: for an ensemble's step the serial of the ensemble's
#: request, and the step's number, else -1. `caller`, `caller_batch`: the instance and the execution of the model that
#: made the request, or -1. `timeout`: the request's own, microseconds, or 0.
EXTRAS = ["row", "priority", "sequence", "parent", "caller", "caller_batch", "step", "timeout"]
#: A row is a request that ended in the dynamic batcher. `reason`: a place in REJECTIONS; `time`: of this decision, or
#: of the execution if the request timed out on the way to the instance.
REJECTED = ["serial", "arrived", "queued", "time", "reason", "size", "shapes", "priority", "timeout"]
REJECTIONS = ("queue full", "timeout", "cancelled")
#: A row is one response of a stream. `kind`: a sum of NOT_FINAL 0, FINAL 1, EMPTY 2, ERROR 4.
RESPONSES = ["serial", "time", "number", "kind", "shapes"]
#: A row is a request that got a stream and has ended. `polls`: how often its model checked for its cancellation;
#: `asked`: when a view cancelled it; `noticed`: when its model first saw that. Times are 0 for events that did not
#: happen.
STREAMS = ["serial", "arrived", "executed", "first", "last", "end", "count", "kind", "polls", "asked", "noticed"]
#: A row is one copy of a request's tensors between the host and a GPU, in bytes. `simulated`: 1 if there is no such
#: GPU.
COPIES = ["serial", "time", "device", "to_device", "to_host", "simulated"]
FINAL, EMPTY, ERROR = 1, 2, 4
#: Each tensor's name and shape.
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
#: Below this, a double holds each integer exactly.
_EXACT = 1 << 53
_EPOCHS = itertools.count(1)


class Mark(NamedTuple):
    """An event of a model. `number`: its place among the model's marks, from 0; `time`: nanoseconds of the server's
    monotonic clock; `kind`: error, timeout, cancelled, restart, state or waits; `serial`: its request's, or 0.
    """

    number: int
    time: int
    kind: str
    text: str
    serial: int = 0


@dataclass(slots=True)
class Cancellation:
    """The record of a request and its cancellation; a time is 0 for an event that did not happen."""

    polls: int = 0
    asked: int = 0
    noticed: int = 0


@dataclass(slots=True)
class OpenStream:
    """A request that has had responses, but not the final one. `text`: its text, if it is kept."""

    arrived: int
    executed: int
    first: int = 0
    last: int = 0
    count: int = 0
    text: StreamText | None = None

    def facts(self) -> tuple[int, int, int, int, int]:
        """Return the arguments that make an equal object."""
        return self.arrived, self.executed, self.first, self.last, self.count

    @staticmethod
    def from_request(request: InferenceRequest) -> OpenStream:
        return OpenStream(request.request_start, request.execute_start)


class Words:
    """Lists of words, each in the order of their arrival. A full list gets no more words: their number is -1."""

    def __init__(self) -> None:
        self.instances: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.shapes: dict[Shapes, int] = {}
        self._numbers: dict[str, dict[Any, int]] = {
            "instance": self.instances,
            "reason": self.reasons,
            "shapes": self.shapes,
            "sequence": {},
        }

    def known(self, kind: str) -> Mapping[Any, int]:
        """Return the words of a kind so far, each with its number, for reading only."""
        return self._numbers[kind]

    def number(self, kind: str, word: Any) -> int:
        known = self._numbers[kind]
        number = known.get(word)
        if number is None:
            number = -1
            if len(known) < _WORDS:
                number = known[word] = len(known)
        return number

    def sequence(self, correlation_id: int | str) -> int:
        """Return the number of a correlation id in EXTRAS."""
        if isinstance(correlation_id, int) and correlation_id < _EXACT:
            return correlation_id
        return -1 - self.number("sequence", str(correlation_id))

    def word(self, kind: str, number: float) -> Any:
        """Return the word of a number; an empty text if it has none."""
        return next(itertools.islice(self._numbers[kind], int(number), None), "") if number >= 0 else ""

    def since(self, counts: Mapping[str, int]) -> dict[str, tuple[int, list[Any]]]:
        """Return, for each kind with more than `counts` words, its number of words and the words after those."""
        found = {}
        for kind, known in self._numbers.items():
            had = counts.get(kind, 0)
            if len(known) > had:
                found[kind] = had, list(known)[had:]
        return found

    def lists(self) -> dict[str, list[Any]]:
        """Return the words in a form that JSON can keep: shapes as [[name, [dimensions]], …]."""
        return {kind: list(known) for kind, known in self._numbers.items()}

    def restore(self, lists: Mapping[str, list[Any]]) -> None:
        for kind, known in self._numbers.items():
            known.clear()
            for word in lists.get(kind, []):
                if isinstance(word, str) is (kind == "shapes"):
                    raise ValueError(f"{word!r} is not a word of kind {kind}")
                self.number(kind, _hashable(word))


class ModelRecord:
    """The tables of one model. Hold `lock` to write or read them."""

    def __init__(self, name: str, events: int = EVENTS) -> None:
        self.name = name
        #: differs in each record of the same name
        self.epoch = next(_EPOCHS)
        self._batches = Ring(BATCHES, events, whole=True)
        self._requests = Ring(REQUESTS, events, whole=True)
        #: executions that are not in these tables yet
        self.lone = LoneExecutions(self._batches, self._requests)
        self.lock = RecordLock(self.lone)  # guards everything here except the notes
        self._events = events
        self.words = Words()
        #: by `InferenceRequest.shape_key` and batch size, the number of the shapes of requests
        self.shapes_by_key: dict[object, dict[int, int]] = {}
        #: the same for requests without a key: stays empty, because their shapes are not known to be equal
        self.no_shapes: Mapping[int, int] = {}
        #: the datatype of each input, by its name
        self.datatypes: dict[str, str] = {}
        self.marks: deque[Mark] = deque(maxlen=MARKS)
        self.mark_count = 0
        #: (row of REQUESTS, request id) of each request that has an id
        self.ids: deque[tuple[int, str]] = deque(maxlen=events)
        self.open: dict[int, OpenStream] = {}
        #: by serial, of requests that may still run; the oldest are dropped first
        self.cancelling: dict[int, Cancellation] = {}

    # what few models fill is made when it is first used

    @cached_property
    def extras(self) -> Ring:
        return Ring(EXTRAS, self._events)

    @cached_property
    def rejected(self) -> Ring:
        return Ring(REJECTED, self._events)

    @cached_property
    def responses(self) -> Ring:
        return Ring(RESPONSES, self._events)

    @cached_property
    def streams(self) -> Ring:
        return Ring(STREAMS, self._events)

    @cached_property
    def copies(self) -> Ring:
        return Ring(COPIES, self._events)

    @cached_property
    def texts(self) -> StreamTexts:
        """The texts of the last streams; they are not saved."""
        return StreamTexts()

    @property
    def batches(self) -> Ring:
        """The table of all executions so far."""
        if self.lone.notes:
            self.settle()
        return self._batches

    @property
    def requests(self) -> Ring:
        """The table of all executed requests so far."""
        if self.lone.notes:
            self.settle()
        return self._requests

    def settle(self) -> None:
        """Make rows of the noted executions, unless this thread holds the lock."""
        with self.lock:
            pass

    @property
    def tables(self) -> dict[str, Ring]:
        return {
            "batches": self.batches,
            "requests": self.requests,
            "extras": self.extras,
            "rejected": self.rejected,
            "responses": self.responses,
            "streams": self.streams,
            "copies": self.copies,
        }

    @property
    def dropped(self) -> int:
        """Return how many rows and marks are no longer kept."""
        return sum(ring.dropped for ring in self.tables.values()) + self.mark_count - len(self.marks)

    def mark(self, time: int, kind: str, text: str, serial: int = 0) -> None:
        self.marks.append(Mark(number=self.mark_count, time=time, kind=kind, text=text, serial=serial))
        self.mark_count += 1

    def cancelling_of(self, serial: int) -> Cancellation:
        found = self.cancelling.get(serial)
        if found is None:
            found = self.cancelling[serial] = Cancellation()
            if len(self.cancelling) > _WORDS:
                del self.cancelling[next(iter(self.cancelling))]
        return found

    def end_stream(self, serial: int, stream: OpenStream, now: int, kind: int) -> None:
        self.open.pop(serial, None)
        if stream.text is not None:
            self.texts.end(stream.text, now)
        found = self.cancelling.pop(serial, None) or Cancellation()
        span = stream.arrived, stream.executed, stream.first, stream.last, now
        self.streams.add((serial, *span, stream.count, kind, found.polls, found.asked, found.noticed))

    def name_of(self, row: int) -> str:
        """Return a name for the request of a row: its request id, or its number."""
        found = self.requests.row(row)
        return self.id_of(row) or f"request {int(found['serial']) if found else '?'}"

    def id_of(self, row: int) -> str:
        """Return the request id of a row; empty if it has none."""
        place = bisect_left(self.ids, row, key=itemgetter(0))
        return self.ids[place][1] if place < len(self.ids) and self.ids[place][0] == row else ""

    def shapes_of(self, request: InferenceRequest) -> int:
        """Return the number of a request's shapes, and remember it for equal requests."""
        shapes: Shapes = tuple([(name, tensor.shape) for name, tensor in request.inputs.items()])
        number = self.words.shapes.get(shapes)
        if number is None:
            self.datatypes |= {name: tensor.datatype.name for name, tensor in request.inputs.items()}
            number = self.words.number("shapes", shapes)
        if request.shape_key is not None:
            self.shapes_by_key.setdefault(request.shape_key, {})[request.batch_size] = number
            if len(self.shapes_by_key) > _KEYS:
                del self.shapes_by_key[next(iter(self.shapes_by_key))]
        return number

    def shapes(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the number that stands for the tensors' names and shapes."""
        return self.words.number("shapes", tuple([(name, tensor.shape) for name, tensor in tensors.items()]))

    def last_time(self) -> float:
        """Return the time of the last event; 0 if there is none. The caller holds the lock."""
        ends = (self.batches, "end"), (self.rejected, "time"), (self.responses, "time"), (self.streams, "end")
        times = [row[column] for table, column in ends if (row := table.row(table.total - 1)) is not None]
        return max([*times, *(mark.time for mark in list(self.marks)[-1:])], default=0)

    def marks_since(self, number: int) -> list[Mark]:
        return list(itertools.takewhile(lambda mark: mark.number >= number, reversed(self.marks)))[::-1]

    def ids_since(self, row: int) -> list[tuple[int, str]]:
        """Return the row and the request id of each kept request, from a row on."""
        first = max(row, self.requests.dropped)
        return list(itertools.takewhile(lambda entry: entry[0] >= first, reversed(self.ids)))[::-1]

    def __repr__(self) -> str:
        return f"<ModelRecord {self.name} [{len(self.batches)} batches | {len(self.requests)} requests]>"


def _hashable(word: Any) -> Any:
    """Turn the lists that JSON made of a word's tuples back into tuples."""
    return tuple(map(_hashable, word)) if isinstance(word, list) else word
