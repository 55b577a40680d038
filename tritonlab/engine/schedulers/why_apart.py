"""The reasons why two requests did not share a batch."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.short_number import short_number
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
    """A batch that was sent: the `number`th of its model version, at `formed` nanoseconds, of `size` batch items."""

    model: str
    version: int
    number: int
    formed: int
    size: int
    reason: str


@dataclass(frozen=True)
class BatchPlace:
    """The place of a request in its batch. `shapes` exclude the batch dimension; `queued`: its arrival, in ns."""

    name: str
    batch: FormedBatch
    queued: int
    size: int
    priority: int
    sequence: int | str
    shapes: dict[str, tuple[int, ...]]


def why_apart(one: BatchPlace, other: BatchPlace, config: BatchConfig) -> str:
    """Return a sentence that explains why two requests were executed in different calls, or that they were not."""
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
        return f"{second.name} came {short_number(late)} ms after the batch of {first.name} had left; that {closed}."
    return _difference(first, second, config) or _room(first, second, config)


def _difference(first: BatchPlace, second: BatchPlace, config: BatchConfig) -> str:
    """Return why these two could share no batch; empty if they could."""
    if first.sequence and first.sequence == second.sequence:
        return f"{first.name} and {second.name} are of one sequence, whose requests are executed one after the other."
    if config.optional_inputs and first.shapes.keys() != second.shapes.keys():
        lone = sorted(first.shapes.keys() ^ second.shapes.keys())[0]
        owner = first if lone in first.shapes else second
        return f"Only {owner.name} has the optional input '{lone}'."
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
    """Return why the batch of `first` left without `second`, for which it had room."""
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
