"""The call tree of a recorded request: the steps of an ensemble, and the calls that the model made while the request
executed (BLS).

Triton does not relate a BLS call to one request of a batch, and neither does the record: a call belongs to all requests
of its execution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .model_record import ModelRecord
from .recording import Recording

#: The most calls of a tree; it has the number of those left out.
CALLS = 200
_DEPTH = 12
#: How many of the last facts of each model are searched for a request that has just ended.
RECENT = 5_000


@dataclass
class Call:
    """A request and the requests made for it. Times are nanoseconds of the server's clock.

    `step`: its number if an ensemble made it, else -1. `batch`: the number of its execution on `instance`; `count` and
    `size`: the number of requests in that execution, and their batch size together. `inputs`: name, datatype ("" if
    unknown) and shape. `failure`: the error of its client, "" if it has not failed. `left_out`: calls too many to
    list.
    """

    model: str
    row: int
    serial: int
    name: str
    step: int
    instance: str
    version: int
    batch: int
    count: int
    size: int
    reason: str
    arrived: float
    queued: float
    start: float
    end: float
    failure: str
    inputs: list[tuple[str, str, tuple[int, ...]]]
    calls: list[Call] = field(default_factory=list)
    left_out: int = 0

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Call]]:
        """Yield this request and all calls below it, each with its depth."""
        yield depth, self
        for call in self.calls:
            yield from call.walk(depth + 1)


def call_tree(recording: Recording, model: str, row: int, recent: bool = False) -> Call | None:
    """Return the request of a row of a model's record, with its calls; None if it is no longer kept. With `recent`
    search only the last facts of each model, which is enough for a request that has just ended.
    """
    root = _call(recording.model(model), row)
    if root is not None:
        _Search(recording, RECENT if recent else 0).add_calls(root)
    return root


class _Search:
    """A search for the calls of requests. It reads the records once, so that all calls are of the same moment."""

    def __init__(self, recording: Recording, recent: int) -> None:
        self._room = CALLS
        self._facts: list[tuple[ModelRecord, NDArray[np.float64]]] = []
        for record in list(recording.records.values()):
            with record.lock:
                first = max(record.extras.total - recent, 0) if recent else 0
                self._facts.append((record, record.extras.rows(first)))

    def add_calls(self, call: Call, depth: int = 0) -> None:
        found = [made for record, facts in self._facts for made in self._made_for(call, record, facts)]
        found.sort(key=lambda made: (made.arrived, made.serial))
        retained = found[: self._room] if depth < _DEPTH else []
        self._room -= len(retained)
        call.calls, call.left_out = retained, len(found) - len(retained)
        for made in retained:
            self.add_calls(made, depth + 1)

    @staticmethod
    def _made_for(call: Call, record: ModelRecord, facts: NDArray[np.float64]) -> Iterator[Call]:
        rows, _, _, parent, caller, batch, steps, _ = facts.T
        chosen = parent == call.serial
        number = record.words.known("instance").get(call.instance)
        if number is not None:
            chosen |= (caller == number) & (batch == call.batch)
        for row, step in zip(rows[chosen].tolist(), steps[chosen].tolist(), strict=True):
            made = _call(record, int(row), int(step))
            # executions are counted from 0 when a model is loaded again
            if made is not None and call.arrived <= made.arrived and (made.step >= 0 or made.arrived <= call.end):
                yield made


def rare_facts(recording: Recording, model: str, row: int) -> str:
    """Return the rarer facts of a request in words: a sequence, a priority, and its caller if that is not a client."""
    record = recording.model(model)
    with record.lock:
        extras = record.extras.rows()
        found = extras[extras[:, 0] == row]
        if not len(found):
            return ""
        _, priority, sequence, parent, caller, batch, step, timeout = map(int, found[0])
        instance = record.words.word("instance", caller)
        correlation_id = sequence if sequence >= 0 else record.words.word("sequence", -1 - sequence)
    words = [f"of sequence {correlation_id}"] if correlation_id else []
    words += [f"priority {priority}"] if priority else []
    words += [f"timeout {timeout:,} µs"] if timeout else []
    if parent >= 0:
        words.append(f"step {step} of request {parent} of an ensemble" if step >= 0 else f"part of request {parent}")
    if caller >= 0:
        words.append(f"called by {instance} in its execution {batch}")
    return ", ".join(words)


def _call(record: ModelRecord, row: int, step: int = -1) -> Call | None:
    with record.lock:
        request = record.requests.row(row)
        batch = record.batches.row(int(request["batch"])) if request is not None else None
        if request is None or batch is None:
            return None
        word, serial, name = record.words.word, int(request["serial"]), record.name_of(row)
        instance, reason = word("instance", batch["instance"]), word("reason", batch["reason"])
        shapes = word("shapes", request["shapes"])
        failure = next((mark.text for mark in reversed(record.marks) if mark.serial == serial), "")
    return Call(
        model=record.name,
        row=row,
        serial=serial,
        name=name,
        step=step,
        instance=instance,
        version=int(batch["version"]),
        batch=int(batch["batch_id"]),
        count=int(batch["count"]),
        size=int(batch["size"]),
        reason=reason,
        arrived=request["arrived"],
        queued=request["queued"],
        start=batch["start"],
        end=batch["end"],
        failure=failure or ("failed" if batch["failed"] else ""),
        inputs=[(name, record.datatypes.get(name, ""), tuple(shape)) for name, shape in shapes],
    )
