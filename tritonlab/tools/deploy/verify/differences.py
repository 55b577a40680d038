"""The differences between two answers to one request, and between two documents: place, weight, and both values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....core.status import Code
from ....exchanges.comparison import TensorDiff, compare, plain_error
from ....exchanges.exchange import Exchange
from ....exchanges.literal import floats
from ..releases import find

#: Symbols of a model's verdict, best first.
EQUAL, NEAR, TEXT, NOT_SENT, NOT_VERIFIED, DIFFERS, NOT_LOADED = "=", "~", "t", "0", "?", "D", "X"
WORDS = {
    EQUAL: "equal",
    NEAR: "equal within tolerance",
    TEXT: "an error is worded differently",
    NOT_SENT: "loaded; no request was sent",
    NOT_VERIFIED: "could not be verified",
    DIFFERS: "differs",
    NOT_LOADED: "does not load",
}
ORDER = tuple(WORDS)

#: Up to these releases the words of an error may differ, or its HTTP status may be 400 instead of another one.
_OTHER_WORDS_UNTIL = "2.46"
_STATUS_400_UNTIL = "2.41"
_STATUS_400_FOR = {Code.INTERNAL, Code.NOT_FOUND, Code.UNSUPPORTED}


@dataclass(frozen=True)
class Difference:
    """One difference. `symbol`: its weight; `known`: why every model has it on this release; `is_value`: whether only
    values differ."""

    symbol: str
    where: str
    text: str
    known: str = ""
    is_value: bool = False

    @property
    def is_serious(self) -> bool:
        """Return whether it stops a model from passing."""
        return self.symbol != NEAR and not self.known

    def to_dict(self) -> dict[str, Any]:
        return {"symbol": self.symbol, "where": self.where, "text": self.text, "known": self.known}

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" + (f" ({self.known})" if self.known else "")


def document_differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, ours, theirs) for each difference of two documents. A field with its default value that only one of
    them has is not a difference: the other release lacks the field."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in dict.fromkeys([*ours, *theirs]):
            yield from document_differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from document_differences(one, other, f"{path}[{number}]")
    elif ours != theirs and not (_is_default(ours) and _is_default(theirs) and None in (ours, theirs)):
        yield path, ours, theirs


def _is_default(value: Any) -> bool:
    return not value or (isinstance(value, Mapping) and all(_is_default(each) for each in value.values()))


def compare_exchanges(
    one: Exchange,
    other: Exchange,
    release: str,
    *,
    places: tuple[str, str] = ("", ""),
    names: tuple[str, str] = ("here", "there"),
) -> Iterator[Difference]:
    """Yield the differences between two outcomes of one request: status, error, and, byte by byte, the tensors of a
    stream, also those before its error. Their `where` is empty.

    Args:
        one: the outcome to compare with.
        other: the judged outcome.
        release: the release of Triton, as older ones word errors differently.
        places: the repositories of both, whose paths appear in tracebacks.
        names: words for the places of both.
    """
    errors = one.error, other.error
    texts = [plain_error(error, place) if error else "" for error, place in zip(errors, places, strict=True)]
    if (one.error is None) is not (other.error is None):
        found = [f"error: {text}" if error else "answers" for error, text in zip(errors, texts, strict=True)]
        yield Difference(DIFFERS, "", f"{names[0]}: {found[0]}; {names[1]}: {found[1]}")
        return
    if one.error is not None and other.error is not None and one.error.code is not other.error.code:
        is_400 = other.error.code is Code.INVALID_ARG and one.error.code in _STATUS_400_FOR
        known = is_400 and _is_until(release, _STATUS_400_UNTIL)
        why = f"Triton up to {_STATUS_400_UNTIL} answers HTTP 400 for 404, 500 and 501" if known else ""
        codes = f"{one.error.code.name} {names[0]}, {other.error.code.name} {names[1]}"
        yield Difference(DIFFERS, "", codes, why)
    if texts[0] != texts[1] and not texts[0].startswith(f"{texts[1]}\n"):
        known = _is_until(release, _OTHER_WORDS_UNTIL)
        why = f"Triton up to {_OTHER_WORDS_UNTIL} has other words" if known else ""
        yield Difference(TEXT, "", f"'{texts[0]}' {names[0]}, '{texts[1]}' {names[1]}", why)
    ones, others = one.answers(), other.answers()
    if len(ones) != len(others):
        yield Difference(DIFFERS, "", f"{len(ones)} responses {names[0]}, {len(others)} {names[1]}")
        return
    for diff in compare(one, other).tensors:
        if not diff.same:
            yield Difference(DIFFERS, "", _with_values(diff, names), is_value=True)
        elif diff.largest_absolute:
            yield Difference(NEAR, "", str(diff), is_value=True)
        elif not diff.exact:
            text = f"{diff}, but not byte for byte: a zero or NaN has another sign or payload"
            yield Difference(NEAR, "", text, is_value=True)


def _with_values(diff: TensorDiff, names: tuple[str, str]) -> str:
    """Return the difference in words, with both values."""
    if diff.problem or diff.first is None:
        return f"{diff} ({names[0]} | {names[1]})"
    first = [floats(tensor)[diff.first] for tensor in diff.tensors if tensor is not None]
    return f"{diff}: {first[0]} {names[0]}, {first[1]} {names[1]}"


def _is_until(release: str, last: str) -> bool:
    """Return whether a release is at most `last`; the release of a tritonserver on PATH is unknown."""
    return release[:1].isdigit() and find(release).order <= find(last).order
