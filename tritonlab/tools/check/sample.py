"""`Sample`, the content of a request of a check, and `ModelAnswer`, the answer to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.tensor import Tensor
from ...core.plain_facts import plain
from ...core.status import RemoteException
from ...exchanges.exchange import non_default_settings

#: The most characters of a tensor in the text of a request.
_SHOWN = 200


@dataclass(frozen=True, eq=False)
class Sample:
    """The content of a request: inputs with their batch dimension, and the fields without default values."""

    inputs: Mapping[str, Tensor]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def from_request(request: InferenceRequest) -> Sample:
        """Return the content of a request, without its sequence and its place in a queue."""
        fields = non_default_settings(request)
        for name in ("request_id", "correlation_id", "flags", "priority", "timeout"):
            fields.pop(name, None)
        return Sample(dict(request.inputs), fields)

    def request(self, model: str, **more: Any) -> InferenceRequest:
        return InferenceRequest(model, dict(self.inputs), **{**self.fields, **more})

    def with_inputs(self, inputs: Mapping[str, Tensor]) -> Sample:
        return replace(self, inputs=dict(inputs))

    def with_input(self, name: str, tensor: Tensor) -> Sample:
        return replace(self, inputs={**self.inputs, name: tensor})

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tensor.shape for name, tensor in self.inputs.items()}

    @property
    def key(self) -> tuple[Any, ...]:
        """A value that is equal for requests with equal content."""
        tensors = tuple((name, one.datatype, one.shape, one.data.tobytes()) for name, one in self.inputs.items())
        return tensors, repr(sorted(self.fields.items()))

    @property
    def size(self) -> tuple[int, int, float]:
        """The measure by which the smallest of several requests is chosen."""
        elements = sum(int(np.prod(one.shape)) for one in self.inputs.values())
        weight = sum(_weight(one) for one in self.inputs.values())
        return elements, sum(one.byte_size for one in self.inputs.values()), weight

    def texts(self) -> Iterator[str]:
        """Yield the elements of its BYTES inputs that are valid UTF-8."""
        for tensor in self.inputs.values():
            if tensor.datatype is DataType.BYTES:
                for element in tensor.numpy().flat:
                    with suppress(UnicodeDecodeError):
                        yield bytes(element).decode()

    def text(self) -> str:
        """Return the inputs in one line, each with its first values."""
        texts = (f"{name}: {tensor_text(one)}" for name, one in self.inputs.items())
        more = [f"{name}={value!r}" for name, value in self.fields.items()]
        return "; ".join([*texts, *more])

    def to_dict(self) -> dict[str, Any]:
        return {"inputs": plain(dict(self.inputs)), **plain(dict(self.fields))}


def _weight(tensor: Tensor) -> float:
    if tensor.datatype is DataType.BYTES:
        return float(sum(len(bytes(one)) for one in tensor.numpy().flat))
    data = tensor.data.astype(np.float64, copy=False) if tensor.datatype is not DataType.BF16 else tensor.data
    with np.errstate(all="ignore"):
        return float(np.nan_to_num(np.abs(data.astype(np.float64)), nan=1e9, posinf=1e9).clip(0, 1e9).sum())


def tensor_text(tensor: Tensor) -> str:
    """Return datatype, shape and first values in one line."""
    text = repr(tensor).removeprefix("<Tensor ").removesuffix(">")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


@dataclass(frozen=True)
class ModelAnswer:
    """The answer to one request: the outputs of each response that has any, and how it ended.

    `error`: the text of the error, "" for none. `exception`: the Python exception of the model's code. `ended`: whether
    the final flag came in time. `empty`: how many responses without outputs came besides an empty final one. `after`:
    how many responses came after the request was cancelled. `polled`: whether the model checked for the cancellation.
    `died`: whether its process ended. `busy`: whether `execute` was still running, or responses still came, when the
    time for the answer was over; `sends`: whether responses still came.
    """

    responses: tuple[Mapping[str, Tensor], ...] = ()
    error: str = ""
    exception: RemoteException | None = None
    ended: bool = True
    empty: int = 0
    seconds: float = 0.0
    after: int = 0
    polled: bool = False
    died: bool = False
    busy: bool = False
    sends: bool = False

    @property
    def good(self) -> bool:
        """Return whether the model has answered without an error."""
        return self.ended and not self.error

    @property
    def is_refusal(self) -> bool:
        """Return whether the model has answered with an error and still runs."""
        return not self.good and self.ended and not self.died

    def text(self) -> str:
        """Return the answer in one line."""
        if not self.ended:
            return "no answer in time" if not self.responses else f"{len(self.responses)} responses, and no end"
        if self.error:
            return f"error: {self.summary}"
        texts = ["; ".join(f"{name}: {tensor_text(one)}" for name, one in each.items()) for each in self.responses[:3]]
        more = len(self.responses) - len(texts)
        return " | ".join([*texts, *([f"and {more} more"] if more else [])]) or "a response without outputs"

    @property
    def summary(self) -> str:
        """The exception or the first line of the error, without the words that all errors share."""
        if self.exception is not None:
            return str(self.exception).partition("\n")[0][:_SHOWN]
        return (self.error.partition("message: ")[2] or self.error).strip().partition("\n")[0][:_SHOWN]

    @property
    def place(self) -> tuple[str, int] | None:
        """The author's line that raised or called the raising library, if there is one."""
        every: Sequence[Any] = self.exception.frames if self.exception is not None else ()
        frames = [one for one in every if "-packages/" not in one.file and "/lib/python" not in one.file] or every
        return (frames[-1].file, frames[-1].line) if frames else None
