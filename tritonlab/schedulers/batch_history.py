"""The batch history tells why two requests did not share a batch.

`BatchHistory` listens to batches as they are formed; the pure function `why_apart` answers for two of their requests.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.infer_request import InferenceRequest
from ..core.instrument import Instrument
from .dynamic_batch import BatchConfig

_CLOSED = {
    "full": "was full",
    "preferred": "had a preferred size and left with it",
    "next exceeds preferred": "left because the next request would have exceeded its largest preferred size",
    "exceeds preferred": "had reached its largest preferred size and left",
    "delay": "left when its oldest request had waited for the whole delay",
    "no delay": "left at once: no delay is configured",
    "shape": "was closed by a request of another shape that stood between them",
    "optional inputs": "was closed by a request with other inputs that stood between them",
    "slot utilization": "left because enough slots had requests",
}


@dataclass(frozen=True)
class FormedBatch:
    """Describes a batch as it left: the `number`th of its model version, at `formed` nanoseconds, of `size` batch
    items."""

    model: str
    version: int
    number: int
    formed: int
    size: int
    reason: str


@dataclass(frozen=True)
class BatchPlace:
    """Tells where a request stood in its batch. `shapes` exclude the batch dimension; `queued` is when the request
    came, in nanoseconds."""

    name: str
    batch: FormedBatch
    queued: int
    size: int
    priority: int
    sequence: int | str
    shapes: dict[str, tuple[int, ...]]

    @staticmethod
    def of(request: InferenceRequest, batch: FormedBatch, *, batched: bool) -> BatchPlace:
        name = f"'{request.request_id}'" if request.request_id else f"request {request.serial}"
        shapes = {n: t.shape[1:] if batched else t.shape for n, t in request.inputs.items()}
        return BatchPlace(
            name, batch, request.queue_start, request.batch_size, request.priority, request.correlation_id, shapes
        )


def why_apart(one: BatchPlace, other: BatchPlace, config: BatchConfig) -> str:
    """Returns a sentence for people that says why two requests were executed in different calls, or that they were
    not."""
    first, second = sorted((one, other), key=lambda place: (place.batch.formed, place.batch.number, place.queued))
    if (first.batch.model, first.batch.version) != (second.batch.model, second.batch.version):
        return f"{first.name} and {second.name} are for different models."
    if first.batch.number == second.batch.number:
        return f"{first.name} and {second.name} did share a batch."
    if not config.dynamic:
        return f"Model '{first.batch.model}' has no dynamic_batching: every request is executed alone."
    if second.queued > first.batch.formed:
        late = (second.queued - first.batch.formed) / 1e6
        closed = _CLOSED.get(first.batch.reason, first.batch.reason)
        return f"{second.name} came {late:.3g} ms after the batch of {first.name} had left; that {closed}."
    return _difference(first, second, config) or _room(first, second, config)


def _difference(first: BatchPlace, second: BatchPlace, config: BatchConfig) -> str:
    """Returns why these two could not share any batch; empty if they could."""
    if first.sequence and first.sequence == second.sequence:
        return f"{first.name} and {second.name} are of one sequence, whose requests are executed one after the other."
    if config.optional_inputs and first.shapes.keys() != second.shapes.keys():
        lone = sorted(first.shapes.keys() ^ second.shapes.keys())[0]
        owner = first if lone in first.shapes else second
        return f"Only {owner.name} carries the optional input '{lone}'."
    for name in config.equal_shape_inputs:
        shapes = [place.shapes.get(name) for place in (first, second)]
        if shapes[0] != shapes[1]:
            texts = [str(list(shape)) if shape is not None else "absent" for shape in shapes]
            return (
                f"Input '{name}' is {texts[0]} in {first.name} and {texts[1]} in {second.name}; "
                "allow_ragged_batch would let them share a batch."
            )
    return ""


def _room(first: BatchPlace, second: BatchPlace, config: BatchConfig) -> str:
    """Returns why the batch of `first`, which could have held `second`, left without it."""
    batch = first.batch
    if batch.size + second.size > config.max_batch_size:
        return (
            f"The batch of {first.name} was full: {batch.size} + {second.size} is more than max_batch_size "
            f"{config.max_batch_size}."
        )
    if config.ranked and first.priority and second.priority > first.priority:
        return (
            f"{second.name} has priority {second.priority}, {first.name} {first.priority}: the batch of {first.name} "
            f"{_CLOSED.get(batch.reason, batch.reason)}."
        )
    return f"The batch of {first.name} {_CLOSED.get(batch.reason, batch.reason)}."


class BatchHistory(Instrument):
    """Remembers the places of the last `keep` requests. `config_of(model, version)` returns the
    batching rules of a model version."""

    def __init__(self, config_of: Callable[[str, int], BatchConfig], keep: int = 1000) -> None:
        self._config_of = config_of
        self._keep = keep
        self._lock = threading.Lock()  # guards all of the below
        self._places: OrderedDict[int, BatchPlace] = OrderedDict()
        self._numbers: dict[tuple[str, int], int] = {}

    def batch_formed(
        self, model: str, version: int, requests: Sequence[InferenceRequest], size: int, reason: str, now: int
    ) -> None:
        batched = self._config_of(model, version).max_batch_size > 0
        with self._lock:
            number = self._numbers[model, version] = self._numbers.get((model, version), 0) + 1
            batch = FormedBatch(model, version, number, now, size, reason)
            for request in requests:
                self._places.pop(request.serial, None)  # a rescheduled request counts at its last place
                self._places[request.serial] = BatchPlace.of(request, batch, batched=batched)
            while len(self._places) > self._keep:
                self._places.popitem(last=False)

    def place(self, serial: int) -> BatchPlace | None:
        """Returns where the request of that number was executed last; None if it was not, or too long ago."""
        with self._lock:
            return self._places.get(serial)

    def why_apart(self, one: InferenceRequest, other: InferenceRequest) -> str:
        """Returns a sentence for people; see the function `why_apart`."""
        places = [self.place(request.serial) for request in (one, other)]
        if places[0] is None or places[1] is None:
            missing = one if places[0] is None else other
            name = f"'{missing.request_id}'" if missing.request_id else f"request {missing.serial}"
            if missing.cancelled:
                return f"{name} was cancelled before it was in a batch."
            return f"{name} has not been in a batch, or too long ago."
        batch = places[0].batch
        return why_apart(places[0], places[1], self._config_of(batch.model, batch.version))
