"""Tensors packed into a block of a region, and a block mapped for readers: one code for both ends of the link."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .device_memory import Lent
from .message_bodies import Row
from .serialization import MEMORY_CPU, MEMORY_GPU, WireError
from .shm_manager import Region, RegionReader

_EMPTY = memoryview(b"")

#: (name, datatype, shape as a sequence of int, C-contiguous ndarray or bytes; a Lent of a tensor on a device)
Wire = Tuple[str, int, Any, Any]


def pack_tensors(region: Region, wires: Sequence[Wire]) -> Tuple[Optional[int], List[Row]]:
    """Copy the tensors into one new block; for tensors on a device, their places. Returns the block's offset (None if
    the tensors have no bytes) and a header for each tensor.

    Raises SharedMemoryError if the region cannot grow.
    """
    total = 0
    headers: List[Row] = []
    lent = False
    for name, datatype, shape, data in wires:
        if isinstance(data, (np.ndarray, memoryview)):
            size = data.nbytes
        else:
            size = len(data)
            lent = lent or type(data) is Lent
        headers.append([name, datatype, list(shape), MEMORY_CPU, 0, total, size])
        total += (size + 63) & -64
    if not total:
        return None, headers
    block = region.allocate(total)
    try:
        for wire, header in zip(wires, headers):
            header[5] += block  # its offset
            if header[6]:  # its size
                region.write(header[5], wire[3])
    except BaseException:
        region.free(block)
        raise
    if lent:
        _mark_lent(region, block, wires, headers)
    return block, headers


def _mark_lent(region: Region, block: int, wires: Sequence[Wire], headers: Sequence[Row]) -> None:
    """Mark the tensors on a device in the headers, and make the block keep their memory."""
    lent = []
    for (_, _, _, data), header in zip(wires, headers):
        if type(data) is Lent:
            header[3:5] = MEMORY_GPU, data.device
            lent.append(data)
    region.keep(block, lent)


def check_header(row: Row) -> None:
    """Raise WireError unless the row has the fields of a TensorHeader; its range is checked when it is mapped."""
    try:
        name, datatype, shape, memory_type, device_id, offset, size = row
    except (TypeError, ValueError):
        raise WireError("tensor header %.200r" % (row,)) from None
    if (
        type(name) is not str
        or type(datatype) is not int
        or type(shape) is not list
        or type(offset) is not int
        or type(size) is not int
        or not 0 < datatype < 15
        or ((memory_type != MEMORY_CPU or device_id != 0) and not _is_device(memory_type, device_id))
    ):
        raise WireError("tensor header %.200r" % (row,))


def _is_device(memory_type: Any, device_id: Any) -> bool:
    return memory_type == MEMORY_GPU and type(device_id) is int and device_id >= 0


def map_block(reader: RegionReader, rows: Sequence[Row]) -> memoryview:
    """Map the region far enough for all of a block's tensors at once, so that their views share one mapping. Returns
    the region up to their end; empty if there are none. Raises WireError if the region is shorter."""
    if not rows:
        return _EMPTY
    _, _, _, _, _, offset, size = rows[-1]  # in the order of pack_tensors
    return reader.view(0, offset + size)
