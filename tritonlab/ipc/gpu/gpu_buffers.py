"""`GpuBuffers` owns the device memory in which tensors cross between the server and its stubs: a pool for each device,
and a further allocation where the pool is full.

A caching allocator's memory cannot cross as it is: a handle stands for a whole allocation, whose other parts belong to
other tensors. So the server copies such a tensor, on the device, to the pool, which stubs map once; a stub copies its
outputs to the part of the pool that it was lent. One copy each way, on the device. A tensor in the pool is handed on
without a copy: from model to model, and to a model that returns it.

Everything is reference counting: a `GpuLease` is memory in use, and returns to its `GpuChunk` after its last reference;
a chunk is freed when no lease, no pool and no stub that may have mapped it holds it. A stub that dies holds nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping

from ...core.inference.device_array import DeviceArray, device_errors
from ...core.inference.tensor import Tensor
from ...core.status import UnavailableError
from ...stub._pb_stub.devices.driver import Driver, DriverError
from ...stub._pb_stub.devices.gpus import CUDA
from ...stub._pb_stub.wire.device_memory import DevicePlace, packed
from ...stub._pb_stub.wire.free_space import FreeSpace

#: Bytes of a device's pool by default, as in Triton.
POOL_BYTES = 64 << 20
_ALIGN = 512
#: A further allocation is a multiple of this; the driver gives no less.
_STEP = 2 << 20


class GpuChunk:
    """One allocation on a device, and its free parts. `pool`: whether it stays until the server ends."""

    __slots__ = ("__weakref__", "base", "device", "driver", "handle", "let_go", "nbytes", "pool", "space")

    def __init__(self, driver: Driver, device: int, nbytes: int, pool: bool = False) -> None:
        self.driver = driver
        self.pool = pool
        self.device = device
        self.nbytes = nbytes
        self.base = driver.allocate(device, nbytes)
        self.handle = driver.export(device, self.base)
        self.space = FreeSpace()
        self.space.add(0, nbytes)
        #: (offset, size) of leases that have ended; destructors append
        self.let_go: list[tuple[int, int]] = []

    def collect(self) -> None:
        """Free the memory of leases that have ended."""
        while self.let_go:
            self.space.add(*self.let_go.pop())

    @property
    def empty(self) -> bool:
        return list(self.space) == [(0, self.nbytes)]

    def __del__(self) -> None:
        if hasattr(self, "base"):
            with contextlib.suppress(DriverError):  # the driver has ended before us
                self.driver.free(self.device, self.base)


class GpuLease:
    """Memory of a chunk, in use until this object is gone. Its end takes no lock, because it may come at any moment."""

    __slots__ = ("chunk", "offset", "size")

    def __init__(self, chunk: GpuChunk, offset: int, size: int) -> None:
        self.chunk = chunk
        self.offset = offset
        self.size = size

    def array(self, nbytes: int) -> DeviceArray:
        """Return the first `nbytes` as memory of a tensor, where stubs find it."""
        chunk = self.chunk
        place = packed(DevicePlace(chunk.handle, self.offset, nbytes))
        return DeviceArray(
            chunk.driver, chunk.device, address=chunk.base + self.offset, nbytes=nbytes, keep=(self, None), place=place
        )

    def __del__(self) -> None:
        self.chunk.let_go.append((self.offset, self.size))


class GpuBuffers:
    """The device memory that one server lends. `pools`: the size of each device's pool, `POOL_BYTES` by default.
    Nothing is allocated, and no driver is loaded, before the first tensor on a device."""

    def __init__(self, driver: Driver = CUDA, pools: Mapping[int, int] | None = None) -> None:
        self.driver = driver
        self._pools = pools or {}
        self._lock = threading.Lock()  # guards the next two
        self._chunks: dict[int, list[GpuChunk]] = {}
        self._settled = 0

    def lend(self, device: int, nbytes: int) -> GpuLease:
        """Return a lease of at least `nbytes`. Raises UnavailableError if the device has no room or is unusable."""
        need = max((nbytes + _ALIGN - 1) & -_ALIGN, _ALIGN)
        with self._lock:
            self._collect()
            chunks = self._chunks.setdefault(device, [])
            for chunk in chunks:
                offset = chunk.space.take(need, _ALIGN)
                if offset is not None:
                    return GpuLease(chunk, offset, need)
            chunk = self._allocate(device, need, any(chunk.pool for chunk in chunks))
            chunks.append(chunk)
            chunk.space.take(need, _ALIGN)
            return GpuLease(chunk, 0, need)

    def _allocate(self, device: int, need: int, has_pool: bool) -> GpuChunk:
        pool = self._pools.get(device, POOL_BYTES)
        if not has_pool and need <= pool:
            with contextlib.suppress(DriverError):  # less may fit
                return GpuChunk(self.driver, device, pool, pool=True)
        try:
            return GpuChunk(self.driver, device, (need + _STEP - 1) & -_STEP)
        except DriverError as error:
            used = f"{self._used(device)} bytes are in use for tensors, of a pool of {pool}"
            raise UnavailableError(f"no memory for a tensor on GPU {device}, where {used}: {error}") from None

    def _collect(self) -> None:
        for chunks in self._chunks.values():
            for chunk in chunks:
                chunk.collect()

    def _used(self, device: int) -> int:
        chunks = self._chunks.get(device, ())
        return sum(chunk.nbytes - sum(size for _, size in chunk.space) for chunk in chunks)

    def use(self, device: int) -> tuple[int, int]:
        """Return how many bytes of the device are in use, and how many are allocated for them."""
        with self._lock:
            self._collect()
            return self._used(device), sum(chunk.nbytes for chunk in self._chunks.get(device, ()))

    @property
    def grown(self) -> bool:
        """Return whether further allocations were made since memory was last given back."""
        return self._further() > self._settled

    def give_back(self) -> None:
        """Release further allocations that are unused; the pools stay."""
        with self._lock:
            self._collect()
            for chunks in self._chunks.values():
                chunks[:] = [chunk for chunk in chunks if chunk.pool or not chunk.empty]
            self._settled = self._further()

    def close(self) -> None:
        """Release everything: the server has ended. A tensor that is still referenced keeps its memory."""
        with self._lock:
            self._chunks.clear()

    def _further(self) -> int:
        return sum(chunk.nbytes for chunks in self._chunks.values() for chunk in chunks if not chunk.pool)

    # -- tensors

    def shared(self, array: DeviceArray) -> DeviceArray:
        """Return device memory where stubs find it: itself, or a copy there. Raises UnavailableError, InternalError."""
        if array.place is not None:
            if array.exposed:
                with device_errors():
                    array.driver.synchronize(array.device)  # the owner of the address may be writing there
            return array
        if array.driver is not self.driver:
            simulated = "simulated GPU: start the server with Options(simulated_gpus=…)"
            real = "real GPU, and the server was started with simulated ones"
            raise UnavailableError(f"the tensor is on a {simulated if array.driver.simulated else real}")
        found = self.lend(array.device, array.nbytes).array(array.nbytes)
        if array.nbytes:
            with device_errors():
                self.driver.copy(array.device, found.address, array.address, array.nbytes)
                self.driver.synchronize(array.device)
        return found

    def on_device(self, tensor: Tensor, device: int) -> Tensor:
        """Return a copy of a tensor in host memory on the device. Raises UnavailableError, InternalError."""
        found = self.lend(device, tensor.byte_size).array(tensor.byte_size)
        if tensor.byte_size:
            with device_errors():
                self.driver.copy_in(device, found.address, tensor.data.reshape(-1))
                self.driver.synchronize(device)
        return Tensor.on_device(tensor.datatype, tensor.shape, found)
