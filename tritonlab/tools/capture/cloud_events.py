"""The requests in files of CloudEvents, which the logger of KServe sends: an event for a request, one for its answer.

The events of a file are JSON, one after the other, one a line, or a list (structured, `data` or `data_base64`); records
of KServe's store for blobs; or HTTP messages as a sink got them (binary: headers `ce-...`, then the body).
"""

from __future__ import annotations

import base64
import datetime
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, parse_headers
from pathlib import Path
from typing import Any

from ...core.foreign_file import open_file
from ...core.status import TritonError
from ...exchanges.exchange import Arrival, Exchange
from ...exchanges.http_document import read_response
from ...frontends.http.infer_decoder import InferDecoder
from ...frontends.shared.shared_memory_manager import SharedMemoryManager
from ...ipc.processes.out_of_memory import memory_left
from .capture_file import CapturedRequest

NOT_V2 = "not a request of KServe's protocol, version 2"
IN_SHARED_MEMORY = "its inputs were in its client's shared memory, which is not in the event"
NO_REQUEST = "an answer without its request"
NO_ANSWER = "the events have no answer of it: it failed, or its event was lost"
UNREADABLE_ANSWER = "its answer cannot be read: it is not of KServe's protocol, version 2"
#: The ends of the types of events: `org.kubeflow.serving.inference.request`, `io.seldon.serving.inference.response`.
_KIND = re.compile(r"inference\.?(request|response)$")
_HEAD_LENGTH = "inference-header-content-length"
#: The errors of values that no event, request or answer has.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
_FRACTION = re.compile(r"\.(\d+)")


@dataclass(frozen=True)
class _LoggedBody:
    """A request or an answer of an event, with the body as it was sent. `at_ns`: since 1970, 0 if unknown."""

    ident: str
    is_request: bool
    body: bytes
    at_ns: int
    service: str
    metadata: Mapping[str, Any]


