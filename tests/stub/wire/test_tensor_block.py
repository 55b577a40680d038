from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tritonlab.stub._pb_stub.wire.device_memory import DevicePlace, Lent, packed
from tritonlab.stub._pb_stub.wire.ipc_message import ROW
from tritonlab.stub._pb_stub.wire.message_bodies import Response, TensorHeader
from tritonlab.stub._pb_stub.wire.serialization import MEMORY_CPU_PINNED, MEMORY_GPU, WireError
from tritonlab.stub._pb_stub.wire.shm_manager import Region, RegionReader, SharedMemoryError, create_region_file
from tritonlab.stub._pb_stub.wire.tensor_block import check_header, map_block, pack_tensors

MIB = 1 << 20
FP32, BYTES, INT8 = 11, 13, 6


class Shared:
    """A region and its reader."""

    def __init__(self, limit: int | None = None) -> None:
        self.fd = create_region_file("test")
        self.region = Region(self.fd, MIB, MIB, limit)
        self.reader = RegionReader(self.fd)

    def bytes_of(self, row: list[Any]) -> bytes:
        (header,) = read_headers([row])
        return bytes(self.reader.view(header.offset, header.size))


@pytest.fixture
def shared() -> Iterator[Shared]:
    shared = Shared(limit=8 * MIB)
    yield shared
    os.close(shared.fd)


def test_tensors_of_a_batch_share_one_block(shared: Shared) -> None:
    first, second = np.arange(5, dtype=np.float32), b"\3\0\0\0abc"
    block, headers = pack_tensors(shared.region, [("A", FP32, [5], first), ("B", BYTES, [1], second)])
    assert [header[:5] for header in headers] == [["A", FP32, [5], 0, 0], ["B", BYTES, [1], 0, 0]]
    assert shared.bytes_of(headers[0]) == first.tobytes()
    assert shared.bytes_of(headers[1]) == second
    assert headers[0][5] == block
    assert headers[1][5] % 64 == 0
    assert block is not None
    shared.region.free(block)
    assert shared.region.used == 0


@pytest.mark.parametrize(
    "wires",
    [[], [("A", FP32, [0], np.empty(0, np.float32))], [("A", BYTES, [0], b""), ("B", FP32, [0, 3], np.empty((0, 3)))]],
)
def test_nothing_needs_no_block(shared: Shared, wires: list[Any]) -> None:
    block, headers = pack_tensors(shared.region, wires)
    assert block is None
    assert [header[6] for header in headers] == [0] * len(wires)
    assert all(shared.bytes_of(header) == b"" for header in headers)
    assert shared.region.used == 0


def test_empty_tensors_among_others(shared: Shared) -> None:
    data = np.arange(3, dtype=np.int8)
    _, headers = pack_tensors(
        shared.region, [("E", FP32, [0], np.empty(0, np.float32)), ("D", INT8, [3], data), ("F", BYTES, [0], b"")]
    )
    map_block(shared.reader, read_headers(headers))
    assert [shared.bytes_of(header) for header in headers] == [b"", data.tobytes(), b""]


def test_a_scalar_has_no_dimensions(shared: Shared) -> None:
    _, (header,) = pack_tensors(shared.region, [("S", FP32, [], np.array(2.5, np.float32))])
    assert header[2] == []
    assert shared.bytes_of(header) == np.float32(2.5).tobytes()


def test_mapping_a_block_maps_all_of_it(shared: Shared) -> None:
    wires = [("A", INT8, [2 * MIB], np.full(2 * MIB, 1, np.int8)), ("B", INT8, [2 * MIB], np.full(2 * MIB, 2, np.int8))]
    _, headers = pack_tensors(shared.region, wires)
    memory = map_block(shared.reader, read_headers(headers))
    views = [memory[header.offset : header.offset + header.size] for header in read_headers(headers)]
    assert [bytes(view[-2:]) for view in views] == [b"\1\1", b"\2\2"]
    assert views[0].obj is views[1].obj


