"""Arrays on a simulated GPU, for machines without a card: a substitute for torch tensors on CUDA in code that passes
memory on. torch and CuPy refuse such memory, as they find no such device; only this class reads it.
"""

from __future__ import annotations

import contextlib
from typing import Any, List, Tuple

import numpy as np

from ..devices.driver import DriverError
from ..devices.gpus import SIMULATED
from ..wire.serialization import ELEMENT_DTYPES
from .dlpack import CUDA, Imported, export_device, import_tensor


class SimulatedArray:
    """A copy of a numpy array in the memory of simulated GPU `device`, or, by `from_dlpack`, a view of memory there."""

    def __init__(self, array: Any, device: int = 0) -> None:
        array = np.ascontiguousarray(array)
        address = SIMULATED.allocate(device, max(array.nbytes, 1))
        if array.nbytes:
            SIMULATED.copy_in(device, address, array.reshape(-1).view(np.uint8))
        self._set(address, device, array.dtype, shape=list(array.shape), keep=_Memory(device, address))

    def _set(self, address: int, device: int, dtype: Any, shape: List[int], keep: Any) -> None:
        self._address = address
        self.device = device
        self.dtype = dtype
        self.shape = tuple(shape)
        self._keep = keep

    @classmethod
    def from_dlpack(cls, source: Any) -> "SimulatedArray":
        """Return an array over the memory of a tensor on a simulated GPU, without a copy: a tensor of a model's
        response here, or a `pb_utils.Tensor` in the model.
        """
        imported: Imported = import_tensor(source)
        self = cls.__new__(cls)
        dtype = ELEMENT_DTYPES[imported.datatype]
        self._set(imported.pointer, imported.device[1], dtype, imported.shape, imported)
        return self

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * int(self.dtype.itemsize)

    def numpy(self) -> "np.ndarray[Any, Any]":
        """Return a copy in host memory."""
        found: np.ndarray[Any, Any] = np.empty(self.shape, self.dtype)
        if self.nbytes:
            SIMULATED.copy_out(self.device, self._address, found.reshape(-1).view(np.uint8))
        return found

    def write(self, array: Any) -> None:
        """Overwrite the memory with a numpy array of the same size."""
        SIMULATED.copy_in(self.device, self._address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def __dlpack__(self, stream: Any = None) -> Any:
        datatype = ELEMENT_DTYPES.index(self.dtype)
        return export_device(
            pointer=self._address, device=self.device, datatype=datatype, shape=list(self.shape), owner=self
        )

    def __dlpack_device__(self) -> Tuple[int, int]:
        return CUDA, self.device

    def __repr__(self) -> str:
        return "<SimulatedArray %s %s on GPU %d>" % (self.dtype, list(self.shape), self.device)


class _Memory:
    """An allocation that is freed with its last holder."""

    def __init__(self, device: int, address: int) -> None:
        self._device = device
        self._address = address

    def __del__(self) -> None:
        with contextlib.suppress(DriverError):  # in a forked process it belongs to the parent
            SIMULATED.free(self._device, self._address)
