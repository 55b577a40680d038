"""Regions of clients: registration, bounds, and keys that must not lead out of /dev/shm. The texts are 2.51's."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
    UnsupportedError,
)
from tritonlab.frontends.shared.cuda_region import CudaRegion
from tritonlab.frontends.shared.request_memory import HeldMemory, NoRoomError, RequestMemory
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.ipc.processes.memory_room import RESERVE, MemoryRoom

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def key() -> Iterator[str]:
    """Yield the key of a region of two pages; its 32-bit words count from 0."""
    name = f"tritonlab_test_{uuid.uuid4().hex}"
    path = Path("/dev/shm") / name
    path.write_bytes(np.arange(2 * PAGE // 4, dtype=np.uint32).tobytes())
    yield f"/{name}"
    path.unlink(missing_ok=True)


@pytest.fixture
def manager() -> SharedMemoryManager:
    return SharedMemoryManager(allowed=True)


def refusal(error: type[TritonError], text: str) -> AbstractContextManager[object]:
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def test_everything_is_refused_unless_allowed(key: str) -> None:
    manager = SharedMemoryManager()
    text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
    for call in (
        lambda: manager.register_system("a", key, 0, 8),
        lambda: manager.register_cuda("a", bytes(64), 0, 8),
        lambda: manager.unregister("a"),
        lambda: manager.unregister(),
        lambda: manager.unregister("a", CudaRegion),
        lambda: manager.unregister(kind=CudaRegion),
        lambda: manager.status(),
        lambda: manager.status(kind=CudaRegion),
        lambda: manager.read("a", 0, 8),
        lambda: manager.write("a", 0, b"12345678"),
        lambda: manager.check("a", 0, 8),
    ):
        with refusal(UnsupportedError, text):
            call()


def test_a_region_is_read_and_written_where_it_was_registered(manager: SharedMemoryManager, key: str) -> None:
    manager.register_system("a", key, PAGE, 64)
    assert np.frombuffer(manager.read("a", 8, 8), np.uint32).tolist() == [PAGE // 4 + 2, PAGE // 4 + 3]
    manager.write("a", 60, np.array([7], np.int32))
    manager.write("a", 0, np.array([[1, 2]], np.uint16))
    manager.write("a", 0, b"")
    content = np.frombuffer((Path("/dev/shm") / key[1:]).read_bytes(), np.uint32)
    assert content[PAGE // 4 + 15] == 7
    assert content[PAGE // 4] == 2 << 16 | 1


def test_what_is_read_is_a_copy_and_outlives_its_registration(manager: SharedMemoryManager, key: str) -> None:
    manager.register_system("a", key, 0, 8)
    manager.write("a", 0, b"abcdefgh")
    view = manager.read("a", 0, 8)
    assert view.readonly
    manager.write("a", 0, b"ABCDEFGH")
    manager.unregister("a")
    assert bytes(view) == b"abcdefgh"


def times_open(key: str) -> int:
    """Return how many descriptors of this process are the key's file."""
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # others of the process open and close some
            count += os.readlink(f"/proc/self/fd/{number}") == f"/dev/shm/{key.strip('/')}"
    return count


def test_a_region_keeps_its_file_open_until_it_is_unregistered(manager: SharedMemoryManager, key: str) -> None:
    manager.register_system("a", key, 0, 8)
    manager.register_system("b", key, 0, 8)
    assert times_open(key) == 2
    manager.unregister("a")
    assert times_open(key) == 1
    for bad in (0, 3 * PAGE):
        with pytest.raises(InvalidArgumentError):
            manager.register_system("a", key, 0, bad)
    manager.unregister()
    assert times_open(key) == 0


def test_two_names_may_share_a_key(manager: SharedMemoryManager, key: str) -> None:
    """2.51 fails here: it remembers the descriptor it has closed (measured)."""
    manager.register_system("a", key, 0, 8)
    manager.register_system("b", key[1:], 0, 16)
    assert manager.status() == [
        {"name": "a", "key": key, "offset": 0, "byte_size": 8},
        {"name": "b", "key": key[1:], "offset": 0, "byte_size": 16},
    ]


def test_a_name_is_taken_until_it_is_unregistered(manager: SharedMemoryManager, key: str) -> None:
    manager.register_system("a", key, 0, 8)
    with refusal(AlreadyExistsError, "shared memory region 'a' already in manager"):
        manager.register_system("a", key, 0, 8)
    manager.unregister("a")
    manager.unregister("never there")
    with refusal(NotFoundError, "Unable to find system shared memory region: 'a'"):
        manager.status("a")
    manager.register_system("a", key, 0, 8)
    manager.unregister()
    assert manager.status() == []


@pytest.mark.parametrize("name", ["", "/", ".", "..", "/../etc/passwd", "sub/x", "x" * 300, "tritonlab_not_there"])
def test_a_key_cannot_leave_the_place_of_shared_memory(manager: SharedMemoryManager, name: str) -> None:
    with refusal(InternalError, f"Unable to open shared memory region: '{name}'"):
        manager.register_system("a", name, 0, 8)


