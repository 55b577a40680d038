"""`DeviceArray`, the device memory of a tensor's elements."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...stub._pb_stub.api.dlpack import CUDA, export_device, import_tensor
from ...stub._pb_stub.api.errors import TritonModelException
from ...stub._pb_stub.api.opened_memory import BorrowedMemory
from ...stub._pb_stub.devices.driver import Driver, DriverError
from ...stub._pb_stub.devices.gpus import driver_of
from ..status import InternalError, InvalidArgumentError, UnsupportedError
from .data_type import DataType

#: The streams of a consumer that nothing has to wait for: the default stream, and none.
_ORDERED = (None, -1, 1)


class DeviceArray:
    """C-contiguous device memory of `nbytes` bytes. `keep` is the owner of the memory. `place` is its place for stubs;
    None for the caller's own memory, which is copied to such a place.

    Use as a host array raises an error with the remedy.
    """

    __slots__ = ("__weakref__", "address", "device", "driver", "exposed", "keep", "nbytes", "place")

    def __init__(
        self, driver: Driver, device: int, address: int, nbytes: int, keep: Any, place: bytes | None = None
    ) -> None:
        self.driver = driver
        self.device = device
        self.address = address
        self.nbytes = nbytes
        self.keep = keep
        self.place = place
        #: whether another library has the address and may write to it
        self.exposed = False

    def to_host(self) -> NDArray[np.uint8]:
        """Return a copy in host memory. Raises InternalError."""
        found = np.empty(self.nbytes, np.uint8)
        if self.nbytes:
            with device_errors():
                self.driver.copy_out(self.device, self.address, found)
        return found

    def capsule(self, datatype: DataType, shape: tuple[int, ...], stream: Any) -> Any:
        """Return a DLPack capsule over the memory, for a consumer that works on `stream`. Raises InternalError."""
        if stream not in _ORDERED and self.place is None:
            with device_errors():
                self.driver.synchronize(self.device)  # the producer made only the default stream wait
        self.exposed = True
        owner = BorrowedMemory(self.driver, self.device, self)
        return export_device(
            pointer=self.address, device=self.device, datatype=int(datatype), shape=list(shape), owner=owner
        )

    def described(self) -> DeviceArray:
        """Return a description without the memory itself, for hooks."""
        return DeviceArray(self.driver, self.device, address=0, nbytes=self.nbytes, keep=None)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise self._elsewhere()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._elsewhere()

    def _elsewhere(self) -> UnsupportedError:
        return UnsupportedError(
            f"the tensor is in the memory of GPU {self.device}, where numpy cannot read it; use "
            "torch.from_dlpack(tensor), or tensor.to_host() for a copy in host memory"
        )


@contextlib.contextmanager
def device_errors() -> Iterator[None]:
    """Raise InternalError for a DriverError."""
    try:
        yield
    except DriverError as error:
        raise InternalError(str(error)) from None


def is_on_device(value: Any) -> bool:
    """Return whether the value is an array of another library in the memory of a GPU."""
    if hasattr(value, "__dlpack_device__"):
        return bool(value.__dlpack_device__()[0] == CUDA)
    return hasattr(value, "__cuda_array_interface__")


def adopt(value: Any) -> tuple[DataType, tuple[int, ...], DeviceArray]:
    """Return datatype, shape and memory of another library's array on a device, without a copy. Raises
    InvalidArgumentError if it is not C-contiguous or Triton has no such datatype."""
    try:
        if hasattr(value, "__dlpack__"):
            imported = import_tensor(value)
            datatype, shape, device = imported.datatype, imported.shape, imported.device[1]
            array = DeviceArray(
                driver=driver_of(imported.pointer),
                device=device,
                address=imported.pointer,
                nbytes=imported.nbytes,
                keep=imported,
            )
        else:
            datatype, shape, array = _cuda_array(value, value.__cuda_array_interface__)
    except (TritonModelException, DriverError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{type(value).__name__} cannot be read as a tensor: {error}") from error
    if datatype in (DataType.INVALID, DataType.BYTES):
        raise InvalidArgumentError(f"{type(value).__name__} has elements that Triton has no datatype for")
    return DataType(datatype), tuple(shape), array


def _cuda_array(value: Any, interface: dict[str, Any]) -> tuple[int, list[int], DeviceArray]:
    dtype, shape = np.dtype(interface["typestr"]), list(interface["shape"])
    nbytes = int(dtype.itemsize * np.prod(shape, dtype=np.int64))
    expected = dtype.itemsize
    for size, stride in zip(reversed(shape), reversed(interface.get("strides") or ()), strict=False):
        if size != 1 and nbytes and stride != expected:
            raise ValueError("it is not C-contiguous")
        expected *= size
    address = interface["data"][0]
    driver = driver_of(address)
    device = driver.base_of(address)[2] if nbytes else 0
    if interface.get("stream") is not None:
        driver.synchronize(device)
    return (
        int(DataType.from_numpy(dtype)),
        shape,
        DeviceArray(driver, device, address=address, nbytes=nbytes, keep=value),
    )
