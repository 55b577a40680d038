"""PreferredMemory and InferenceTrace, which a BLS request may carry besides its tensors, and SharedMemory, which has
the free size of the region.
"""

from __future__ import annotations

from typing import Any, Optional

from ..wire.message_bodies import TraceRef
from . import bridge
from .argument_check import INT64_MAX, as_int, mismatch, no_constructor
from .enums import MemoryType
from .errors import NativeObject

_new = object.__new__


class PreferredMemory(NativeObject):
    """The memory for the outputs of a BLS request; it is ignored if it is impossible."""

    __slots__ = ("_device_id", "_type")

    def __init__(self, preferred_memory_type: MemoryType, preferred_device_id: int = 0) -> None:
        """Take TRITONSERVER_MEMORY_CPU or TRITONSERVER_MEMORY_GPU as `preferred_memory_type`, no number.

        Raises TypeError for arguments of another type.
        """
        device = as_int(preferred_device_id, -INT64_MAX - 1, INT64_MAX)
        if not isinstance(preferred_memory_type, MemoryType) or device is None:
            raise mismatch(
                "__init__",
                "c_python_backend_utils.PreferredMemory(preferred_memory_type: "
                "triton::backend::python::PreferredMemory::MemoryType, preferred_device_id: int = 0)",
                (preferred_memory_type, preferred_device_id),
            )
        self._type = preferred_memory_type
        self._device_id = device


class InferenceTrace(NativeObject):
    """The trace of a request, from `request.trace()`."""

    __slots__ = ("_context", "_number")

    _context: Optional[str]
    _number: int

    def __new__(cls, *args: Any, **kwargs: Any) -> InferenceTrace:
        raise no_constructor("InferenceTrace")

    @classmethod
    def _from_context(cls, context: Optional[str], number: int = 0) -> InferenceTrace:
        """Make a trace. `number` is the server's number of a traced request, else 0."""
        self: InferenceTrace = _new(cls)
        self._context = context
        self._number = number
        return self

    def _wire(self) -> Optional[TraceRef]:
        """Return the trace's form for the server; None for a request that is not traced."""
        return TraceRef(self._number, self._context) if self._number else None

    def get_context(self) -> Optional[str]:
        """Return the JSON text of the OpenTelemetry headers that continue this trace; None if the server has no such
        trace."""
        return self._context


class SharedMemory(NativeObject):
    """The stub's shared-memory region, as far as Triton shows it (`c_python_backend_utils.shared_memory`)."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> SharedMemory:
        raise no_constructor("SharedMemory")

    def free_memory(self) -> int:
        """Return how many bytes of the region are not in use; 0 outside a stub."""
        region: Any = getattr(bridge.current(), "region", None)
        return 0 if region is None else int(region.size - region.used)


shared_memory: SharedMemory = _new(SharedMemory)
