"""Tensors made of one block of a stub's region. Small ones are copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.inference.data_type import DataType
from ...core.inference.infer_response import Outputs
from ...core.inference.tensor import Tensor
from ...stub._pb_stub.wire.message_bodies import Row
from ...stub._pb_stub.wire.serialization import ELEMENT_DTYPES, WireError
from ...stub._pb_stub.wire.shm_manager import Lease
from ...stub._pb_stub.wire.tensor_block import check_header
from .stub_link import StubLink

#: Outputs below this many bytes are copied, so that their block goes back at once; a caller gets larger ones as a view
#: that holds the block. A copy of 16 KB takes about as long as building such a view.
COPY_BELOW = 1 << 14

#: How many blocks of small responses go back together.
_MANY = 64

_TYPES = {int(datatype): datatype for datatype in DataType}


class BlockReader:
    """The reader of the tensors of one block of the stub's region."""

    #: whether any of the tensors is in the memory of a GPU
    found_device = False

    def __init__(self, link: StubLink, block: int | None) -> None:
        self._region = link.stub_region
        self._freed = link.freed
        self._block = block
        self._lease: Lease | None = None
        self._link = link

    def tensors(self, rows: Sequence[Row]) -> Outputs[Tensor]:
        """Return the tensors of these headers, by name. Raises WireError or ValueError for invalid headers."""
        found: Outputs[Tensor] = Outputs()
        for row in rows:
            check_header(row)
            name, number, shape, memory_type, device, offset, nbytes = row
            if memory_type:
                found[name] = self._on_device(number, shape, device, offset, nbytes)
            else:
                found[name] = self._tensor(number, shape, offset, nbytes)
        return found

    def _on_device(self, number: int, shape: list[int], device: int, offset: int, nbytes: int) -> Tensor:
        place = self._region.view(offset, nbytes)
        self.found_device = True
        return self._link.devices.received(
            datatype=_TYPES[number], shape=shape, device=device, data=place, lease=self._hold()
        )

    def _hold(self) -> Lease | None:
        """Return an object that keeps the block for as long as it is referenced."""
        if self._lease is None and self._block is not None:
            self._lease = Lease(self._freed, self._block, self._region)
        return self._lease

    def _tensor(self, number: int, shape: list[int], offset: int, nbytes: int) -> Tensor:
        memory: Any
        if nbytes < COPY_BELOW:
            memory = bytearray(self._region.view(offset, nbytes))
        else:
            memory = self._region.array(offset, nbytes, self._hold())
        dtype = ELEMENT_DTYPES[number]
        if dtype is None:
            if not all(type(dim) is int and dim >= 0 for dim in shape):
                raise WireError(f"a tensor of shape {shape!r:.200}")
            return Tensor(DataType.BYTES, tuple(shape), np.ndarray((nbytes,), np.uint8, memory))
        array: np.ndarray[Any, Any] = np.ndarray(shape, dtype, memory)  # raises if the bytes do not fill the shape
        return Tensor(_TYPES[number], array.shape, array)

    def finish(self, *, more: bool = False) -> None:
        """Give the block back, unless a view holds it. `more`: the stub will send more before its next message, perhaps
        for hours; then much free memory is given back now, because its region would grow meanwhile."""
        freed, large = self._freed, self._lease is not None
        if not large and self._block is not None:
            freed.append(self._block)
        self._lease = None
        if more and freed and (large or len(freed) >= _MANY):
            self._link.return_blocks()