def test_a_region_that_cannot_grow_keeps_nothing(shared: Shared) -> None:
    with pytest.raises(SharedMemoryError):
        pack_tensors(shared.region, [("A", INT8, [9 * MIB], np.empty(9 * MIB, np.int8))])
    assert shared.region.used == 0


def test_a_tensor_that_cannot_be_written_keeps_nothing(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(offset: int, data: Any) -> int:
        raise MemoryError

    monkeypatch.setattr(shared.region, "write", out_of_memory)
    with pytest.raises(MemoryError):
        pack_tensors(shared.region, [("A", INT8, [4], np.zeros(4, np.int8))])
    assert shared.region.used == 0


def read_headers(rows: list[Any]) -> list[TensorHeader]:
    """Return headers as they come out of a message, checked."""
    for row in ROW[Response].read([0, None, rows, None, ""]).tensors:
        check_header(row)
    return [TensorHeader._make(row) for row in rows]


GOOD = TensorHeader("A", FP32, [1, 2], 0, 0, 64, 8)
ON_GPU = TensorHeader("A", FP32, [1, 2], MEMORY_GPU, 3, 64, 80)


def test_an_honest_header_passes() -> None:
    honest = [GOOD, TensorHeader("", BYTES, [], 0, 0, 0, 0), ON_GPU]
    assert read_headers([list(header) for header in honest]) == honest


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, 1),
        (0, None),
        (1, "FP32"),
        (1, 0),
        (1, 15),
        (1, True),
        (2, (1, 2)),
        (2, None),
        (3, MEMORY_CPU_PINNED),
        (3, "0"),
        (4, 1),
        (5, "64"),
        (5, 1.0),
        (5, True),
        (6, None),
    ],
)
def test_other_headers_are_refused(position: int, value: object) -> None:
    fields: list[Any] = list(GOOD)
    fields[position] = value
    with pytest.raises(WireError, match="tensor header"):
        read_headers([fields])


@pytest.mark.parametrize("device", [-1, "0", None, True, 1.0])
def test_other_devices_are_refused(device: object) -> None:
    with pytest.raises(WireError, match="tensor header"):
        read_headers([[*ON_GPU[:4], device, *ON_GPU[5:]]])


def test_a_place_crosses_instead_of_the_bytes_and_is_kept_until_the_block_comes_back(shared: Shared) -> None:
    class Memory:
        pass

    memory = Memory()
    alive = weakref.ref(memory)
    wires: list[Any] = [
        ("A", FP32, [1, 2], Lent.from_place(packed(DevicePlace(b"h" * 64, 512, 8)), 3, memory)),
        ("B", FP32, [2], np.ones(2, np.float32)),
    ]
    block, headers = pack_tensors(shared.region, wires)
    first, second = read_headers(headers)
    assert (first.memory_type, first.device_id, second.memory_type) == (MEMORY_GPU, 3, 0)
    assert DevicePlace.read(shared.reader.view(first.offset, first.size)) == (b"h" * 64, 512, 8)
    del wires, memory
    assert alive() is not None
    assert block is not None
    shared.region.free(block)
    assert alive() is None


@pytest.mark.parametrize("header", [None, [], "header", list(GOOD[:6]), [*GOOD, 1], {"name": "A"}])
def test_other_layouts_are_refused(header: Any) -> None:
    with pytest.raises(WireError, match="tensor header"):
        read_headers([header])


@pytest.mark.parametrize(("offset", "size"), [(0, 2 * MIB), (-64, 64), (1 << 40, 8), (64, -8)])
def test_a_header_outside_the_region_is_refused(shared: Shared, offset: int, size: int) -> None:
    with pytest.raises(WireError):
        map_block(shared.reader, [TensorHeader("A", FP32, [1], 0, 0, offset, size)])
        shared.reader.view(offset, size)
