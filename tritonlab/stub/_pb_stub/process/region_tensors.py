"""The author's tensors on their way into the stub's region, and tensors made of data in the server's region."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple
from weakref import ref

import numpy as np

from ..api.dlpack import Imported
from ..api.pb_tensor import Tensor
from ..wire.message_bodies import Row, TensorHeader
from ..wire.shm_manager import Hold, Lease, Region, RegionReader
from ..wire.tensor_block import Wire, map_block

_ndarray = np.ndarray
#: Bytes of an array below which a second copy costs less than holding the sent block.
_SMALL = 4096

#: A tensor whose array others may change, and its header in the packed block
Sent = Tuple["ref[Tensor]", Row]
#: A tensor to be sent, before it is packed, with its place among the wires
Unpacked = Tuple[int, "ref[Tensor]"]


def received_tensors(reader: RegionReader, freed: List[int], block: Optional[int], rows: List[Row]) -> List[Tensor]:
    """Make Tensor objects over a block of the server's region. With the last one the block is returned, by `freed`."""
    # made first, so that the block is returned in any case
    lease = None if block is None else Lease(freed, block, reader)
    memory = map_block(reader, rows)
    received = Tensor._received
    return [
        received(
            name,
            datatype,
            shape,
            view=memory[offset : offset + size],
            lease=lease,
            memory_type=memory_type,
            device_id=device,
        )
        for name, datatype, shape, memory_type, device, offset, size in rows
    ]


def add_wires(wires: List[Wire], tensors: Sequence[Tensor], changeable: List[Unpacked]) -> None:
    """Add the data of each tensor to `wires`, and the tensors whose bytes may change to `changeable`.

    A tensor is sent again with the data of the first time (rule 1.4.7). So a small array is replaced by its bytes,
    which the first time copies anyway.
    """
    for tensor in tensors:
        datatype, shape, data = tensor._wire()
        if type(data) is _ndarray:
            if data.nbytes < _SMALL:
                data = tensor._data = tensor._source = memoryview(data.tobytes())
            else:
                changeable.append((len(wires), ref(tensor)))
        elif isinstance(tensor._keep, Imported):
            changeable.append((len(wires), ref(tensor)))
        wires.append((tensor._name, datatype, shape, data))


def keep_sent(region: Region, block: Optional[int], tensors: Sequence[Sent]) -> None:
    """Make tensors whose arrays may change remember their sent data as long as they live: Triton reads an array only at
    the first time (rule 1.4.7).

    Call it once tensors that cannot be sent again are gone, and before the server can return the block.
    """
    hold: Optional[Hold] = None
    for reference, row in tensors:
        tensor: Any = reference()
        if tensor is None:
            continue
        header = TensorHeader._make(row)
        if header.size:
            assert block is not None
            hold = hold or region.hold(block)
            tensor._data = tensor._source = region.buffer[header.offset : header.offset + header.size]
            tensor._keep = hold