def read_events(path: str | Path) -> Iterator[CapturedRequest | str]:
    """Yield the requests of a file of events, in the order of their answers, then those without one; and a reason for
    each event that gives none. `at_ns` is the time of the request's event since 1970. Raises OSError, and ValueError
    for a file without such events."""
    with open_file(path) as file:
        data = file.read(most := memory_left() // 4)
        if file.read(1):
            raise ValueError(f"{path} has more than the {most:,} bytes that there is memory for: split it")
    try:
        events = list(_events(data))
    except (*_DAMAGE, HTTPException) as error:
        raise ValueError(f"{path} is not a file of CloudEvents: {type(error).__name__}: {error}") from None
    if not events:
        raise ValueError(f"{path} has no events of inference requests or responses")
    return _pairs(events)


def _pairs(events: Iterable[_LoggedBody]) -> Iterator[CapturedRequest | str]:
    waiting: dict[str, list[_LoggedBody]] = {}
    answers: dict[str, list[_LoggedBody]] = {}  # each event is sent by itself, so an answer may come first
    for event in events:
        mine, others = (waiting, answers) if event.is_request else (answers, waiting)
        if found := others.get(event.ident):
            other = found.pop(0)
            yield _captured(*((event, other) if event.is_request else (other, event)))
        else:
            mine.setdefault(event.ident, []).append(event)
    for left in waiting.values():
        for each in left:
            yield _captured(each, None)
    for left in answers.values():
        yield from [NO_REQUEST] * len(left)


def _captured(sent: _LoggedBody, answer: _LoggedBody | None) -> CapturedRequest | str:
    response, unanswered = None, NO_ANSWER
    if answer is not None:
        try:
            response = read_response(answer.body, _head_length(answer))
        except (*_DAMAGE, TritonError):
            unanswered = UNREADABLE_ANSWER
    model = (response.model_name if response is not None else "") or sent.service
    decoder = InferDecoder(SharedMemoryManager(), len(sent.body))
    head = None
    try:
        head = _head_length(sent)
        request, _ = decoder.decode(sent.body, head or len(sent.body), model, -1)
    except (*_DAMAGE, TritonError) as error:
        text = sent.body[:head].decode(errors="replace")
        is_shared = isinstance(error, TritonError) and "shared_memory_region" in text
        return IN_SHARED_MEMORY if is_shared else NOT_V2
    took = max(answer.at_ns - sent.at_ns, 0) if answer is not None and sent.at_ns else 0
    arrivals: tuple[Arrival, ...] = ()
    if response is not None:
        response.model_name = response.model_name or model
        arrivals = (Arrival(response, took),)
    exchange = Exchange(request, arrivals, unanswered="" if arrivals else unanswered)
    return CapturedRequest(exchange, sent.at_ns, "http")


def _head_length(event: _LoggedBody) -> int | None:
    """Return the length of the JSON of a body if tensors follow it. The logger leaves out the header with the length,
    unless the service's `metadataHeaders` name it."""
    for name, values in event.metadata.items():
        if name.lower() == _HEAD_LENGTH:
            return int(values[0] if isinstance(values, list) else values)
    try:
        _, end = json.JSONDecoder().raw_decode(event.body.decode("latin-1"))  # a character is a byte
    except (ValueError, RecursionError):
        return None
    return end if event.body[end:].strip() else None


# -- the forms of events


def _events(data: bytes) -> Iterator[_LoggedBody]:
    if data.lstrip()[:1] in (b"{", b"["):
        text = data.decode()
        decoder, at = json.JSONDecoder(), 0
        while at < len(text):
            if text[at] in " \t\r\n,":
                at += 1
                continue
            document, at = decoder.raw_decode(text, at)
            for each in document if isinstance(document, list) else [document]:
                yield from _of_record(each) if "ReqType" in each else _of_event(each)
    else:
        yield from _of_messages(io.BytesIO(data))


def _of_event(event: Mapping[str, Any]) -> Iterator[_LoggedBody]:
    if "data_base64" in event:
        body = base64.b64decode(event["data_base64"])
    else:
        data = event.get("data", "")
        body = data.encode() if isinstance(data, str) else json.dumps(data).encode()
    yield from _logged(event, event["type"], body)


def _logged(attributes: Mapping[str, Any], kind: str, body: bytes) -> Iterator[_LoggedBody]:
    """Yield the body of an event with these attributes, if it is of a request or an answer."""
    if found := _KIND.search(kind):
        metadata = json.loads(attributes.get("metadata") or "{}") or {}
        service = str(attributes.get("inferenceservicename") or "")
        moment = _nanoseconds(str(attributes.get("time") or ""))
        yield _LoggedBody(str(attributes["id"]), found[1] == "request", body, moment, service, metadata)


def _of_record(record: Mapping[str, Any]) -> Iterator[_LoggedBody]:
    """Yield the body of a record of KServe's store for blobs, which has no time."""
    attributes = {"id": record["Id"], "inferenceservicename": record.get("InferenceService")}
    for each in _logged(attributes, record["ReqType"], base64.b64decode(record.get("Bytes") or "")):
        yield _LoggedBody(each.ident, each.is_request, each.body, 0, each.service, record.get("Metadata") or {})


def _of_messages(file: io.BytesIO) -> Iterator[_LoggedBody]:
    """Yield the bodies of HTTP messages with the attributes of events in their headers, or with whole events."""
    while line := file.readline():
        if not line.strip():
            continue
        if b" HTTP/" not in line:  # the headers alone
            file.seek(-len(line), io.SEEK_CUR)
        headers = parse_headers(file)
        length = headers.get("content-length")
        if length is None:
            raise ValueError("a message without Content-Length")
        body = file.read(int(length))
        if len(body) != int(length):
            return  # the file is cut off
        attributes = {name.lower()[3:]: value for name, value in headers.items() if name.lower()[:3] in ("ce-", "ce_")}
        if "type" in attributes:
            yield from _logged(attributes, attributes["type"], body)
        elif "cloudevents" in headers.get("content-type", ""):
            yield from _events(body)


def _nanoseconds(text: str) -> int:
    """Return a time of RFC 3339 in nanoseconds since 1970; 0 for another text."""
    fraction = _FRACTION.search(text)
    try:
        moment = datetime.datetime.fromisoformat(_FRACTION.sub("", text).replace("Z", "+00:00"))
    except ValueError:
        return 0
    digits = fraction[1][:9].ljust(9, "0") if fraction else "0"
    return int(moment.timestamp()) * 10**9 + int(digits)
