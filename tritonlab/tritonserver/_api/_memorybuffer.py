"""`MemoryBuffer`, memory with an owner, as an address and a size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...stub._pb_stub.api.dlpack import Imported
from .._c.triton_bindings import InvalidArgumentError
from .._c.triton_bindings import TRITONSERVER_MemoryType as MemoryType
from ._datautils import DeviceOrMemoryType, import_memory, memory_type_of

__all__ = ["DeviceOrMemoryType", "MemoryBuffer", "MemoryType"]


@dataclass
class MemoryBuffer:
    """The `size` bytes at `data_ptr`, which live as long as `owner`."""

    data_ptr: int
    memory_type: MemoryType
    memory_type_id: int
    size: int
    owner: Any

    @staticmethod
    def from_dlpack(owner: Any) -> MemoryBuffer:
        """Make a buffer over the memory of any library's array. Raises InvalidArgumentError if it is not contiguous, or
        does not support DLPack."""
        if not hasattr(owner, "__dlpack__"):
            raise InvalidArgumentError("Object does not support DLpack protocol")
        return MemoryBuffer._from_memory(owner, import_memory(owner))

    @staticmethod
    def _from_memory(owner: Any, memory: Imported) -> MemoryBuffer:
        device, number = memory.device
        buffer = MemoryBuffer(
            data_ptr=memory.pointer,
            memory_type=memory_type_of(device),
            memory_type_id=number,
            size=memory.nbytes,
            owner=owner,
        )
        if type(owner) is not np.ndarray:
            # an array's memory lives with the array; the memory of another `__dlpack__` may live with its capsule alone
            vars(buffer)["_memory"] = memory
        return buffer
