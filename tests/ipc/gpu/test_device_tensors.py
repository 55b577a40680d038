"""Stubs that lie about device memory: their link breaks, and nothing else."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.ipc.gpu.device_tensors import DeviceTensors
from tritonlab.ipc.gpu.gpu_buffers import GpuBuffers
from tritonlab.stub._pb_stub.devices.simulated_driver import SimulatedDriver
from tritonlab.stub._pb_stub.wire.device_memory import DevicePlace, Lent, packed
from tritonlab.stub._pb_stub.wire.message_bodies import DeviceGrant, DeviceMemory, GivenBack
from tritonlab.stub._pb_stub.wire.serialization import WireError

MIB = 1 << 20


@pytest.fixture
def buffers() -> GpuBuffers:
    return GpuBuffers(SimulatedDriver(count=2, total_bytes=64 * MIB), {0: 2 * MIB})


@pytest.fixture
def link(buffers: GpuBuffers) -> DeviceTensors:
    return DeviceTensors(buffers, inputs=True)


def on_device(buffers: GpuBuffers, count: int = 4) -> Tensor:
    return buffers.on_device(Tensor.from_numpy(np.arange(count, dtype=np.float32)), 0)


def received(link: DeviceTensors, data: bytes, shape: list[Any], datatype: DataType = DataType.FP32) -> Tensor:
    return link.received(datatype, shape, 0, memoryview(data), None)


def granted(link: DeviceTensors, nbytes: int = MIB) -> tuple[DeviceGrant, bytes]:
    grant = link.grant(DeviceMemory(0, nbytes))
    return grant, bytes.fromhex(grant.handle)


def test_what_was_sent_comes_back_as_the_same_memory(buffers: GpuBuffers, link: DeviceTensors) -> None:
    sent = on_device(buffers)
    lent = link.input(sent)
    assert isinstance(lent, Lent) and lent.keep is sent.data
    assert received(link, bytes(lent), [2, 2]).data is sent.data
    place = bytes(lent)
    del lent, sent
    gc.collect()
    with pytest.raises(WireError, match="was not lent"):
        received(link, place, [2, 2])


def test_a_model_on_the_host_gets_the_bytes(buffers: GpuBuffers) -> None:
    link = DeviceTensors(buffers, inputs=False)
    assert link.input(on_device(buffers)).tolist() == [0, 1, 2, 3]
    assert isinstance(link.output(on_device(buffers)), Lent), "what a model has called for stays where it is"


def test_an_output_lies_in_what_the_stub_was_lent(link: DeviceTensors) -> None:
    grant, handle = granted(link)
    found = received(link, packed(DevicePlace(handle, grant.offset + 512, 16)), [4])
    assert found.data.nbytes == 16 and (found.memory_type, found.device_id) == (2, 0)
    assert [lease.size for lease in link._granted.values()] == [MIB]


@pytest.mark.parametrize(
    ("offset", "nbytes"), [(-512, 16), (MIB, 16), (MIB - 8, 16), (0, 1 << 40), (1 << 63, 16), (0, (1 << 64) - 1)]
)
def test_a_place_outside_what_the_stub_was_lent_is_refused(link: DeviceTensors, offset: int, nbytes: int) -> None:
    granted(link)  # so that the next does not begin at 0
    grant, handle = granted(link)
    link._granted.pop((handle, 0))
    with pytest.raises(WireError):
        received(link, packed(DevicePlace(handle, grant.offset + offset, nbytes)), [4])


def test_memory_of_another_link_is_refused(buffers: GpuBuffers, link: DeviceTensors) -> None:
    grant, handle = granted(DeviceTensors(buffers, inputs=True))
    with pytest.raises(WireError, match="was not lent"):
        received(link, packed(DevicePlace(handle, grant.offset, 16)), [4])


@pytest.mark.parametrize("shape", [[5], [3], [-4], ["4"], [True, 4], [2.0, 2], [1 << 70]])
def test_a_shape_of_another_size_is_refused(link: DeviceTensors, shape: list[Any]) -> None:
    grant, handle = granted(link)
    with pytest.raises(WireError):
        received(link, packed(DevicePlace(handle, grant.offset, 16)), shape)


def test_bytes_and_other_devices_and_short_places_are_refused(link: DeviceTensors) -> None:
    grant, handle = granted(link)
    place = packed(DevicePlace(handle, grant.offset, 16))
    with pytest.raises(WireError):
        received(link, place, [4], DataType.BYTES)
    with pytest.raises(WireError, match="of GPU 0"):
        link.received(DataType.FP32, [4], 1, memoryview(place), None)
    with pytest.raises(WireError, match="not a place"):
        received(link, place[:-1], [4])


def test_what_a_stub_may_have_mapped_is_not_freed_before_it_says_so(buffers: GpuBuffers, link: DeviceTensors) -> None:
    large = on_device(buffers, MIB)  # an allocation of its own
    handle = large.data.keep[0].chunk.handle
    link.input(large)
    del large
    buffers.give_back()
    free = buffers.driver.free_bytes(0)
    link.ask_back()
    link.given_back(GivenBack([handle.hex()], []))
    gc.collect()
    assert buffers.driver.free_bytes(0) == free
    link.ask_back()
    link.given_back(GivenBack([], []))
    gc.collect()
    assert buffers.driver.free_bytes(0) == free + 4 * MIB


def test_what_is_sent_while_the_stub_gives_back_counts_as_mapped(buffers: GpuBuffers, link: DeviceTensors) -> None:
    sent = on_device(buffers, MIB)
    link.ask_back()
    link.input(sent)
    link.given_back(GivenBack([], []))
    assert sent.data.keep[0].chunk in link._mapped.values()


def test_grants_go_back_when_the_stub_returns_them_or_ends(buffers: GpuBuffers, link: DeviceTensors) -> None:
    first, _ = granted(link)
    granted(link)
    assert buffers.use(0)[0] == 2 * MIB
    link.ask_back()
    link.given_back(GivenBack([], [first]))
    assert buffers.use(0)[0] == MIB
    link.close()
    assert buffers.use(0)[0] == 0
