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
    sizes = [data.nbytes if isinstance(data, (np.ndarray, memoryview)) else len(data) for _, _, _, data in wires]
    total = 0
    for size in sizes:
        total += (size + 63) & -64
    if total == 0:
        return None, [[name, datatype, list(shape), MEMORY_CPU, 0, 0, 0] for name, datatype, shape, _ in wires]
    block = region.allocate(total)
    offset = block
    headers = []
    for (name, datatype, shape, data), size in zip(wires, sizes):
        if size:
            region.write(offset, data)
        headers.append([name, datatype, list(shape), MEMORY_CPU, 0, offset, size])
        offset += (size + 63) & -64
    return block, headers


def check_header(header: Header) -> None:
    """Raises WireError unless `header` has the layout of `serialization.py`; its range is checked when it is mapped."""
    if type(header) is not list or len(header) != 7:
        raise WireError("tensor header %r" % (header,))
    name, datatype, shape, memory_type, device_id, offset, size = header
    if (
        type(name) is not str
        or type(datatype) is not int
        or not 0 < datatype < 15
        or type(shape) is not list
        or type(offset) is not int
        or type(size) is not int
        or memory_type != MEMORY_CPU
        or device_id != 0
    ):
        raise WireError("tensor header %r" % (header,))


def map_block(reader: RegionReader, headers: Sequence[Header]) -> None:
    """Maps the region far enough for all of a block's tensors at once, so that their views share one mapping."""
    if headers:
        reader.view(0, max(header[5] + header[6] for header in headers))