def test_a_key_that_is_a_link_is_not_followed(manager: SharedMemoryManager, tmp_path: Path, key: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(PAGE))
    link = Path("/dev/shm") / f"{key[1:]}_link"
    link.symlink_to(tmp_path / "secret")
    try:
        with refusal(InternalError, f"Unable to open shared memory region: '{link.name}'"):
            manager.register_system("a", link.name, 0, 8)
    finally:
        link.unlink()


@pytest.mark.rule("2.9.3", "6.10.2")
def test_regions_of_tritons_stubs_are_reserved(manager: SharedMemoryManager) -> None:
    with refusal(
        InvalidArgumentError,
        "cannot register shared memory region 'a' - invalid shm key 'triton_python_backend_shm_region_1' as the key "
        "contains the reserved prefix 'triton_python_backend_shm_region_'",
    ):
        manager.register_system("a", "triton_python_backend_shm_region_1", 0, 8)


@pytest.mark.parametrize(
    ("offset", "size", "why"),
    [
        (0, 2 * PAGE + 1, "invalid args"),
        (2 * PAGE, PAGE, "invalid args"),
        (2**63, 2**63, "invalid args"),
        (0, 0, "unable to process address spaceInvalid argument"),
        (100, 100, "unable to process address spaceInvalid argument"),
    ],
)
def test_what_does_not_fit_the_region_is_not_registered(
    manager: SharedMemoryManager, key: str, offset: int, size: int, why: str
) -> None:
    with refusal(InvalidArgumentError, f"failed to register shared memory region 'a': {why}"):
        manager.register_system("a", key, offset, size)
    assert manager.status() == []


@pytest.mark.parametrize("registered", [0, PAGE])
@pytest.mark.parametrize(
    ("offset", "size", "what"),
    [
        (64, 1, "offset"),
        (-1, 8, "offset"),
        (0, 65, "offset + byte size"),
        (63, 2, "offset + byte size"),
        (0, 0, "offset + byte size"),
        (8, -8, "offset + byte size"),
        (16, 2**64 - 8, "offset + byte size"),
    ],
)
def test_no_byte_outside_a_region_is_reached(
    manager: SharedMemoryManager, key: str, registered: int, offset: int, size: int, what: str
) -> None:
    manager.register_system("a", key, registered, 64)
    for call in (manager.read, manager.check):
        with refusal(InvalidArgumentError, f"Invalid {what} for shared memory region: 'a'"):
            call("a", offset, size)


def test_unknown_regions_are_not_found(manager: SharedMemoryManager) -> None:
    with refusal(NotFoundError, "Unable to find shared memory region: 'zz'"):
        manager.read("zz", 0, 8)
    with refusal(NotFoundError, "Unable to find shared memory region: 'zz'"):
        manager.write("zz", 0, b"1")


# what a client does to its file


def cut_off(key: str, size: int) -> str:
    return (
        "Invalid offset + byte size for shared memory region: 'a': "
        f"its file '{key}' was made smaller after it was registered, it has {size} bytes"
    )


@pytest.mark.parametrize("offset", [PAGE, PAGE - 8])
def test_a_region_made_smaller_is_refused_not_a_bus_error(manager: SharedMemoryManager, key: str, offset: int) -> None:
    manager.register_system("a", key, 0, 2 * PAGE)
    os.truncate(Path("/dev/shm") / key[1:], PAGE)
    assert len(manager.read("a", 0, PAGE)) == PAGE
    manager.check("a", 0, PAGE)
    manager.write("a", 0, bytes(PAGE))
    for call in (
        lambda: manager.read("a", offset, 16),
        lambda: manager.check("a", offset, 16),
        lambda: manager.write("a", offset, bytes(16)),
    ):
        with refusal(InvalidArgumentError, cut_off(key, PAGE)):
            call()
    assert (Path("/dev/shm") / key[1:]).stat().st_size == PAGE  # nothing was added to it


