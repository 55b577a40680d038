"""What a Tensor needs whose memory is on a GPU: one that came from the server, or one that
`from_dlpack` has taken over."""

from __future__ import annotations

from typing import Any

from ..devices.driver import DriverError
from ..devices.gpus import driver_of
from ..wire.device_memory import Lent
from . import bridge, dlpack
from .bridge import BridgeError
from .errors import TritonModelException
from .opened_memory import BorrowedMemory, OpenedPlace


def lent(tensor: Any) -> Lent:
    """Return where the server finds the tensor's memory: where it came from, or a copy of what was taken over. Raises
    TritonModelException."""
    keep = tensor._keep
    try:
        if isinstance(keep, dlpack.Imported):
            copied: Lent = bridge.current().lend(keep)
            return copied
        if isinstance(keep, OpenedPlace):
            keep.synchronize()  # the author may have written to it
    except (DriverError, BridgeError) as error:
        raise _failure(tensor, "sent", error) from None
    return Lent.from_place(tensor._data, tensor._device_id, keep)


def capsule(tensor: Any) -> Any:
    """Make a capsule over the tensor's memory. What is written there is sent, if the library that wrote it has been
    waited for. Raises TritonModelException."""
    device, keep = tensor._device_id, tensor._keep
    try:
        if not isinstance(keep, (dlpack.Imported, OpenedPlace)):
            keep = tensor._keep = OpenedPlace(device, tensor._data, keep)
    except DriverError as error:
        raise _failure(tensor, "read", error) from None
    owner = BorrowedMemory(driver_of(keep.pointer), device, tensor)
    return dlpack.export_device(keep.pointer, device, tensor._datatype, tensor._shape, owner)


def await_producer(tensor: Any) -> None:
    """Wait until the memory that was taken over is written: its producer has made only the default stream wait for
    that. What came from the server is written already."""
    keep = tensor._keep
    if isinstance(keep, dlpack.Imported):
        try:
            driver_of(keep.pointer).synchronize(tensor._device_id)
        except DriverError as error:
            raise _failure(tensor, "read", error) from None


def _failure(tensor: Any, what: str, error: Exception) -> TritonModelException:
    text = "Tensor '%s' in the memory of GPU %d cannot be %s: %s"
    return TritonModelException(text % (tensor._name, tensor._device_id, what, error))
