"""The author's tensors on their way into the stub's region, and tensors made of what lies in the server's."""

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
#: Bytes of an array below which a second copy costs less than to hold the block that was sent.
_SMALL = 4096

#: A tensor whose array somebody else may change, and its header in the block that was packed
Sent = Tuple["ref[Tensor]", Row]
#: A tensor to be sent, before it is packed, with its place among the wires
Unpacked = Tuple[int, "ref[Tensor]"]


def received_tensors(reader: RegionReader, freed: List[int], block: Optional[int], rows: List[Row]) -> List[Tensor]:
    """Make Tensor objects over a block of the server's region. With the last of them the block goes back, by
    `freed`."""
    # made first, so that the block goes back whatever fails
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
    """Add what is to be sent of each tensor to `wires`, and to `changeable` those whose bytes may become others.

    A tensor is sent again as it was at the first time (rule 1.4.7). So a small array is replaced by its bytes, which
    would be copied anyway the first time.
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
    """Let tensors whose arrays others may change remember, as long as they live, what was sent of them: Triton does not
    read an array again that it has sent once (rule 1.4.7).

    To be called once tensors that nobody can send again are gone, and before the server can give the block back.
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
