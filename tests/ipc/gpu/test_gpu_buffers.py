from __future__ import annotations

import gc

import numpy as np
import pytest

from tritonlab.core.inference.device_array import DeviceArray
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError, UnavailableError
from tritonlab.ipc.gpu.gpu_buffers import GpuBuffers, GpuLease
from tritonlab.stub._pb_stub.devices.driver import DriverError
from tritonlab.stub._pb_stub.devices.simulated_driver import SimulatedDriver
from tritonlab.stub._pb_stub.wire.device_memory import DevicePlace

MIB = 1 << 20


@pytest.fixture
def driver() -> SimulatedDriver:
    return SimulatedDriver(count=2, total_bytes=16 * MIB)


@pytest.fixture
def buffers(driver: SimulatedDriver) -> GpuBuffers:
    return GpuBuffers(driver, {0: 2 * MIB, 1: 0})


def foreign(driver: SimulatedDriver, data: bytes, device: int = 0) -> DeviceArray:
    """Return memory of somebody else."""
    address = driver.allocate(device, len(data))
    driver.copy_in(device, address, data)
    return DeviceArray(driver, device, address, len(data), None)


def test_nothing_is_allocated_before_it_is_needed(driver: SimulatedDriver, buffers: GpuBuffers) -> None:
    assert buffers.use(0) == (0, 0) and driver.free_bytes(0) == 16 * MIB


def test_leases_share_the_pool_and_return_to_it(driver: SimulatedDriver, buffers: GpuBuffers) -> None:
    first, second = buffers.lend(0, 100), buffers.lend(0, MIB)
    assert first.chunk is second.chunk and (first.size, second.offset) == (512, 512)
    assert buffers.use(0) == (512 + MIB, 2 * MIB)
    assert driver.free_bytes(0) == 14 * MIB
    del first, second
    assert buffers.use(0) == (0, 2 * MIB)


def test_a_full_pool_is_followed_by_allocations_of_the_size_that_is_needed(buffers: GpuBuffers) -> None:
    leases = [buffers.lend(0, 2 * MIB), buffers.lend(0, 3 * MIB)]
    assert buffers.use(0) == (5 * MIB, 6 * MIB)
    assert buffers.grown
    buffers.give_back()
    assert not buffers.grown, "what is in use does not go back, and is no reason to ask again"
    del leases[1]
    buffers.give_back()
    assert buffers.use(0) == (2 * MIB, 2 * MIB)


def test_a_pool_of_no_bytes_is_none(buffers: GpuBuffers) -> None:
    lease = buffers.lend(1, 10)
    assert buffers.use(1) == (512, 2 * MIB)
    del lease
    buffers.give_back()
    assert buffers.use(1) == (0, 0)


def test_a_pool_that_does_not_fit_the_device_is_no_reason_to_refuse_a_small_tensor(driver: SimulatedDriver) -> None:
    buffers = GpuBuffers(driver, {0: 32 * MIB})
    lease = buffers.lend(0, 10)
    assert buffers.use(0) == (lease.size, 2 * MIB)


def test_a_full_device_says_what_is_in_use_and_what_the_driver_says(buffers: GpuBuffers) -> None:
    held = buffers.lend(0, MIB)
    with pytest.raises(UnavailableError) as caught:
        buffers.lend(0, 32 * MIB)
    assert caught.value.message.startswith(
        f"no memory for a tensor on GPU 0, where {MIB} bytes are in use for tensors, of a pool of {2 * MIB}: "
        f"allocating {32 * MIB} bytes on GPU 0: CUDA_ERROR_OUT_OF_MEMORY"
    )
    assert held.size == MIB


def test_a_device_that_is_not_there_is_unavailable(buffers: GpuBuffers) -> None:
    with pytest.raises(UnavailableError, match=r"no memory for a tensor on GPU 7.*invalid device ordinal"):
        buffers.lend(7, 10)


def test_a_lease_outlives_the_buffers(driver: SimulatedDriver) -> None:
    lease = GpuBuffers(driver).lend(0, 8)
    gc.collect()
    driver.copy_in(0, lease.array(8).address, b"12345678")
    assert lease.array(8).to_host().tobytes() == b"12345678"
    del lease
    gc.collect()
    assert driver.free_bytes(0) == 16 * MIB


def test_a_closed_pool_is_freed_but_for_what_is_in_use(driver: SimulatedDriver, buffers: GpuBuffers) -> None:
    kept, _ = buffers.lend(0, 8), buffers.lend(1, 8)
    del _
    buffers.close()
    gc.collect()
    assert (driver.free_bytes(0), driver.free_bytes(1)) == (14 * MIB, 16 * MIB)
    del kept
    assert driver.free_bytes(0) == 16 * MIB


def test_memory_of_others_is_copied_on_the_device_once(driver: SimulatedDriver, buffers: GpuBuffers) -> None:
    array = foreign(driver, b"12345678")
    shared = buffers.shared(array)
    assert shared.to_host().tobytes() == b"12345678"
    assert driver.copied == (8, 8, 8)
    assert buffers.shared(shared) is shared
    assert driver.copied.on_device == 8
    lease, _ = shared.keep
    assert isinstance(lease, GpuLease) and shared.place is not None
    assert DevicePlace.read(shared.place) == (lease.chunk.handle, lease.offset, 8)


def test_a_failing_device_is_an_error_of_the_server(driver: SimulatedDriver, buffers: GpuBuffers) -> None:
    array = foreign(driver, b"12345678")
    driver.free(0, array.address)
    for use in (lambda: buffers.shared(array), array.to_host):
        with pytest.raises(InternalError, match=r"copying .* GPU 0: CUDA_ERROR_INVALID_VALUE"):
            use()
    assert buffers.use(0)[0] == 0


def test_simulated_and_real_memory_do_not_mix(driver: SimulatedDriver) -> None:
    with pytest.raises(UnavailableError, match="simulated GPU: start the server with"):
        GpuBuffers(SimulatedDriver()).shared(foreign(driver, b"12345678"))


def test_a_tensor_of_the_host_is_copied_to_a_device(driver: SimulatedDriver, buffers: GpuBuffers) -> None:
    tensor = Tensor.from_numpy(np.arange(6, dtype=np.int16).reshape(2, 3))
    there = buffers.on_device(tensor, 1)
    assert (there.memory_type, there.device_id, there.shape) == (2, 1, (2, 3))
    assert there.to_host().numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert buffers.on_device(Tensor.from_numpy(np.empty(0, np.int16)), 1).to_host().shape == (0,)


def test_freeing_after_the_driver_is_gone_harms_nobody(driver: SimulatedDriver, buffers: GpuBuffers) -> None:
    lease = buffers.lend(0, 8)
    driver.free(0, lease.chunk.base)
    with pytest.raises(DriverError):
        driver.free(0, lease.chunk.base)
    del lease
    buffers._chunks.clear()
    gc.collect()
