"""The noise of a model, which all comparisons allow, and the comparison of two answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from ...exchanges.comparison import compare_outputs, equal_elements, is_reordered, tolerance
from ...exchanges.literal import floats
from .sample import ModelAnswer

#: Another order of summation, as in a larger batch, changes floats by this share of the largest in the tensor.
_OF_LARGEST = {DataType.FP64: 1e-11, DataType.FP32: 2e-5, DataType.FP16: 4e-3, DataType.BF16: 3e-2}
#: Comparisons allow the measured noise times this.
_MARGIN = 4.0


@dataclass(frozen=True)
class AnswerDifference:
    """The first difference between two answers to one request. `kind`: error, count, outputs, datatype, shape or value.
    `index`: the first differing element of `output` in response number `response`."""

    kind: str
    output: str = ""
    response: int = 0
    index: tuple[int, ...] = ()
    expected: str = ""
    got: str = ""

    @property
    def place(self) -> str:
        """The element in words: `OUT[0, 2]`."""
        index = str(list(self.index)) if self.index else ""
        response = f" of response {self.response + 1}" if self.response else ""
        return f"{self.output}{index}{response}"

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "index": list(self.index)}


@dataclass
class AnswerNoise:
    """The differences between answers to the same request. `values`: by output the largest absolute difference. `free`:
    outputs that differ in more than numbers; they are not compared. `counts`: whether even the number of responses
    differs.
    """

    values: dict[str, float] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    counts: bool = False
    fails: bool = False
    #: whether the same responses come in another order; that is not noise, the relation `streams` judges it
    order: bool = False

    @property
    def is_silent(self) -> bool:
        return not (self.values or self.free or self.counts or self.fails)

    def learn(self, answers: Sequence[ModelAnswer]) -> None:
        """Add the differences between these answers to one request to the noise."""
        first = answers[0]
        for other in answers[1:]:
            if is_reordered(first.responses, other.responses):
                self.order = True
                continue
            for _ in range(64):
                found = self.differ(first, other)
                if found is None:
                    break
                self._allow(found, first, other)

    def _allow(self, found: AnswerDifference, first: ModelAnswer, other: ModelAnswer) -> None:
        if found.kind == "error":
            self.fails = True
        elif found.kind == "count":
            self.counts = True
        elif found.kind == "value" and first.responses[found.response][found.output].datatype is not DataType.BYTES:
            one, two = (floats(each.responses[found.response][found.output]) for each in (first, other))
            if one.dtype.kind != "f":
                self.free.add(found.output)
                return
            wide, others = one.astype(np.float64), two.astype(np.float64)
            with np.errstate(all="ignore"):
                apart = np.where(equal_elements(one, two), 0.0, np.abs(wide - others))
            largest = float(np.max(apart)) if np.isfinite(apart).all() else np.inf
            spread = float(np.max(np.abs(wide), where=np.isfinite(wide), initial=0.0))
            if not np.isfinite(largest) or largest > 0.05 * spread:
                self.free.add(found.output)
            self.values[found.output] = max(self.values.get(found.output, 0.0), largest)
        else:
            self.free.add(found.output)

    def sentence(self) -> str:
        """Return what is not deterministic, as a sentence; empty if everything is."""
        if self.is_silent:
            return ""
        parts = []
        for name in sorted({*self.values, *self.free}):
            by = self.values.get(name)
            much = f"by up to {by:.3g}" if by is not None and name not in self.free else "in its values"
            parts.append(f"'{name}' differs {much}")
        parts += ["the number of responses differs"] if self.counts else []
        parts += ["it fails now and then"] if self.fails else []
        free = ", ".join(f"'{name}'" for name in sorted(self.free))
        rest = f"; {free} {'are' if len(self.free) > 1 else 'is'} not compared" if self.free else ""
        return (
            f"The model is not deterministic: asked the same again, {' and '.join(parts)}. "
            f"Comparisons allow that{rest}."
        )

    def differ(self, expected: ModelAnswer, got: ModelAnswer) -> AnswerDifference | None:
        """Return the first difference between two answers to one request that exceeds the noise."""
        if expected.good != got.good or (not expected.good and expected.ended != got.ended):
            return None if self.fails else AnswerDifference("error", expected=expected.text(), got=got.text())
        if not expected.good:
            return None  # both failed; the texts may differ
        if self.order and is_reordered(expected.responses, got.responses):
            return None
        if len(expected.responses) != len(got.responses) and not self.counts:
            counts = (f"{len(each.responses)} response{'s' * (len(each.responses) != 1)}" for each in (expected, got))
            return AnswerDifference("count", expected=next(counts), got=next(counts))
        ones, others = ([self._compared(each) for each in answer.responses] for answer in (expected, got))
        diff = next((each for each in compare_outputs(ones, others, self._allowed) if not each.same), None)
        if diff is None:
            return None
        return AnswerDifference(diff.kind, diff.name, diff.response, diff.first or (), *diff.sides)

    def _compared(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in outputs.items() if name not in self.free}

    def _allowed(self, name: str, datatype: DataType, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
        relative, absolute = tolerance(datatype)
        largest = float(np.max(np.abs(one), where=np.isfinite(one), initial=0.0))
        allowed = absolute + _OF_LARGEST[datatype] * largest + _MARGIN * self.values.get(name, 0.0)
        found: NDArray[Any] = allowed + 10 * relative * np.abs(one)
        return found
