"""The shared-memory regions that clients have registered, in one table for all frontends (rule 6.10).

A region is a part of a POSIX shared memory (`system_region.py`) or memory of a GPU (`cuda_region.py`); a name is used
once among both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from ...core.status import AlreadyExistsError, InternalError, InvalidArgumentError, NotFoundError, UnsupportedError
from .cuda_region import CudaRegion, ServerGpus
from .request_memory import UNCOUNTED, HeldMemory, RequestMemory
from .system_region import OUTSIDE, SystemRegion, check_key

Region = SystemRegion | CudaRegion
_DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."


class SharedMemoryManager:
    """The table of regions, read and written within their bounds; from any thread.

    Every method raises UnsupportedError unless `allowed` (rule 6.10.1), with the text `refusal`. Sizes and offsets are
    in bytes. `gpus`: the GPUs whose memory may be registered; None for none. `memory` counts large copies.
    """

    def __init__(
        self,
        allowed: bool = False,
        gpus: ServerGpus | None = None,
        refusal: str = _DISABLED,
        memory: RequestMemory | None = None,
    ) -> None:
        self._allowed = allowed
        self._refusal = refusal
        self._gpus = gpus
        self._memory = memory or RequestMemory()
        self._regions: dict[str, Region] = {}
        #: whether any region is registered
        self.in_use = False
        #: whether a region of a GPU was ever registered
        self.any_cuda = False
        self._lock = threading.Lock()  # for changes to them: a name is used once

    def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Register `byte_size` bytes from `offset`, a multiple of the page size, of the shared memory `key`."""
        self._check_allowed()
        check_key(name, key)
        self._register(name, lambda: SystemRegion.open(name, key, offset, byte_size))

    def register_cuda(self, name: str, handle: bytes, device_id: int, byte_size: int) -> None:
        """Register the first `byte_size` bytes of the memory of `handle`, a cudaIpcMemHandle_t of another process."""
        self._register(
            name, lambda: CudaRegion.open(name, self._gpus, handle=handle, device_id=device_id, byte_size=byte_size)
        )
        self.any_cuda = True

    def _register(self, name: str, open_region: Callable[[], Region]) -> None:
        self._check_allowed()
        with self._lock:
            if name in self._regions:
                raise AlreadyExistsError(f"shared memory region '{name}' already in manager")
            self._regions[name] = open_region()
            self.in_use = True

    def unregister(self, name: str = "", kind: type[Region] = SystemRegion) -> None:
        """Remove one region, or all of a kind; an unknown region, or one of another kind, is ignored."""
        self._check_allowed()
        with self._lock:
            for each in [name] if name else list(self._regions):
                if isinstance(self._regions.get(each), kind):
                    del self._regions[each]
            self.in_use = bool(self._regions)

    def status(self, name: str = "", kind: type[Region] = SystemRegion) -> list[dict[str, Any]]:
        """Return the facts of one region, or of all of a kind. Raises NotFoundError."""
        self._check_allowed()
        if not name:
            regions = [region for region in self._regions.copy().values() if isinstance(region, kind)]
            return [region.facts() for region in sorted(regions, key=lambda region: region.name)]
        region = self._regions.get(name)
        if region is None:
            raise NotFoundError(f"Unable to find {kind.KIND.lower()} shared memory region: '{name}'")
        if not isinstance(region, kind):
            raise NotFoundError(
                f"The region named '{name}' is registered as {region.KIND} shared memory, not {kind.KIND} shared memory"
            )
        return [region.facts()]

    def tensor(
        self, place: tuple[str, int, int], datatype: DataType, shape: tuple[int, ...], held: list[HeldMemory]
    ) -> Tensor:
        """Return a tensor with a copy of the current bytes. Raise NoRoomError if no memory is left for a request with
        it.

        Args:
            place: the region, offset and size.
            datatype: the tensor's datatype.
            shape: its dimensions.
            held: a list of objects that count the memory of its request until they are dropped.
        """
        name, offset, size = place
        region = self._find(name, offset, size)
        make = partial(region.tensor, offset, size, datatype, shape)
        try:
            if size <= UNCOUNTED or not region.copies(datatype):
                return make()
            tensor, counted = self._memory.copy(size, make)
        except (OSError, MemoryError) as error:  # a file may be any size, without a byte of memory
            raise _unread(region, error) from None
        held.append(counted)
        return tensor

    def read(self, name: str, offset: int, size: int) -> memoryview:
        """Return a copy of the current bytes."""
        region = self._find(name, offset, size)
        try:
            return region.read(offset, size)
        except (OSError, MemoryError) as error:
            raise _unread(region, error) from None

    def copy(self, name: str, offset: int, tensor: Tensor) -> bool:
        """Copy a tensor on a GPU to a region on a GPU. Returns False if the region is in host memory."""
        memory: Any = tensor.data
        return not memory.nbytes or self._find(name, offset, memory.nbytes).copy(offset, memory)

    def write(self, name: str, offset: int, data: NDArray[Any] | bytes | memoryview) -> Region | None:
        """Write the bytes of `data`, which is C-contiguous, at `offset`. Returns the region; None if there is nothing
        to write. Raises UnavailableError if no memory is left for new pages of the region."""
        view = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data)
        if not view.nbytes:
            return None
        region = self._find(name, offset, view.nbytes)
        new = min(region.missing_bytes(), view.nbytes) if view.nbytes > UNCOUNTED else 0
        held = self._memory.hold_write(new) if new else None
        try:
            region.write(offset, view)
        except OSError as error:  # of a full /dev/shm
            raise InternalError(f"failed to write shared memory region '{name}': {error}") from None
        del held
        return region

    def check(self, name: str, offset: int, size: int) -> None:
        """Raise the errors of `write`, before the request runs."""
        self._find(name, offset, size).check(offset, size)

    def _find(self, name: str, offset: int, size: int) -> Region:
        self._check_allowed()
        region = self._regions.get(name)
        if region is None:
            raise NotFoundError(f"Unable to find shared memory region: '{name}'")
        # Triton adds the registered offset to both ends and then reads beyond the mapping (measured); not here.
        if not 0 <= offset < region.byte_size:
            raise InvalidArgumentError(f"Invalid offset for shared memory region: '{name}'")
        # Triton compares with the last byte: nothing at offset 0 is out of bounds, too (measured).
        if size < 0 or not 0 <= offset + size - 1 < region.byte_size:
            raise InvalidArgumentError(OUTSIDE.format(name))
        return region

    def _check_allowed(self) -> None:
        if not self._allowed:
            raise UnsupportedError(self._refusal)


def _unread(region: Region, error: Exception) -> InternalError:
    return InternalError(f"failed to read shared memory region '{region.name}': {error}")
