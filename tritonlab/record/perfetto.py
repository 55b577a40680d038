"""Records in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing show.

A model is shown as a process, each of its instances as a lane with the executions; requests and streams are spans.
`server.trace` records every hook for a short time; this shows the permanent record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .model_record import ModelRecord

Event = dict[str, Any]
#: The lanes of a model that are not instances.
_REQUESTS, _MARKS, _FIRST_INSTANCE = 1, 2, 3


def trace_events(records: Sequence[ModelRecord]) -> list[Event]:
    """Return the names of processes and lanes first, then the events, sorted by time."""
    names: list[Event] = []
    events: list[Event] = []
    for pid, record in enumerate(records, 1):
        with record.lock:
            lanes = record.words.known("instance")
            names.append(_name("process_name", pid, 0, record.name))
            names += [_name("thread_name", pid, _REQUESTS, "requests"), _name("thread_name", pid, _MARKS, "marks")]
            names += [_name("thread_name", pid, _FIRST_INSTANCE + n, lane) for n, lane in enumerate(lanes)]
            events += [{**event, "pid": pid} for event in (*_batches(record), *_requests(record), *_streams(record))]
            events += [
                {
                    "ph": "i",
                    "s": "t",
                    "name": mark.kind,
                    "ts": mark.time / 1000,
                    "tid": _MARKS,
                    "pid": pid,
                    "args": {"text": mark.text},
                }
                for mark in record.marks
            ]
    return names + sorted(events, key=lambda event: float(event["ts"]))


def _batches(record: ModelRecord) -> Iterator[Event]:
    for batch in record.batches.dicts():
        lane = _FIRST_INSTANCE + int(batch["instance"])
        reason = record.words.word("reason", batch["reason"])
        args = {"size": int(batch["size"]), "requests": int(batch["count"]), "closed": reason}
        name = f"{int(batch['size'])} · {reason}" if reason else f"{int(batch['size'])}"
        yield _slice(lane, name, ns=batch["start"], took=batch["end"] - batch["start"], args=args)
        begin = batch["start"]
        for part in ("compute_input", "compute_infer", "compute_output"):
            if batch[part]:
                yield _slice(lane, name=part.removeprefix("compute_"), ns=begin, took=batch[part], args={})
            begin += batch[part]


def _requests(record: ModelRecord) -> Iterator[Event]:
    ids = dict(record.ids_since(0))
    first, batches = record.batches.dropped, record.batches.by_column()
    for number, request in enumerate(record.requests.dicts(), record.requests.dropped):
        index = int(request["batch"]) - first
        if index < 0:
            continue  # its batch is no longer kept
        name = ids.get(number) or f"request {int(request['serial'])}"
        ident = {"cat": "request", "id": int(request["serial"]), "tid": _REQUESTS}
        start, end = batches["start"][index], batches["end"][index]
        for title, begin, stop in ((name, request["arrived"], end), ("queue", request["queued"], start)):
            yield {"ph": "b", "name": title, "ts": begin / 1000, **ident}
            yield {"ph": "e", "name": title, "ts": float(stop) / 1000, **ident}


def _streams(record: ModelRecord) -> Iterator[Event]:
    for response in record.responses.dicts():
        final = "final response" if int(response["kind"]) & 1 else "response"
        ident = {"cat": "request", "id": int(response["serial"]), "tid": _REQUESTS}
        yield {"ph": "n", "name": final, "ts": response["time"] / 1000, **ident}


def _slice(lane: int, name: str, ns: float, took: float, args: dict[str, Any]) -> Event:
    return {"ph": "X", "cat": "execute", "name": name, "ts": ns / 1000, "dur": took / 1000, "tid": lane, "args": args}


def _name(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
