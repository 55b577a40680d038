"""The comparison of two answers to one request: datatypes, shapes, values, errors, and where the time went."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.inference.data_type import DataType
from ..core.inference.tensor import Tensor
from ..core.plain_facts import few_lines, plain
from ..core.status import TritonError
from .exchange import Exchange
from .literal import floats

#: Returns how far each element of an output of floats may differ from the other answer's and count as the same, by the
#: name and the datatype of the output and both arrays as FP64.
Allowed = Callable[[str, DataType, NDArray[Any], NDArray[Any]], NDArray[Any]]

#: (relative, absolute) tolerance of values that count as the same; other datatypes have to be equal.
_TOLERANCE = {
    DataType.FP64: (1e-9, 1e-12),
    DataType.FP32: (1e-5, 1e-7),
    DataType.FP16: (1e-2, 1e-4),
    DataType.BF16: (1e-2, 1e-4),
}

#: The names of the given inputs, which Triton lists in the order of a hash table.
_NAMES = re.compile(r"(Got input\(s\) )\[('[^\]]*')\]")
#: The instance that executed the request, out of several.
_INSTANCE = re.compile(r"(model (?:instance )?'[^']*?)_\d+(?:_\d+)?'")
#: The most letters of a BYTES element in a text.
_LETTERS = 60


def tolerance(datatype: DataType) -> tuple[float, float]:
    """Return the (relative, absolute) tolerance for equal values; zeros for datatypes that are not floats."""
    return _TOLERANCE.get(datatype, (0.0, 0.0))


def allow_tolerance(name: str, datatype: DataType, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return the largest difference that each element may have from the element of `other`: the tolerance of the
    datatype, whatever the `name` of the output. If all values are below 1, the absolute part shrinks with the largest
    of them, so that 1e-9 and 7e-9 are not the same.
    """
    relative, _ = tolerance(datatype)
    absolute = max(absolute_tolerance(datatype, each) for each in (one, other))
    allowed: NDArray[Any] = absolute + relative * np.abs(other)
    return allowed


def absolute_tolerance(datatype: DataType, values: NDArray[Any]) -> float:
    """Return the absolute part of the tolerance of these values: of the largest one, if all are below 1."""
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return tolerance(datatype)[1] * min(largest, 1.0)


