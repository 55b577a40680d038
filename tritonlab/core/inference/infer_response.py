"""`InferenceResponse`, one response to an inference request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..plain_facts import plain
from ..status import TritonError
from .tensor import Tensor

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
