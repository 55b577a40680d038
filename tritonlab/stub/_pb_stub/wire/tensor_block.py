"""Tensors into one block of a region, and headers back into views: the same code on both sides of the link."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .ipc_message import TensorHeader
from .serialization import MEMORY_CPU
from .shm_manager import Region, RegionReader

#: (name, datatype, shape as a sequence of int, C-contiguous ndarray or bytes)
Wire = Tuple[str, int, Any, Any]
#: The list of a TensorHeader's fields. Whoever sends many of them leaves it at that: the type is for who reads, and
#: would cost a request of four tensors 1 us (Python 3.11).
Row = Any


def pack_tensors(region: Region, wires: Sequence[Wire]) -> Tuple[Optional[int], List[Row]]:
    """Copies the tensors into one new block; its offset (None if there is nothing to hold) and a header for each.

    Raises SharedMemoryError if the region cannot grow.
    """
    total = 0
    sizes = []
    for _, _, _, data in wires:
        size = data.nbytes if isinstance(data, (np.ndarray, memoryview)) else len(data)
        sizes.append(size)
        total += (size + 63) & -64
    block = region.allocate(total) if total else None
    position = block or 0
    headers: List[Row] = []
    try:
        for (name, datatype, shape, data), size in zip(wires, sizes):
            headers.append([name, datatype, shape, MEMORY_CPU, 0, position, size])
            if size:
                region.write(position, data)
                position += (size + 63) & -64
    except BaseException:
        if block is not None:
            region.free(block)
        raise
    return block, headers


def map_block(reader: RegionReader, headers: Sequence[TensorHeader]) -> None:
    """Maps the region far enough for all of a block's tensors at once, so that their views share one mapping."""
    if headers:
        last = headers[-1]  # pack_tensors lays them out in their order
        reader.view(0, last.offset + last.size)
