"""Memory of a GPU that a client has made and registered by its CUDA IPC handle (rule 6.10.5).

The memory belongs to the client: it is mapped into this process while the region is registered or a request uses it,
and is freed when the client frees it or ends.
"""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.inference.data_type import DataType
from ...core.inference.device_array import DeviceArray
from ...core.inference.tensor import Tensor, wire_elements
from ...core.status import InternalError, InvalidArgumentError
from ...ipc.gpu.gpu_buffers import GpuBuffers
from ...ipc.gpu.visible_gpus import VisibleGpus
from ...stub._pb_stub.devices.driver import HANDLE_SIZE, Driver, DriverError

__all__ = ["HANDLE_SIZE", "CudaRegion", "ServerGpus"]


class ServerGpus(NamedTuple):
    """The GPUs of a server, and their memory in which tensors reach models."""

    visible: VisibleGpus
    buffers: GpuBuffers


class _Mapping:
    """A mapping of a client's memory into this process. It is closed after its last reference: a request may still use
    it while its region is unregistered."""

    def __init__(self, driver: Driver, device_id: int, handle: bytes) -> None:
        self.driver = driver
        self.address = driver.open(device_id, handle)
        weakref.finalize(self, _close, driver, device_id, self.address).atexit = False


def _close(driver: Driver, device_id: int, address: int) -> None:
    with contextlib.suppress(DriverError):  # the device has gone, and the memory with it
        driver.close(device_id, address)


class CopiedTensor(Tensor):
    """A tensor in host memory that was copied from a region: of BYTES, which models always get there."""

    __slots__ = ("region",)

    def __init__(self, datatype: DataType, shape: tuple[int, ...], data: NDArray[Any], region: CudaRegion) -> None:
        super().__init__(datatype, shape, data)
        self.region = region


@dataclass(frozen=True, slots=True)
class CudaRegion:
    """One registered region."""

    KIND: ClassVar[str] = "CUDA"

    name: str
    device_id: int
    byte_size: int
    memory: _Mapping
    buffers: GpuBuffers

    @staticmethod
    def open(name: str, gpus: ServerGpus | None, handle: bytes, device_id: int, byte_size: int) -> CudaRegion:
        """Open the memory of `handle` for the region. Raises InvalidArgumentError."""
        visible = gpus.visible.ordinals if gpus is not None else ()
        if gpus is None or not visible:  # the text of a Triton built without GPU support
            raise InvalidArgumentError(f"failed to register CUDA shared memory region: '{name}', GPUs not supported")
        # Triton has nothing behind "invalid args" (measured)
        text = f"failed to register shared memory region: invalid args: '{name}', "
        if device_id not in visible:
            known = f"GPU{'s' * (len(visible) > 1)} {' and '.join(map(str, visible))}"
            raise InvalidArgumentError(f"{text}GPU {device_id} does not exist; this server has {known}")
        driver = gpus.buffers.driver
        try:
            memory = _Mapping(driver, device_id, handle)
            base, nbytes, _ = driver.base_of(memory.address)
        except DriverError as error:
            raise InvalidArgumentError(f"{text}{error}") from error
        if base + nbytes < memory.address + byte_size:
            raise InvalidArgumentError(f"failed to register shared memory region '{name}': invalid args")
        return CudaRegion(name, device_id, byte_size=byte_size, memory=memory, buffers=gpus.buffers)

    @property
    def simulated(self) -> bool:
        return self.memory.driver.simulated

    def tensor(self, offset: int, size: int, datatype: DataType, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor with a copy of the current bytes: on the device, in memory that models can use."""
        if self.copies(datatype):
            return CopiedTensor(datatype, shape, wire_elements(self.read(offset, size), datatype), self)
        memory, address = self.memory, self.memory.address + offset
        array = DeviceArray(memory.driver, device=self.device_id, address=address, nbytes=size, keep=memory)
        return Tensor.on_device(datatype, shape, self.buffers.shared(array))

    def copies(self, datatype: DataType) -> bool:
        """Return whether tensors are copied to this process's memory."""
        return not datatype.byte_size

    def copy(self, offset: int, array: DeviceArray) -> bool:
        """Copy memory of a GPU to the host."""
        driver = self.memory.driver
        try:
            driver.copy(self.device_id, self.memory.address + offset, array.address, array.nbytes)
            driver.synchronize(self.device_id)
        except DriverError as error:
            raise InternalError(f"failed to write shared memory region '{self.name}': {error}") from error
        return True

    def read(self, offset: int, size: int) -> memoryview:
        data = np.empty(size, np.uint8)
        try:
            self.memory.driver.copy_out(self.device_id, self.memory.address + offset, data.data)
        except DriverError as error:
            raise InternalError(f"failed to read shared memory region '{self.name}': {error}") from error
        return data.data.toreadonly()

    def write(self, offset: int, data: memoryview) -> None:
        try:
            self.memory.driver.copy_in(self.device_id, self.memory.address + offset, data)
        except DriverError as error:
            raise InternalError(f"failed to write shared memory region '{self.name}': {error}") from error

    def missing_bytes(self) -> int:
        """Return 0, because the memory is a GPU's."""
        return 0

    def check(self, offset: int, size: int) -> None:
        """Do nothing: a client cannot make its memory smaller."""

    def facts(self) -> dict[str, Any]:
        """Return the region's status."""
        return {"name": self.name, "device_id": self.device_id, "byte_size": self.byte_size}
