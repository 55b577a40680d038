"""The interface to GPUs: memory, handles by which another process opens it, and copies.

`cuda_driver` does it with NVIDIA's driver, `simulated_driver` without any GPU; `gpus.py` finds the driver of an address
or a handle. An address is a number, which only its driver can read.

Everything runs on a device's default stream, in order, and `synchronize` waits for all work of this process on the
device, on any stream. A process that gives memory to another one calls it before it sends the message. So no event has
to cross the border, and a reader on any stream finds the bytes.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

#: Bytes of a memory handle in CUDA.
HANDLE_SIZE = 64

#: CUresult values with an advice, or that other drivers than NVIDIA's raise, too.
INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE, INVALID_DEVICE = 1, 2, 3, 100, 101
INVALID_CONTEXT, INVALID_HANDLE, ILLEGAL_ADDRESS, NOT_SUPPORTED = 201, 400, 700, 801
#: The error number if the driver could not be loaded.
NO_DRIVER = -1

_ADVICE = {
    OUT_OF_MEMORY: "Free GPU memory, of other models or processes too, or send less at once.",
    NOT_INITIALIZED: "A forked process cannot use the GPU that its parent has used: start a new one (`spawn`).",
    NO_DEVICE: "Look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES.",
    INVALID_DEVICE: "Look at CUDA_VISIBLE_DEVICES: devices are counted from 0 among those that it names.",
    INVALID_CONTEXT: "A handle can be opened by another process only, not by the one that made it.",
    INVALID_HANDLE: "The process that made it has freed the memory, or has ended.",
    ILLEGAL_ADDRESS: "Code of the model wrote or read outside its memory; the process cannot use the GPU any more.",
    NOT_SUPPORTED: "Memory of cudaMallocAsync or of expandable segments cannot be shared: use plain cudaMalloc.",
    NO_DRIVER: "Install NVIDIA's driver, and give a container its GPUs (`docker run --gpus=all`).",
}


class DriverError(Exception):
    """A call of the driver that failed. `code` is the CUresult; the text has the call, the driver's answer, and the
    remedy.
    """

    def __init__(self, what: str, code: int, text: str) -> None:
        super().__init__(what, code, text)
        self.code = code

    def __str__(self) -> str:
        what, code, text = self.args
        advice = _ADVICE.get(code, "")
        return "%s: %s.%s" % (what, text, " " + advice if advice else "")


class DeviceFacts(NamedTuple):
    """The constant facts of a device. `compute` is its compute capability, such as (9, 0)."""

    ordinal: int
    uuid: str
    name: str
    total_bytes: int
    compute: Tuple[int, int]
    simulated: bool


class Driver:
    """The GPUs of this machine, as seen by one process. Every method may raise DriverError, and may be
    called by any thread. The first use of a device's memory makes its context in this process; `devices` makes none."""

    #: whether no real GPU is behind it, which must be shown next to its figures
    simulated = False

    def devices(self) -> List[DeviceFacts]:
        """Return the devices by their ordinals. Raises DriverError without a driver or a device."""
        raise NotImplementedError

    def free_bytes(self, device: int) -> int:
        """Return the unallocated bytes of the device."""
        raise NotImplementedError

    def allocate(self, device: int, nbytes: int) -> int:
        """Allocate memory that can be exported, and return its address."""
        raise NotImplementedError

    def free(self, device: int, address: int) -> None:
        """Free what `allocate` returned. Every process that has opened it must have closed it."""
        raise NotImplementedError

    def base_of(self, address: int) -> Tuple[int, int, int]:
        """Return address, bytes and device of the allocation around `address`, of any owner in this process. Raises
        DriverError if it is not device memory.
        """
        raise NotImplementedError

    def export(self, device: int, base: int) -> bytes:
        """Return the handle of the allocation that begins at `base`. An address inside an allocation has the same
        handle: opening it gives the address of the beginning.
        """
        raise NotImplementedError

    def open(self, device: int, handle: bytes) -> int:
        """Map another process's allocation, and return its address here. Opened twice it must be closed twice."""
        raise NotImplementedError

    def close(self, device: int, address: int) -> None:
        """End an `open`."""
        raise NotImplementedError

    def copy_in(self, device: int, address: int, buffer: Any) -> None:
        """Copy a buffer of host memory to the device. The buffer may be changed afterwards."""
        raise NotImplementedError

    def copy_out(self, device: int, address: int, buffer: Any) -> None:
        """Fill a writable buffer of host memory from the device."""
        raise NotImplementedError

    def copy(self, device: int, target: int, source: int, nbytes: int) -> None:
        """Begin a copy on the device; `synchronize` waits for it."""
        raise NotImplementedError

    def synchronize(self, device: int) -> None:
        """Wait until the device has done all work of this process."""
        raise NotImplementedError
