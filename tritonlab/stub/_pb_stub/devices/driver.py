"""What this package needs of GPUs: memory, handles by which another process opens it, and copies.

`cuda_driver` does it with NVIDIA's driver, `simulated_driver` without any GPU; `gpus.py` says which one an address or a
handle belongs to. An address is a number, which nothing but its driver can read.

Everything runs on a device's default stream, in order, and `synchronize` waits for all work of this process on the
device, whatever stream it is on. A process that gives memory to another one calls it before it sends the message. So no
event has to cross the border, and a reader finds the bytes there, on whichever stream it reads.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

#: Bytes of a handle of memory, as CUDA has it.
HANDLE_SIZE = 64

#: CUresult values that get an advice, or that others than NVIDIA's driver raise, too.
INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE, INVALID_DEVICE = 1, 2, 3, 100, 101
INVALID_CONTEXT, INVALID_HANDLE, ILLEGAL_ADDRESS, NOT_SUPPORTED = 201, 400, 700, 801
#: The number of an error that the driver did not give, as it could not be loaded.
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
    """A call of the driver that failed. `code` is the CUresult; the text says what was done, what the driver answers,
    and what can be done."""

    def __init__(self, what: str, code: int, text: str) -> None:
        super().__init__(what, code, text)
        self.code = code

    def __str__(self) -> str:
        what, code, text = self.args
        advice = _ADVICE.get(code, "")
        return "%s: %s.%s" % (what, text, " " + advice if advice else "")


class DeviceFacts(NamedTuple):
    """What does not change of a device. `compute` is its compute capability, such as (9, 0)."""

    ordinal: int
    uuid: str
    name: str
    total_bytes: int
    compute: Tuple[int, int]
    simulated: bool


class Driver:
    """The GPUs of this machine as one process sees them. Every method may raise DriverError, and may be
    called by any thread. The first use of a device's memory makes its context in this process; `devices` makes none."""

    #: whether no real GPU is behind it: to be told wherever a person sees a figure of it
    simulated = False

    def devices(self) -> List[DeviceFacts]:
        """Return the devices by their ordinals. Raises DriverError where there is no driver or no device."""
        raise NotImplementedError

    def free_bytes(self, device: int) -> int:
        """Return how many bytes of the device nobody has allocated."""
        raise NotImplementedError

    def allocate(self, device: int, nbytes: int) -> int:
        """Allocate memory that can be exported, and return its address."""
        raise NotImplementedError

    def free(self, device: int, address: int) -> None:
        """Free what `allocate` returned. Every process that has opened it must have closed it before."""
        raise NotImplementedError

    def base_of(self, address: int) -> Tuple[int, int, int]:
        """Return address, bytes and device of the allocation that `address` lies in, of any owner in this process.
        Raises DriverError for what is not device memory."""
        raise NotImplementedError

    def export(self, device: int, base: int) -> bytes:
        """Return the handle of the allocation that begins at `base`. That of an address inside one is its handle, too:
        opening it gives the address of the beginning."""
        raise NotImplementedError

    def open(self, device: int, handle: bytes) -> int:
        """Map another process's allocation, and return the address that it has here. Opened twice it must be closed
        twice."""
        raise NotImplementedError

    def close(self, device: int, address: int) -> None:
        """End what `open` began."""
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
