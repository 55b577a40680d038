"""`InferenceResponse`, one response to an inference request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from ..explained import Explained
from ..plain_facts import plain
from ..status import Code, TritonError
from ..unknown_option import did_you_mean
from .tensor import Tensor

Value = TypeVar("Value")


class NoSuchOutput(Explained, KeyError):
    """An output that a response does not have, with a list of its outputs. It is a KeyError, as for any dict."""

    code = Code.NOT_FOUND

    def __init__(self, name: object, there: list[str]) -> None:
        super().__init__(name)
        has = f"it has {', '.join(map(repr, there))}" if there else "it has none"
        self.own_remedy = did_you_mean(str(name), there) or has
        self._text = f"the response has no output {name!r}: {self.own_remedy}"

    def __str__(self) -> str:
        return self._text  # a sentence, where a KeyError prints only the name


class Outputs(dict[str, Value]):
    """A dict whose KeyError lists its outputs."""

    def __missing__(self, name: object) -> NoReturn:
        raise NoSuchOutput(name, list(self))


ParameterValue: TypeAlias = bool | int | str | float


@dataclass(slots=True, repr=False)
class InferenceResponse:
    """One response of a model: outputs or an error, and whether it is the last one to its request.

    A final response without outputs and error is the empty final of a decoupled model (rule 3.7.5).
    """

    model_name: str = ""
    model_version: int = -1
    request_id: str = ""
    outputs: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    error: TritonError | None = None
    final: bool = True
    #: True if this response has nothing but the final flag
    empty: bool = False

    __iter__: ClassVar[None] = None  # otherwise Python would use 0, 1, 2, … as names

    def __getitem__(self, name: str) -> Any:
        """Return an output as numpy, as `model(…)` does. Raises NoSuchOutput, or the error of the response."""
        if self.error is not None:
            raise self.error
        return Outputs(self.outputs)[name].numpy()

    def to_dict(self) -> dict[str, Any]:
        """Return the response as JSON values."""
        found = {name: plain(getattr(self, name)) for name in ("model_name", "model_version", "request_id", "final")}
        return {**found, **{name: plain(getattr(self, name)) for name in ("outputs", "parameters", "error")}}

    def __repr__(self) -> str:
        parts = [f"{self.model_name}/{self.model_version}"]
        parts += [f"id={self.request_id!r}"] if self.request_id else []
        parts += [f"{name}={tensor!r}" for name, tensor in self.outputs.items()]
        parts += [f"parameters={self.parameters}"] if self.parameters else []
        parts += [f"error={self.error}"] if self.error is not None else []
        parts += ["empty"] if self.empty else []
        return f"<InferenceResponse {' '.join(parts)}{' [final]' if self.final else ''}>"
