"""Tensors into one block of a region, and headers back into views: the same code on both sides of the link."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .serialization import MEMORY_CPU, WireError
from .shm_manager import Region, RegionReader

#: (name, datatype, shape, C-contiguous ndarray or bytes)
Wire = Tuple[str, int, Sequence[int], Any]
Header = List[Any]


def pack_tensors(region: Region, wires: Sequence[Wire]) -> Tuple[Optional[int], List[Header]]:
    """Copies the tensors into one new block; its offset (None if there is nothing to hold) and a header for each.

    Raises SharedMemoryError if the region cannot grow.
    """
    total = 0
    plan = []
    for name, datatype, shape, data in wires:
        size = data.nbytes if isinstance(data, (np.ndarray, memoryview)) else len(data)
        plan.append((name, datatype, shape, data, total, size))
        total += (size + 63) & -64
    block = region.allocate(total) if total else None
    headers: List[Header] = []
    try:
        for name, datatype, shape, data, position, size in plan:
            if size:
                assert block is not None
                position += block
                region.write(position, data)
            headers.append([name, datatype, shape, MEMORY_CPU, 0, position, size])
    except BaseException:
        if block is not None:
            region.free(block)
        raise
    return block, headers


def check_header(header: Header) -> None:
    """Raises WireError unless `header` has the layout of `serialization.py`; its range is checked when it is mapped."""
    if type(header) is not list or len(header) != 7:
        raise WireError("tensor header %r" % (header,))
    name, datatype, shape, memory_type, device_id, offset, size = header
    if (
        type(name) is not str
        or type(datatype) is not int
        or type(shape) is not list
        or type(offset) is not int
        or type(size) is not int
        or not 0 < datatype < 15
        or memory_type != MEMORY_CPU
        or device_id != 0
    ):
        raise WireError("tensor header %r" % (header,))


def map_block(reader: RegionReader, headers: Sequence[Header]) -> None:
    """Maps the region far enough for all of a block's tensors at once, so that their views share one mapping."""
    if headers:
        last = headers[-1]  # pack_tensors lays them out in their order
        reader.view(0, last[5] + last[6])