@dataclass(frozen=True)
class TensorDiff:
    """The comparison of one output of one response.

    kind: of the difference: `outputs` (only one answer has the output), `datatype`, `shape` or `value`; empty if equal
    problem: a difference besides values, or one that numbers do not describe
    first: the index of the first differing element
    exact: whether all bits are equal
    """

    response: int
    name: str
    kind: str = ""
    problem: str = ""
    largest_absolute: float = 0.0
    largest_relative: float = 0.0
    first: tuple[int, ...] | None = None
    exact: bool = False
    tensors: tuple[Tensor | None, Tensor | None] = field(default=(None, None), repr=False, compare=False)

    @property
    def same(self) -> bool:
        return not self.kind

    @property
    def sides(self) -> tuple[str, str]:
        """The difference on each side in words: the first differing values, both datatypes or both shapes."""
        return self._side(self.tensors[0]), self._side(self.tensors[1])

    def _side(self, tensor: Tensor | None) -> str:
        if tensor is None or self.kind == "outputs":
            return "missing" if tensor is None else "there"
        if self.kind == "value" and self.first is not None:
            return value_text(tensor, self.first)
        return tensor.datatype.name if self.kind == "datatype" else str(list(tensor.shape))

    def to_dict(self) -> dict[str, Any]:
        names = ("response", "name", "same", "problem", "largest_absolute", "largest_relative", "first")
        return {name: plain(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        where = f"{self.name} of response {self.response + 1}" if self.response else self.name
        if self.problem:
            return f"{where}: {self.problem}"
        largest = f"largest difference {self.largest_absolute:.3g} ({self.largest_relative:.2g} relative)"
        if self.same:
            return f"{where}: the same within tolerance, {largest}" if self.largest_absolute else f"{where}: equal"
        return f"{where}: differs, {largest}, first at {list(self.first or ())}"


@dataclass(frozen=True)
class Comparison:
    """The comparison of the answers of two servers to one request. `errors`: the errors of both, if they differ."""

    outcomes: tuple[Exchange, Exchange]
    tensors: tuple[TensorDiff, ...]
    errors: tuple[str, str] | None = None
    counts: tuple[int, int] | None = None

    @property
    def same(self) -> bool:
        return self.errors is None and self.counts is None and all(diff.same for diff in self.tensors)

    def lines(self) -> list[str]:
        """Return the verdict, and the lines that explain it."""
        found = ["the same" if self.same else "different"]
        if self.errors is not None:
            found += [f"errors: {self.errors[0] or 'none'} | {self.errors[1] or 'none'}"]
        if self.counts is not None:
            found += [f"responses: {self.counts[0]} | {self.counts[1]}"]
        return found + [str(diff) for diff in self.tensors]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        found = {"same": self.same, "errors": self.errors, "responses": self.counts}
        return {**found, "tensors": [diff.to_dict() for diff in self.tensors]}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return few_lines(str(self))


def compare(one: Exchange, other: Exchange) -> Comparison:
    """Compare the answers of two exchanges, and their errors."""
    ones, others = ([response.outputs for response in each.answers()] for each in (one, other))
    errors, counts = (one.error_text, other.error_text), (len(ones), len(others))
    return Comparison(
        (one, other),
        tuple(compare_outputs(ones, others)),
        errors if errors[0] != errors[1] else None,
        counts if counts[0] != counts[1] else None,
    )


def compare_outputs(
    ones: Sequence[Mapping[str, Tensor]],
    others: Sequence[Mapping[str, Tensor]],
    allowed: Allowed = allow_tolerance,
) -> Iterator[TensorDiff]:
    """Compare the outputs of responses one by one, as many responses as both have."""
    for number, (one, other) in enumerate(zip(ones, others, strict=False)):
        for name in dict.fromkeys([*one, *other]):
            both = one.get(name), other.get(name)
            yield TensorDiff(number, name, **_differences(name, *both, allowed), tensors=both)


def _differences(name: str, one: Tensor | None, other: Tensor | None, allowed: Allowed) -> dict[str, Any]:
    """Return the fields of a TensorDiff."""
    if one is None or other is None:
        return {"kind": "outputs", "problem": f"only in the {'first' if other is None else 'second'} answer"}
    if one.datatype is not other.datatype:
        return {"kind": "datatype", "problem": f"datatype {one.datatype.name} | {other.datatype.name}"}
    if one.shape != other.shape:
        return {"kind": "shape", "problem": f"shape {list(one.shape)} | {list(other.shape)}"}
    if one.data.tobytes() == other.data.tobytes():
        return {"exact": True}
    if one.datatype is DataType.BYTES:
        return _byte_differences(one, other)
    return _number_differences(name, one.datatype, floats(one), floats(other), allowed)


def _byte_differences(one: Tensor, other: Tensor) -> dict[str, Any]:
    try:
        ones, others = one.numpy(), other.numpy()
    except ValueError:  # a server has sent them so
        return {"kind": "value", "problem": "its bytes are no elements of BYTES"}
    first = next(index for index in np.ndindex(ones.shape) if ones[index] != others[index])
    return {"kind": "value", "problem": f"{_cut(ones[first])} | {_cut(others[first])} at {list(first)}", "first": first}


def _cut(element: Any) -> str:
    return repr(element if len(element) <= 40 else element[:40] + b"...")


def _number_differences(
    name: str, datatype: DataType, one: NDArray[Any], other: NDArray[Any], allowed: Allowed
) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        distance, different = _distance(one, other), ~equal_elements(one, other)
        wide, other_wide = one.astype(np.float64), other.astype(np.float64)
        bad = different
        if one.dtype.kind == "f":
            # a part of infinity is infinity: without the first condition every value would be near infinity
            bad = different & ~(np.isfinite(distance) & (distance <= allowed(name, datatype, wide, other_wide)))
        apart, bound = distance[different], np.abs(other_wide)[different]
        relatives = apart / np.where(bound > 0, bound, np.nan)
    return {
        "kind": "value" if bad.any() else "",
        "largest_absolute": _largest(apart),
        "largest_relative": _largest(relatives),
        "first": tuple(int(position) for position in np.argwhere(bad)[0]) if bad.any() else None,
    }


def value_text(tensor: Tensor, index: tuple[int, ...]) -> str:
    """Return one element in the form in which a person writes it."""
    if tensor.datatype is DataType.BYTES:
        value = bytes(tensor.numpy()[index])
        try:
            text = repr(value.decode())
        except UnicodeDecodeError:
            text = repr(value)
        return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"
    found = floats(tensor)[index]
    return str(found) if found.dtype.kind == "f" else str(found.item())


def is_reordered(ones: Sequence[Mapping[str, Tensor]], others: Sequence[Mapping[str, Tensor]]) -> bool:
    """Return whether two answers have the same responses in another order."""
    first, second = ([_content(outputs) for outputs in answer] for answer in (ones, others))
    return first != second and sorted(first) == sorted(second)


def _content(outputs: Mapping[str, Tensor]) -> list[tuple[str, str, bytes]]:
    return sorted((name, str(one.shape), one.data.tobytes()) for name, one in outputs.items())


def plain_error(error: TritonError, place: str = "") -> str:
    """Return the text of an error without the parts that depend on the server: its repository, which is at `place`, the
    number of the instance, and the order of the inputs."""
    text = error.message.strip()
    text = text.replace(place, "<repository>") if place else text
    text = _INSTANCE.sub(r"\1'", text)
    return _NAMES.sub(lambda found: f"{found[1]}{sorted(found[2].split(','))}", text)


def equal_elements(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which elements are equal; NaN equals NaN."""
    equal: NDArray[np.bool_] = (one == other) | ((one != one) & (other != other))
    return equal


def _distance(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return the distances of elements as FP64; integers are subtracted as integers, because FP64 rounds them."""
    if one.dtype.kind in "iu":
        whole: NDArray[Any] = np.maximum(one, other).astype(np.uint64) - np.minimum(one, other).astype(np.uint64)
        return whole.astype(np.float64)
    return np.abs(one.astype(np.float64) - other.astype(np.float64))


def _largest(values: NDArray[Any]) -> float:
    finite = values[~np.isnan(values)]
    return float(finite.max()) if finite.size else (float("inf") if values.size else 0.0)
