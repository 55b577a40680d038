"""The request that a program fills in and sends."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.inference.infer_request import InferenceRequest as CoreRequest
from ...core.inference.infer_response import ParameterValue
from ...core.inference.tensor import Tensor as CoreTensor
from ._checks import check_signed, check_text, check_unsigned
from ._datautils import DeviceOrMemoryType, no_conversion
from ._running import ModelHandle
from ._tensor import Tensor


@dataclass
class InferenceRequest:
    """A request to `model`. Nothing is looked up or checked before it is sent; it may be changed and sent again.

    `inputs`: Tensors, arrays, lists, or any objects with DLPack. `timeout`: microseconds. `output_memory_type`: the
    memory for the outputs. `response_queue`: also receives every response, a `queue.SimpleQueue` with `infer`, an
    `asyncio.Queue` with `async_infer`.
    """

    model: ModelHandle
    request_id: str | None = None
    flags: int = 0
    correlation_id: int | str | None = None
    priority: int = 0
    timeout: int = 0
    inputs: dict[str, Tensor | Any] = field(default_factory=dict)
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    output_memory_type: DeviceOrMemoryType | None = None
    response_queue: queue.SimpleQueue[Any] | asyncio.Queue[Any] | None = None

    def _to_core(self) -> CoreRequest:
        """Make the core's request. Raises TypeError or TritonError, in the order of NVIDIA's package, which checks the
        model first."""
        model = self.model
        model._server.core.find(check_text("model name", model.name), check_signed("model version", model.version))
        request_id = "" if self.request_id is None else check_text("request_id", self.request_id)
        priority = check_unsigned("priority", self.priority, 64)
        timeout = check_unsigned("timeout", self.timeout, 64)
        correlation_id = self._correlation_id()
        flags = check_unsigned("flags", self.flags)
        inputs = {check_text("input name", name): _input(value) for name, value in _dict("inputs", self.inputs)}
        return CoreRequest(
            model.name,
            inputs,
            model_version=model.version,
            request_id=request_id,
            correlation_id=correlation_id,
            flags=flags,
            priority=priority,
            timeout=timeout,
            parameters={key: _parameter(key, value) for key, value in _dict("parameters", self.parameters)} or None,
        )

    def _correlation_id(self) -> int | str:
        value = self.correlation_id
        if value is None:
            return 0
        if isinstance(value, int):
            return check_unsigned("correlation_id", value, 64)
        return check_text("correlation_id", value)


def _dict(name: str, value: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, not {value!r}")
    return value.items()


def _input(value: Any) -> CoreTensor:
    return (value if isinstance(value, Tensor) else Tensor._from_object(value))._to_core()


def _parameter(key: Any, value: Any) -> ParameterValue:
    check_text("parameter name", key)
    kind = type(value)
    if kind is int:
        return check_signed(f"parameter {key!r}", value)
    if kind is str or kind is bool or kind is float:
        return value  # type: ignore[no-any-return]
    no_conversion("Value", kind, "Request Parameter")