@pytest.mark.parametrize("act", ["read", "write"])
def test_a_region_made_smaller_after_its_bounds_were_checked(
    manager: SharedMemoryManager, key: str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    manager.register_system("a", key, PAGE, PAGE)
    find = manager._find

    def find_and_cut(*place: Any) -> Any:
        region = find(*place)
        os.truncate(Path("/dev/shm") / key[1:], PAGE + 100)
        return region

    monkeypatch.setattr(manager, "_find", find_and_cut)
    with refusal(InvalidArgumentError, cut_off(key, PAGE + 100)):
        manager.read("a", 96, 16) if act == "read" else manager.write("a", 96, bytes(16))


def test_a_file_that_is_removed_or_replaced_stays_the_region(manager: SharedMemoryManager, key: str) -> None:
    path = Path("/dev/shm") / key[1:]
    manager.register_system("a", key, 0, 8)
    path.unlink()
    path.write_bytes(b"")
    manager.write("a", 0, b"abcdefgh")
    assert bytes(manager.read("a", 0, 8)) == b"abcdefgh"
    assert path.read_bytes() == b""


def test_a_key_that_is_no_file_is_no_region(manager: SharedMemoryManager, key: str) -> None:
    path = Path("/dev/shm") / f"{key[1:]}_other"
    for make, remove in ((path.mkdir, path.rmdir), (lambda: os.mkfifo(path), path.unlink)):
        make()
        try:
            with refusal(InternalError, f"Unable to open shared memory region: '{path.name}'"):
                manager.register_system("a", path.name, 0, 8)
        finally:
            remove()


def test_more_than_there_is_memory_for_is_refused(manager: SharedMemoryManager, key: str) -> None:
    os.truncate(Path("/dev/shm") / key[1:], 1 << 45)  # no byte of memory
    manager.register_system("a", key, 0, 1 << 45)
    with pytest.raises(InternalError, match=r"^failed to read shared memory region 'a': Unable to allocate"):
        manager.read("a", 0, 1 << 45)


def test_a_system_without_room_is_an_error_of_the_request(
    manager: SharedMemoryManager, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    manager.register_system("a", key, 0, 8)
    monkeypatch.setattr(os, "pwrite", full)
    with refusal(InternalError, "failed to write shared memory region 'a': [Errno 28] No space left on device"):
        manager.write("a", 0, b"abcdefgh")


def test_large_regions_are_read_and_written_whole(manager: SharedMemoryManager, key: str) -> None:
    data = np.arange(3 << 20, dtype=np.uint32)  # in several pieces
    os.truncate(Path("/dev/shm") / key[1:], PAGE + data.nbytes)
    manager.register_system("a", key, PAGE, data.nbytes)
    manager.write("a", 0, data)
    assert np.array_equal(np.frombuffer(manager.read("a", 4, data.nbytes - 4), np.uint32), data[1:])


def test_cuda_regions_are_refused_without_a_gpu_and_none_are_known(manager: SharedMemoryManager, key: str) -> None:
    with refusal(InvalidArgumentError, "failed to register CUDA shared memory region: 'a', GPUs not supported"):
        manager.register_cuda("a", bytes(64), 0, 8)
    assert manager.status(kind=CudaRegion) == []
    manager.unregister("a", CudaRegion)
    with refusal(NotFoundError, "Unable to find cuda shared memory region: 'a'"):
        manager.status("a", CudaRegion)
    manager.register_system("a", key, 0, 8)
    with refusal(NotFoundError, "The region named 'a' is registered as system shared memory, not CUDA shared memory"):
        manager.status("a", CudaRegion)


# memory: a machine has so many bytes left

LARGE = 1 << 20


def on_machine(left: int, key: str) -> SharedMemoryManager:
    """Return a manager whose region `a` has LARGE bytes that are not allocated; one byte is the limit of a message."""
    with (Path("/dev/shm") / key[1:]).open("wb") as file:
        file.truncate(LARGE)
    memory = RequestMemory(1, MemoryRoom(lambda: left + RESERVE, lambda: 0.0))
    manager = SharedMemoryManager(allowed=True, memory=memory)
    manager.register_system("a", key, 0, LARGE)
    return manager


def read(manager: SharedMemoryManager, held: list[HeldMemory], size: int = LARGE) -> Tensor:
    return manager.tensor(("a", 0, size), DataType.UINT8, (size,), held)


def test_an_input_is_read_only_if_there_is_memory_for_its_request(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[HeldMemory] = []
    assert read(on_machine(3 * LARGE, key), held).byte_size == LARGE  # a copy, and two more in the model's process
    manager = on_machine(3 * LARGE - 1, key)
    monkeypatch.setattr(np, "empty", None)  # for the refusal no memory is used
    with pytest.raises(NoRoomError, match=f"^There is no memory for a request of {LARGE} bytes. Send it again later.$"):
        read(manager, held)
    assert len(held) == 1


def test_an_input_is_counted_until_its_request_is_answered(key: str) -> None:
    manager = on_machine(5 * LARGE - 1, key)
    first: list[HeldMemory] = []
    read(manager, first)
    for _ in range(2):
        with pytest.raises(NoRoomError):
            read(manager, [])
    first.clear()
    read(manager, [])


def test_small_inputs_are_read_without_a_look_at_the_memory(key: str) -> None:
    held: list[HeldMemory] = []
    read(on_machine(0, key), held, 1 << 16)
    assert held == []


def test_new_pages_of_a_region_are_written_only_if_there_is_memory_for_them(key: str) -> None:
    manager = on_machine(LARGE - 1, key)
    with refusal(UnavailableError, f"There is no memory for a response of {LARGE} bytes."):
        manager.write("a", 0, bytes(LARGE))
    assert (Path("/dev/shm") / key[1:]).stat().st_blocks == 0
    (Path("/dev/shm") / key[1:]).write_bytes(b"1" * LARGE)
    manager.write("a", 0, bytes(LARGE))
    on_machine(LARGE, key).write("a", 0, bytes(LARGE))
