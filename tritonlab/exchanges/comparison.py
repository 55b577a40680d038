"""The comparison of two answers to one request: datatypes, shapes, values, errors, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.inference.data_type import DataType
from ..core.inference.infer_response import InferenceResponse
from ..core.inference.tensor import Tensor
from ..core.plain_facts import few_lines, plain
from .exchange import Exchange
from .literal import floats

#: (relative, absolute) tolerance of values that count as the same; other datatypes have to be equal.
_TOLERANCE = {
    DataType.FP64: (1e-9, 1e-12),
    DataType.FP32: (1e-5, 1e-7),
    DataType.FP16: (1e-2, 1e-4),
    DataType.BF16: (1e-2, 1e-4),
}


def tolerance(datatype: DataType) -> tuple[float, float]:
    """Return the (relative, absolute) tolerance within which values count as the same; zeros for datatypes that are
    not floats.
    """
    return _TOLERANCE.get(datatype, (0.0, 0.0))


@dataclass(frozen=True)
class TensorDiff:
    """The comparison of one output of one response. `same`: it is within the tolerance of its datatype. `problem`: what
    differs besides values, or says more than numbers. `first`: the index of the first element that is not the same.
    """

    response: int
    name: str
    same: bool
    problem: str = ""
    largest_absolute: float = 0.0
    largest_relative: float = 0.0
    first: tuple[int, ...] | None = None

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
    """The comparison of what two servers answered to one request. `errors`: those of the two, if they are not the
    same."""

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
        return {**found, "tensors": [plain(vars(diff)) for diff in self.tensors]}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return few_lines(str(self))


def compare(one: Exchange, other: Exchange) -> Comparison:
    """Compare the answers of two outcomes, and their errors."""
    responses = one.answers(), other.answers()
    errors = one.error_text, other.error_text
    counts = len(responses[0]), len(responses[1])
    return Comparison(
        (one, other),
        tuple(compare_responses(*responses)),
        errors if errors[0] != errors[1] else None,
        counts if counts[0] != counts[1] else None,
    )


def compare_responses(ones: Sequence[InferenceResponse], others: Sequence[InferenceResponse]) -> list[TensorDiff]:
    """Compare responses output by output, as many responses as both have."""
    return [
        _compare(number, name, one.outputs, other.outputs)
        for number, (one, other) in enumerate(zip(ones, others, strict=False))
        for name in dict.fromkeys([*one.outputs, *other.outputs])
    ]


def _compare(number: int, name: str, ones: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> TensorDiff:
    one, other = ones.get(name), others.get(name)
    if one is None or other is None:
        return TensorDiff(number, name, False, f"only in the {'first' if other is None else 'second'} answer")
    if one.datatype is not other.datatype:
        return TensorDiff(number, name, False, f"datatype {one.datatype.name} | {other.datatype.name}")
    if one.shape != other.shape:
        return TensorDiff(number, name, False, f"shape {list(one.shape)} | {list(other.shape)}")
    if one.datatype is DataType.BYTES:
        return _compare_bytes(number, name, one.numpy(), other.numpy())
    return _compare_numbers(number, name, floats(one), floats(other), *tolerance(one.datatype))


def _compare_bytes(number: int, name: str, one: Any, other: Any) -> TensorDiff:
    for index in np.ndindex(one.shape):
        if one[index] != other[index]:
            values = f"{_cut(one[index])} | {_cut(other[index])} at {list(index)}"
            return TensorDiff(number, name, False, values, first=index)
    return TensorDiff(number, name, True)


def _cut(element: bytes) -> str:
    return repr(element if len(element) <= 40 else element[:40] + b"...")


def _compare_numbers(
    number: int, name: str, one: NDArray[Any], other: NDArray[Any], relative: float, absolute: float
) -> TensorDiff:
    with np.errstate(all="ignore"):
        difference = _distance(one, other)
        equal = (one == other) | ((one != one) & (other != other))  # NaN and NaN are the same answer
        # a part of infinity is infinity: without the first condition each value would be near it
        near = np.isfinite(difference) & (difference <= absolute + relative * np.abs(other.astype(np.float64)))
        good = equal | near if relative else equal
        unequal = difference[~equal]
        bound = np.abs(other.astype(np.float64))[~equal]
        relatives = unequal / np.where(bound > 0, bound, np.nan)
    first = None
    if not good.all():
        first = tuple(int(position) for position in np.argwhere(~good)[0])
    return TensorDiff(
        response=number,
        name=name,
        same=bool(good.all()),
        problem="",
        largest_absolute=_largest(unequal),
        largest_relative=_largest(relatives),
        first=first,
    )


def _distance(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return how far elements are apart, as FP64; whole numbers are subtracted as such, which FP64 rounds."""
    if one.dtype.kind in "iu":
        whole: NDArray[Any] = np.maximum(one, other).astype(np.uint64) - np.minimum(one, other).astype(np.uint64)
        return whole.astype(np.float64)
    return np.abs(one.astype(np.float64) - other.astype(np.float64))


def _largest(values: NDArray[Any]) -> float:
    finite = values[~np.isnan(values)]
    return float(finite.max()) if finite.size else (float("inf") if values.size else 0.0)
