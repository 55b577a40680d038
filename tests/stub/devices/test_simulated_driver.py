from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.driver_process import DriverProcess
from tritonlab.stub._pb_stub.devices import gpus
from tritonlab.stub._pb_stub.devices.driver import ILLEGAL_ADDRESS, OUT_OF_MEMORY, DriverError
from tritonlab.stub._pb_stub.devices.simulated_driver import SimulatedDriver

TEXT = b"device memory of 32 bytes, 0123."


@pytest.fixture
def driver() -> SimulatedDriver:
    return SimulatedDriver(count=2, total_bytes=1 << 20)


@pytest.fixture
def other() -> Iterator[DriverProcess]:
    with DriverProcess() as process:
        yield process


def read(driver: SimulatedDriver, address: int, nbytes: int = len(TEXT), device: int = 0) -> bytes:
    found = bytearray(nbytes)
    driver.copy_out(device, address, found)
    return bytes(found)


def refused(what: str, driver: SimulatedDriver, name: str, *arguments: object) -> DriverError:
    with pytest.raises(DriverError, match=what) as caught:
        getattr(driver, name)(*arguments)
    return caught.value


# -- one process


def test_devices_are_marked_as_simulated(driver: SimulatedDriver) -> None:
    first, second = driver.devices()
    assert (first.ordinal, first.simulated, first.total_bytes) == (0, True, 1 << 20)
    assert second.ordinal == 1 and second.uuid != first.uuid and first.name == "Simulated GPU"


def test_bytes_go_in_and_out_and_are_counted(driver: SimulatedDriver) -> None:
    address = driver.allocate(1, 64)
    driver.copy_in(1, address + 8, TEXT)
    assert read(driver, address + 8, device=1) == TEXT
    assert driver.copied == (len(TEXT), len(TEXT), 0)


def test_a_copy_on_the_device_is_done_when_it_was_waited_for(driver: SimulatedDriver) -> None:
    source, target = driver.allocate(0, 32), driver.allocate(0, 32)
    handle = driver.export(0, target)
    driver.copy_in(0, source, TEXT)
    driver.copy(0, target, source, 32)
    with DriverProcess() as other:
        there = other.call("open", 0, handle)
        assert other.call("copy_out", 0, there, bytes(32)) == bytes(32)
        driver.synchronize(0)
        assert other.call("copy_out", 0, there, bytes(32)) == TEXT
    assert driver.copied.on_device == 32


def test_memory_is_limited_and_free_bytes_say_what_is_left(driver: SimulatedDriver) -> None:
    address = driver.allocate(0, 1 << 19)
    assert (driver.free_bytes(0), driver.free_bytes(1)) == (1 << 19, 1 << 20)
    error = refused("allocating 600000 bytes on GPU 0: CUDA_ERROR_OUT_OF_MEMORY", driver, "allocate", 0, 600_000)
    assert error.code == OUT_OF_MEMORY and "Free GPU memory" in str(error)
    driver.free(0, address)
    driver.allocate(0, 600_000)


def test_an_allocation_is_found_by_any_address_in_it(driver: SimulatedDriver) -> None:
    address = driver.allocate(1, 100)
    assert driver.base_of(address + 99) == (address, 100, 1)
    refused("is not memory of a GPU", driver, "base_of", address + 100)
    refused("is not memory of a GPU", driver, "base_of", 4096)


def test_what_was_freed_is_refused(driver: SimulatedDriver) -> None:
    address = driver.allocate(0, 32)
    driver.free(0, address)
    refused("freeing memory of GPU 0", driver, "free", 0, address)
    refused("is not memory of a GPU", driver, "copy_in", 0, address, TEXT)


def test_ends_and_devices_of_memory_are_watched(driver: SimulatedDriver) -> None:
    address = driver.allocate(0, 32)
    assert refused("ILLEGAL_ADDRESS", driver, "copy_in", 0, address + 1, TEXT).code == ILLEGAL_ADDRESS
    refused("ILLEGAL_ADDRESS", driver, "copy_in", 1, address, TEXT)
    refused("no allocation of GPU 0 begins here", driver, "free", 0, address + 8)
    refused("no allocation of GPU 1 begins here", driver, "free", 1, address)
    refused("invalid device ordinal", driver, "allocate", 2, 8)
    refused("CUDA_ERROR_INVALID_VALUE", driver, "allocate", 0, 0)


def test_a_handle_is_of_no_use_to_its_own_process(driver: SimulatedDriver) -> None:
    handle = driver.export(0, driver.allocate(0, 32))
    assert len(handle) == 64
    assert "another process only" in str(refused("INVALID_CONTEXT", driver, "open", 0, handle))
    refused("INVALID_HANDLE", driver, "open", 1, handle)
    refused("INVALID_HANDLE", driver, "open", 0, bytes(64))


# -- two processes


def test_two_processes_read_and_write_the_same_memory(driver: SimulatedDriver, other: DriverProcess) -> None:
    theirs = other.call("allocate", 0, 100)
    handle = bytes.fromhex(other.call("export", 0, theirs + 50))
    here = driver.open(0, handle)
    assert here != theirs and driver.base_of(here + 10) == (here, 100, 0)
    driver.copy_in(0, here + 50, TEXT)
    assert other.call("copy_out", 0, theirs + 50, bytes(32)) == TEXT
    assert driver.free_bytes(0) == 1 << 20  # it is the other's


def test_memory_opened_twice_is_closed_twice(driver: SimulatedDriver, other: DriverProcess) -> None:
    handle = bytes.fromhex(other.call("export", 0, other.call("allocate", 0, 32)))
    here = driver.open(0, handle)
    assert driver.open(0, handle) == here
    driver.close(0, here)
    read(driver, here)
    refused("opened memory is closed", driver, "free", 0, here)
    driver.close(0, here)
    refused("is not memory of a GPU", driver, "close", 0, here)
    assert driver.open(0, handle) != here


def test_memory_ends_with_what_its_owner_does(driver: SimulatedDriver, other: DriverProcess) -> None:
    freed, kept = (other.call("allocate", 0, 32) for _ in range(2))
    handles = [bytes.fromhex(other.call("export", 0, each)) for each in (freed, kept)]
    here = [driver.open(0, handle) for handle in handles]
    other.call("free", 0, freed)
    refused("its owner has no such memory", driver, "copy_in", 0, here[0], TEXT)
    read(driver, here[1])
    other.end()
    assert "or has ended" in str(refused("its owner has no such memory", driver, "copy_in", 0, here[1], TEXT))
    refused("its owner has no such memory", SimulatedDriver(), "open", 0, handles[1])


def test_a_forked_process_cannot_use_what_its_parent_has_begun_to_use(driver: SimulatedDriver) -> None:
    address = driver.allocate(0, 32)
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            driver.copy_in(0, address, TEXT)
        except DriverError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.waitpid(pid, 0)
    text = os.read(ours, 1000).decode()
    os.close(ours)
    assert "CUDA_ERROR_NOT_INITIALIZED" in text and "spawn" in text


# -- which driver


def test_addresses_and_handles_tell_their_driver() -> None:
    address = gpus.SIMULATED.allocate(0, 32)
    assert gpus.driver_of(address) is gpus.SIMULATED
    assert gpus.driver_of(gpus.SIMULATED.export(0, address)) is gpus.SIMULATED
    assert gpus.driver_of(0x7F0000000000) is gpus.CUDA
    assert gpus.driver_of(bytes(64)) is gpus.CUDA
    gpus.SIMULATED.free(0, address)
