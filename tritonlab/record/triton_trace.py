"""Triton's own trace file (`--trace-config mode=triton`) read as a recording, so that views can show production.

The file has each request's times and nothing about batches or instances. Requests of a model with equal execution times
were one batch; simultaneous executions were on different instances, which get names here.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.foreign_file import open_file
from .model_record import ModelRecord
from .recording import Recording, RecordingError

_COMPUTE = ("COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END")


@dataclass
class _Traced:
    ident: int
    model: str = ""
    version: int = -1
    request_id: str = ""
    parent: int = -1
    stamps: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)


def read_trace(*paths: str | Path) -> Recording:
    """Return the recording of a trace file, or of several of one server (with log-frequency it writes many). Raises
    OSError, and RecordingError for a file that is not a trace.
    """
    found: dict[int, _Traced] = {}
    for path in paths:
        with open_file(path) as file:
            text = file.read().decode(errors="replace")  # the text of a BYTES tensor need not be UTF-8
        entries, faults = _entries(text)
        count = len(entries) + len(faults)
        for entry in entries:
            try:
                _add(found, entry)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                faults.append(error)
        if not text or (faults and len(faults) == count):
            why = f": {_describe(faults[0])}" if faults else ", but empty"
            raise RecordingError(f"{path} is not a trace file of Triton{why}")
        if faults:
            text = f"{len(faults)} of {count} entries cannot be read and were left out ({_describe(faults[0])})"
            warnings.warn(f"{path}: {text}", stacklevel=2)
    return _recording(traced for traced in found.values() if traced.model)


def _entries(text: str) -> tuple[list[Any], list[Exception]]:
    """Return the entries of a trace file, and the errors of entries that are not JSON: Triton does not escape the
    quotes in the text of a BYTES tensor."""
    try:
        found = json.loads(text)
        return (found, []) if type(found) is list else ([], [ValueError("it has no list of entries")])
    except (ValueError, RecursionError) as error:
        entries: list[Any] = []
        faults: list[Exception] = []
        for part in text.split('{"id":')[1:]:
            try:
                entries.append(json.loads('{"id":' + part.rstrip(",] \n")))
            except (ValueError, RecursionError) as fault:
                faults.append(fault)
        return entries, [error, *faults[1:]] if faults or not entries else []


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _recording(traces: Iterable[_Traced]) -> Recording:
    recording = Recording()
    recording.wall = 0  # Triton's clock; the file has no wall clock time
    models: dict[str, list[_Traced]] = {}
    for traced in traces:
        models.setdefault(traced.model, []).append(traced)
    for name, found in models.items():
        recording.events = max(recording.events, len(found))  # a file is shown whole
        _record(recording.model(name), found)
    return recording


def _add(found: dict[int, _Traced], entry: Any) -> None:
    """Add an entry to the traces; nothing of an entry with a value that cannot be read."""
    ident = _integer(entry["id"])
    traced = found.get(ident) or _Traced(ident)
    # the first execution of a rescheduled request
    stamps = {stamp["name"]: _integer(stamp["ns"]) for stamp in reversed(entry.get("timestamps", ()))}
    shapes = {}
    if entry.get("activity") == "TENSOR_QUEUE_INPUT":
        tensor = entry["tensor"]
        shapes[str(tensor["name"])] = tuple(_integer(n) for n in str(tensor["shape"]).split(",") if n)
    if "model_name" in entry:
        version, parent = _integer(entry.get("model_version", -1)), _integer(entry.get("parent_id", 0)) or -1
        traced.model, traced.version, traced.parent = str(entry["model_name"]), version, parent
        traced.request_id = str(entry.get("request_id", ""))
    traced.stamps = {**stamps, **traced.stamps}
    traced.shapes.update(shapes)
    found[ident] = traced


def _integer(value: Any) -> int:
    """Return a number that fits a column of a recording, and so does its difference from another number. Raises
    ValueError, TypeError, OverflowError."""
    number = int(value)
    if abs(number) >= 1 << 62:
        raise OverflowError(f"{value} has more than 62 bits")
    return number


def _record(record: ModelRecord, found: list[_Traced]) -> None:
    batches: dict[tuple[int, ...], list[_Traced]] = {}
    for traced in found:
        if all(name in traced.stamps for name in _COMPUTE):
            batches.setdefault(tuple(traced.stamps[name] for name in _COMPUTE), []).append(traced)
    lanes: list[int] = []  # when each instance is free
    for (start, input_end, output_start, end), requests in sorted(batches.items()):
        lane = next((n for n, free in enumerate(lanes) if free <= start), len(lanes))
        lanes[lane : lane + 1] = [end]
        requests.sort(key=_queue_start)
        first, number = record.requests.total, record.batches.total
        for traced in requests:
            if traced.request_id:
                record.ids.append((record.requests.total, traced.request_id))
            if traced.parent >= 0:
                record.extras.add((record.requests.total, 0, 0, traced.parent, -1, -1, -1, 0))
            shapes = record.words.number("shapes", tuple(traced.shapes.items()))
            arrived = traced.stamps.get("REQUEST_START", start)
            record.requests.add((traced.ident, arrived, _queue_start(traced), number, 1, shapes))
        where = record.words.number("instance", f"{record.name} #{lane + 1}")
        reason = record.words.number("reason", "")
        took = input_end - start, output_start - input_end, end - output_start
        count, version = len(requests), requests[0].version
        record.batches.add((start, end, where, 0, version, count, count, reason, *took, 0, first))


def _queue_start(traced: _Traced) -> int:
    return traced.stamps.get("QUEUE_START", traced.stamps["COMPUTE_START"])
