"""The tensors in GPU memory that one link sends and receives, as places instead of bytes.

A stub may name the places that it received, and the memory lent for its outputs; any other place breaks the link.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any
from weakref import WeakValueDictionary

from ...core.inference.data_type import DataType
from ...core.inference.device_array import DeviceArray
from ...core.inference.tensor import Tensor
from ...core.status import TritonError
from ...stub._pb_stub.wire.device_memory import DevicePlace, Lent
from ...stub._pb_stub.wire.message_bodies import DeviceGrant, DeviceMemory, GivenBack
from ...stub._pb_stub.wire.serialization import WireError
from .gpu_buffers import GpuBuffers, GpuChunk, GpuLease


class DeviceTensors:
    """The device side of one link. `inputs`: whether the model gets inputs on the device
    (FORCE_CPU_ONLY_INPUT_TENSORS "no"), not in host memory."""

    def __init__(self, buffers: GpuBuffers, inputs: bool) -> None:
        self._buffers = buffers
        self._inputs = inputs
        #: whether inputs were copied to the host since this was set to False
        self.brought = False
        self._lent: WeakValueDictionary[bytes, DeviceArray] = WeakValueDictionary()
        self._lock = threading.Lock()  # guards changes of the next three: memory is given back by another thread
        self._granted: dict[tuple[bytes, int], GpuLease] = {}
        #: by handle, the chunks that the stub may have mapped: not freed before it reports that it has not
        self._mapped: dict[bytes, GpuChunk] = {}
        #: the chunks that it had mapped when it was asked to give memory back
        self._recalled: dict[bytes, GpuChunk] = {}

    def input(self, tensor: Tensor) -> Any:
        """Return the packed form of an input on a device. Raises UnavailableError, InternalError."""
        if self._inputs:
            return self.output(tensor)
        self.brought = True
        return tensor.to_host().data

    def output(self, tensor: Tensor) -> Lent:
        """Return the packed form of a tensor that stays on its device, whether inputs do or not."""
        memory: Any = tensor.data
        array = self._buffers.shared(memory)
        assert array.place is not None
        self._lent[array.place] = array
        lease, _ = array.keep
        with self._lock:
            self._mapped[lease.chunk.handle] = lease.chunk
        return Lent.from_place(array.place, array.device, array)

    def preferred(self, outputs: Mapping[str, Tensor], memory: Sequence[int]) -> dict[str, Tensor]:
        """Return outputs in the memory that the model prefers: a type (0 GPU, 1 CPU) and a device. A preference that
        cannot be met is ignored (rule 1.12.2). Raises InternalError."""
        kind, device = memory
        return {name: tensor.to_host() if kind else self._moved(tensor, device) for name, tensor in outputs.items()}

    def _moved(self, tensor: Tensor, device: int) -> Tensor:
        if tensor.memory_type or tensor.datatype is DataType.BYTES:
            return tensor
        try:
            return self._buffers.on_device(tensor, device)
        except TritonError:
            return tensor

    def received(self, datatype: DataType, shape: list[int], device: int, data: memoryview, lease: Any) -> Tensor:
        """Return the tensor whose place is `data`; `lease` keeps the block that the place came in. Raises WireError for
        a place that the stub was not given, or if the size does not fit the shape."""
        if not all(type(size) is int and size >= 0 for size in shape) or datatype is DataType.BYTES:
            raise WireError(f"a {datatype.name} tensor of shape {shape!r:.200} on a device")
        memory = self._find(bytes(data), lease)
        if memory.device != device or memory.nbytes != prod(shape) * datatype.byte_size:
            raise WireError(f"a tensor of shape {shape!r:.200} in {memory.nbytes} bytes of GPU {memory.device}")
        return Tensor.on_device(datatype, tuple(shape), memory)

    def _find(self, data: bytes, lease: Any) -> DeviceArray:
        known = self._lent.get(data)
        if known is not None:
            return known
        try:
            place = DevicePlace.read(data)
        except struct.error as error:
            raise WireError(f"not a place of device memory: {error}") from None
        for grant in list(self._granted.values()):
            chunk = grant.chunk
            if chunk.handle == place.handle and 0 <= place.offset - grant.offset <= grant.size - place.nbytes:
                address = chunk.base + place.offset
                return DeviceArray(chunk.driver, chunk.device, address, place.nbytes, keep=(grant, lease), place=data)
        raise WireError("device memory that the stub was not lent")

    def grant(self, wanted: DeviceMemory) -> DeviceGrant:
        """Lend memory to the stub. Raises UnavailableError."""
        lease = self._buffers.lend(wanted.device, wanted.nbytes)
        with self._lock:
            self._granted[lease.chunk.handle, lease.offset] = lease
            self._mapped[lease.chunk.handle] = lease.chunk
        return DeviceGrant(lease.chunk.handle.hex(), lease.offset, lease.size)

    def ask_back(self) -> None:
        """Note that the stub is about to return memory: from now on it may map again any chunk that it is sent."""
        with self._lock:
            self._recalled.update(self._mapped)
            self._mapped = {}

    def given_back(self, body: GivenBack) -> None:
        """Take back the memory that the stub has returned, and forget the mappings that it has closed."""
        with self._lock:
            for grant in body.returned:
                self._granted.pop((bytes.fromhex(grant.handle), grant.offset), None)
            for handle in map(bytes.fromhex, body.mapped):
                if handle in self._recalled:
                    self._mapped[handle] = self._recalled[handle]
            self._recalled = {}

    def close(self) -> None:
        """Take back everything: the stub has ended."""
        with self._lock:
            self._granted.clear()
            self._mapped.clear()
            self._recalled.clear()
