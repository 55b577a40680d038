"""The rules of a capture: the choice of requests, and the parts of them that are not written as they are."""

from __future__ import annotations

import hashlib
import json
import math
import random
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from ...core.inference.data_type import DataType
from ...core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ...core.inference.tensor import Tensor
from ...core.status import TritonError
from ...exchanges.exchange import Arrival
from .capture_file import CapturedRequest, Withheld

#: The ways to redact a value: without it, its keyed digest, or only its datatype and shape.
WAYS = ("drop", "hash", "shape")
NOT_SAMPLED = "not in the sample"
OVER_RATE = "over the number per minute"
NOT_SOUGHT = "neither failed nor slow"
#: The reasons that are a choice of the rules; all others are losses.
CHOSEN = frozenset({NOT_SAMPLED, OVER_RATE, NOT_SOUGHT})
_MINUTE = 60 * 10**9
#: The most sequences whose choice is remembered.
_MOST_SEQUENCES = 100_000
#: The shortest redacted text that is sought in error texts, in bytes.
_SHORTEST = 4


@dataclass(frozen=True)
class CaptureRules:
    """The rules of one capture. Raises ValueError for a value that cannot be one.

    share: the share of the requests that is kept, more than 0 and at most 1; a sequence is kept whole or not at all
    per_minute: the most requests kept in a minute, 0 for no limit; the rest of a sequence is kept beyond it
    only_errors: whether only requests that failed are kept
    slower_than: keep only requests that took longer, in seconds; with `only_errors`, failed or slow ones
    most_bytes: the largest size of the file
    queue_bytes: the most memory for requests that are not written yet
    redact: by pattern of names, `drop`, `hash` or `shape`; the first pattern that matches counts. A pattern is for
        names of tensors and parameters, with a place before it (`input.`, `output.`, `parameter.`) only for those;
        `request_id`, `sequence_id` and `error` are names, too. Case does not matter
    key: the key of the digests; with a random one, the default, digests are comparable within one file only
    """

    share: float = 1.0
    per_minute: int = 0
    only_errors: bool = False
    slower_than: float | None = None
    most_bytes: int = 1 << 30
    queue_bytes: int = 64 << 20
    redact: Mapping[str, str] = field(default_factory=dict)
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share={self.share} is not a share: a number above 0, at most 1")
        if self.slower_than is not None and not 0 <= self.slower_than < math.inf:
            raise ValueError(f"slower_than={self.slower_than} is not a time in seconds")
        for name in ("per_minute", "most_bytes", "queue_bytes"):
            if getattr(self, name) < (name != "per_minute"):
                raise ValueError(f"{name}={getattr(self, name)} is not a number of {name.partition('_')[2]}")
        if not 0 < len(self.key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(f"a key of {len(self.key)} bytes is not one: it has 1 to {hashlib.blake2b.MAX_KEY_SIZE}")
        for pattern, way in self.redact.items():
            if way not in WAYS:
                raise ValueError(f"redact={{{pattern!r}: {way!r}}}: a value is redacted by {', '.join(WAYS)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as JSON values, without the key."""
        found = {name: value for name, value in vars(self).items() if name != "key"}
        return {**found, "redact": dict(self.redact)}


class Choice:
    """The choice of the requests that are kept. Not thread-safe.

    A source calls `at_arrival` before it copies anything, and the writer calls `at_end` with the answer.
    """

    def __init__(self, rules: CaptureRules) -> None:
        self._rules = rules
        self._seeks = rules.only_errors or rules.slower_than is not None
        self._sequences: dict[tuple[str, int | str], bool] = {}
        self._minute = self._count = 0
        self._random = random.Random()  # not that of the notebook

    def at_arrival(self, at_ns: int, request: InferenceRequest | None) -> str:
        """Return the reason for which a request is left out, empty if it is chosen. `request`: None for one that is of
        no sequence."""
        if request is None or not request.correlation_id:
            return self._reason(at_ns)
        sequence = request.model_name, request.correlation_id
        chosen = None if request.flags & SEQUENCE_START else self._sequences.get(sequence)
        reason = self._reason(at_ns) if chosen is None else "" if chosen else NOT_SAMPLED
        self._sequences.pop(sequence, None)  # so that the oldest one is first
        if not request.flags & SEQUENCE_END:
            self._sequences[sequence] = not reason
            if len(self._sequences) > _MOST_SEQUENCES:
                del self._sequences[next(iter(self._sequences))]
        return reason

    def at_end(self, captured: CapturedRequest) -> str:
        """Return the reason for which an answered request is left out, empty if it is kept."""
        if not self._seeks:
            return ""
        exchange, slower = captured.exchange, self._rules.slower_than
        is_error = self._rules.only_errors and (exchange.failed or any(one.error for one in exchange.responses))
        is_slow = slower is not None and exchange.total_ns > slower * 1e9
        return self._at_rate(captured.at_ns) if is_error or is_slow else NOT_SOUGHT

    def _reason(self, at_ns: int) -> str:
        if self._rules.share < 1 and self._random.random() >= self._rules.share:
            return NOT_SAMPLED
        return "" if self._seeks else self._at_rate(at_ns)

    def _at_rate(self, at_ns: int) -> str:
        if not self._rules.per_minute:
            return ""
        if (minute := at_ns // _MINUTE) > self._minute:
            self._minute, self._count = minute, 0
        self._count += 1
        return OVER_RATE if self._count > self._rules.per_minute else ""


class Redaction:
    """The redaction of captured requests by the rules. `unmatched`: the patterns that have matched nothing so far."""

    def __init__(self, rules: CaptureRules) -> None:
        self._rules = {pattern: (pattern.lower(), way) for pattern, way in rules.redact.items()}
        self._key = rules.key
        self.unmatched = dict.fromkeys(self._rules)

    def way(self, kind: str, name: str) -> str:
        """Return the way in which a value is redacted, empty if it is kept. `kind`: `input`, `output`, `parameter`, or
        empty for `request_id`, `sequence_id` and `error`."""
        name = name.lower()
        for pattern, (lower, way) in self._rules.items():
            if fnmatchcase(name, lower) or (kind and fnmatchcase(f"{kind}.{name}", lower)):
                self.unmatched.pop(pattern, None)
                return way
        return ""

    def apply(self, captured: CapturedRequest) -> CapturedRequest:
        """Return the request without the redacted values. An input without its bytes makes it unsendable."""
        if not self._rules:
            return captured
        exchange, request, withheld = captured.exchange, captured.exchange.request, dict(captured.withheld)
        settings = request.settings()
        inputs = self._tensors(request.inputs, "input", "input.", withheld)
        settings["parameters"] = self._parameters(request.parameters or {}, "parameter.", withheld) or None
        for name, value in (("request_id", request.request_id), ("sequence_id", request.correlation_id)):
            if value and (way := self.way("", name)):
                withheld[name] = self._withheld(way, _utf8(str(value)))
                setting = "correlation_id" if name == "sequence_id" else name
                settings[setting] = withheld[name].how if way == "hash" else type(value)()
        hidden = [place for place, each in withheld.items() if place.startswith("input.") and each.how != "inexact"]
        unsent = f"the capture withholds its input '{hidden[0].removeprefix('input.')}'" if hidden else ""
        responses = []
        for number, response in enumerate(exchange.responses):
            outputs = self._tensors(response.outputs, "output", f"output.{number}.", withheld)
            parameters = self._parameters(response.parameters, f"response.{number}.", withheld)
            ident = settings["request_id"]
            responses.append(replace(response, outputs=outputs, parameters=parameters, request_id=ident))
        if exchange.failed or any(response.error for response in responses):
            quoted = _texts(captured, withheld)
            responses = [replace(each, error=self._error(each.error, withheld, quoted)) for each in responses]
            exchange = replace(exchange, error=self._error(exchange.error, withheld, quoted))
        changed = replace(
            exchange,
            request=InferenceRequest(request.model_name, inputs, model_version=request.model_version, **settings),
            arrivals=tuple(map(Arrival, responses, [arrival.after_ns for arrival in exchange.arrivals])),
            unsent=_without_error(exchange.unsent) or unsent,
            unanswered=_without_error(exchange.unanswered),
        )
        return replace(captured, exchange=changed, withheld=withheld)

    def _tensors(
        self, tensors: Mapping[str, Tensor], kind: str, prefix: str, withheld: dict[str, Withheld]
    ) -> dict[str, Tensor]:
        kept = {}
        for name, tensor in tensors.items():
            if way := self.way(kind, name):
                data = tensor.to_host().data.tobytes() if way == "hash" else b""
                withheld[prefix + name] = self._withheld(way, data, tensor.datatype.name, tensor.shape)
            else:
                kept[name] = tensor
        return kept

    def _parameters(self, values: Mapping[str, Any], prefix: str, withheld: dict[str, Withheld]) -> dict[str, Any]:
        kept = {}
        for name, value in values.items():
            if way := self.way("parameter", name):
                withheld[prefix + name] = self._withheld(way, json.dumps(value).encode())
            else:
                kept[name] = value
        return kept

    def _withheld(self, way: str, data: bytes, datatype: str = "", shape: tuple[int, ...] = ()) -> Withheld:
        if way == "drop":
            return Withheld("dropped")
        if way == "shape":
            return Withheld("shape", datatype, shape)
        digest = hashlib.blake2b(f"{datatype}{list(shape)}".encode() + data, key=self._key, digest_size=16)
        return Withheld(f"hash:{digest.hexdigest()}", datatype, shape)

    def _error(
        self, error: TritonError | None, withheld: dict[str, Withheld], quoted: Iterable[bytes]
    ) -> TritonError | None:
        """Return the error without the redacted texts that it quotes word for word, or without its text."""
        if error is None:
            return None
        text = _utf8(error.message)
        if way := self.way("", "error"):
            withheld["error"] = self._withheld(way, text)
            return TritonError.from_code(error.code, f"({withheld['error'].how})")
        for each in quoted:
            text = text.replace(each, b"(withheld)")
        return TritonError.from_code(error.code, text.decode(errors="surrogatepass"))


def _texts(captured: CapturedRequest, withheld: Mapping[str, Withheld]) -> list[bytes]:
    """Return the redacted texts of a request and its responses that an error may quote, the longest first."""
    request, found = captured.exchange.request, [b""]
    places: dict[str, Any] = {"request_id": request.request_id, "sequence_id": request.correlation_id}
    places |= {f"parameter.{name}": value for name, value in (request.parameters or {}).items()}
    places |= {f"input.{name}": tensor for name, tensor in request.inputs.items()}
    for number, response in enumerate(captured.exchange.responses):
        places |= {f"response.{number}.{name}": value for name, value in response.parameters.items()}
        places |= {f"output.{number}.{name}": tensor for name, tensor in response.outputs.items()}
    for value in (places[place] for place in withheld if place in places):
        if not isinstance(value, Tensor):
            found.append(_utf8(str(value)))
        elif value.datatype is DataType.BYTES:
            found += _elements(value.to_host().data.tobytes())
    return sorted({each for each in found if len(each) >= _SHORTEST}, key=len, reverse=True)


def _without_error(reason: str) -> str:
    """Return a reason without the text of an error after it, which may quote the request."""
    return reason.partition(": ")[0]


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _elements(data: bytes) -> Iterator[bytes]:
    """Yield the elements of a BYTES tensor's wire form; a cut-off one as far as it goes."""
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        yield data[at + 4 : end]
        at = end
