"""NVIDIA's driver, `libcuda.so.1`, through ctypes: neither CuPy nor torch is needed.

It works in each device's primary context, which torch and CuPy use as well, so that they may read the addresses, and
pushes it only for the time of a call: the author may use another current context in a thread. The header maps plain
names to functions with `_v2`; the driver keeps functions of the plain names with older, 32-bit types.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from .driver import HANDLE_SIZE, NO_DRIVER, DeviceFacts, Driver, DriverError

_MEMORY_TYPE, _DEVICE_ORDINAL = 2, 9  # of CUpointer_attribute
_ON_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76  # of CUdevice_attribute
_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


class _MemHandle(ctypes.Structure):
    """A CUipcMemHandle; cuIpcOpenMemHandle takes it by value."""

    _fields_ = [("reserved", ctypes.c_ubyte * HANDLE_SIZE)]


_int, _size, _pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_address = ctypes.c_uint64  # a CUdeviceptr
_to = ctypes.POINTER

_SIGNATURES: Dict[str, List[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuGetErrorName": [_int, _to(ctypes.c_char_p)],
    "cuGetErrorString": [_int, _to(ctypes.c_char_p)],
    "cuDeviceGetCount": [_to(_int)],
    "cuDeviceGet": [_to(_int), _int],
    "cuDeviceGetName": [ctypes.c_char_p, _int, _int],
    "cuDeviceGetUuid": [ctypes.c_char_p, _int],
    "cuDeviceTotalMem_v2": [_to(_size), _int],
    "cuDeviceGetAttribute": [_to(_int), _int, _int],
    "cuDevicePrimaryCtxRetain": [_to(_pointer), _int],
    "cuCtxPushCurrent_v2": [_pointer],
    "cuCtxPopCurrent_v2": [_to(_pointer)],
    "cuCtxSynchronize": [],
    "cuMemGetInfo_v2": [_to(_size), _to(_size)],
    "cuMemAlloc_v2": [_to(_address), _size],
    "cuMemFree_v2": [_address],
    "cuMemGetAddressRange_v2": [_to(_address), _to(_size), _address],
    "cuPointerGetAttribute": [_pointer, _int, _address],
    "cuIpcGetMemHandle": [_to(_MemHandle), _address],
    "cuIpcOpenMemHandle_v2": [_to(_address), _MemHandle, ctypes.c_uint],
    "cuIpcCloseMemHandle": [_address],
    "cuMemcpyHtoD_v2": [_address, _pointer, _size],
    "cuMemcpyDtoH_v2": [_pointer, _address, _size],
    "cuMemcpyDtoD_v2": [_address, _address, _size],
}


class CudaDriver(Driver):
    """NVIDIA's driver. The first call loads it, and the first use of a device's memory makes its context."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards loading, and the two fields below
        self._library: Any = None
        self._contexts: Dict[int, Any] = {}

    def devices(self) -> List[DeviceFacts]:
        count = _int()
        self._call("counting GPUs", "cuDeviceGetCount", ctypes.byref(count))
        return [self._facts(ordinal) for ordinal in range(count.value)]

    def _facts(self, ordinal: int) -> DeviceFacts:
        what = "looking at GPU %d" % ordinal
        device = self._device(ordinal)
        name, uuid = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
        total, major, minor = _size(), _int(), _int()
        self._call(what, "cuDeviceGetName", name, 256, device)
        self._call(what, "cuDeviceGetUuid", uuid, device)
        self._call(what, "cuDeviceTotalMem_v2", ctypes.byref(total), device)
        self._call(what, "cuDeviceGetAttribute", ctypes.byref(major), _COMPUTE_MAJOR, device)
        self._call(what, "cuDeviceGetAttribute", ctypes.byref(minor), _COMPUTE_MINOR, device)
        text = uuid.raw.hex()
        parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
        compute = (major.value, minor.value)
        return DeviceFacts(
            ordinal,
            uuid="GPU-" + "-".join(parts),
            name=name.value.decode(),
            total_bytes=total.value,
            compute=compute,
            simulated=False,
        )

    def free_bytes(self, device: int) -> int:
        free, total = _size(), _size()
        what = "asking for the free memory of GPU %d" % device
        with self._current(device):
            self._call(what, "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, device: int, nbytes: int) -> int:
        address = _address()
        what = "allocating %d bytes on GPU %d" % (nbytes, device)
        with self._current(device):
            self._call(what, "cuMemAlloc_v2", ctypes.byref(address), nbytes)
        return address.value

    def free(self, device: int, address: int) -> None:
        with self._current(device):
            self._call("freeing memory of GPU %d" % device, "cuMemFree_v2", address)

    def base_of(self, address: int) -> Tuple[int, int, int]:
        what = "looking at the address %#x" % address
        kind, device, base, nbytes = ctypes.c_uint(), _int(), _address(), _size()
        self._call(what, "cuPointerGetAttribute", ctypes.byref(kind), _MEMORY_TYPE, address)
        if kind.value != _ON_DEVICE:
            raise DriverError(what, 0, "it is memory of the host, not of a GPU")
        self._call(what, "cuPointerGetAttribute", ctypes.byref(device), _DEVICE_ORDINAL, address)
        with self._current(device.value):
            self._call(what, "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(nbytes), address)
        return base.value, nbytes.value, device.value

    def export(self, device: int, base: int) -> bytes:
        handle = _MemHandle()
        with self._current(device):
            self._call("sharing memory of GPU %d" % device, "cuIpcGetMemHandle", ctypes.byref(handle), base)
        return bytes(handle)

    def open(self, device: int, handle: bytes) -> int:
        address = _address()
        what = "opening another process's memory of GPU %d" % device
        memory_handle = _MemHandle.from_buffer_copy(handle)
        with self._current(device):
            self._call(what, "cuIpcOpenMemHandle_v2", ctypes.byref(address), memory_handle, _PEER_ACCESS)
        return address.value

    def close(self, device: int, address: int) -> None:
        with self._current(device):
            self._call("closing another process's memory of GPU %d" % device, "cuIpcCloseMemHandle", address)

    def copy_in(self, device: int, address: int, buffer: Any) -> None:
        host = np.frombuffer(buffer, dtype=np.uint8)
        with self._current(device):
            self._call("copying to GPU %d" % device, "cuMemcpyHtoD_v2", address, host.ctypes.data, host.nbytes)

    def copy_out(self, device: int, address: int, buffer: Any) -> None:
        host = np.frombuffer(buffer, dtype=np.uint8)
        with self._current(device):
            self._call("copying from GPU %d" % device, "cuMemcpyDtoH_v2", host.ctypes.data, address, host.nbytes)

    def copy(self, device: int, target: int, source: int, nbytes: int) -> None:
        with self._current(device):
            self._call("copying on GPU %d" % device, "cuMemcpyDtoD_v2", target, source, nbytes)

    def synchronize(self, device: int) -> None:
        with self._current(device):
            self._call("waiting for GPU %d" % device, "cuCtxSynchronize")

    # -- the library

    def _device(self, ordinal: int) -> int:
        device = _int()
        self._call("finding GPU %d" % ordinal, "cuDeviceGet", ctypes.byref(device), ordinal)
        return device.value

    @contextlib.contextmanager
    def _current(self, device: int) -> Iterator[None]:
        """Make the device's primary context the current one of this thread for the time of the context manager."""
        context = self._contexts.get(device)
        if context is None:
            context = _pointer()
            what = "making a context on GPU %d" % device
            self._call(what, "cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device(device))
            context = self._contexts.setdefault(device, context)
        self._call("using GPU %d" % device, "cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._call("leaving GPU %d" % device, "cuCtxPopCurrent_v2", ctypes.byref(_pointer()))

    def _call(self, what: str, name: str, *arguments: Any) -> None:
        library = self._library or self._load(what)
        code = getattr(library, name)(*arguments)
        if code:
            raise DriverError(what, code, _words(library, code))

    def _load(self, what: str) -> Any:
        with self._lock:
            if self._library is None:
                try:
                    library = ctypes.CDLL("libcuda.so.1")
                    for name, arguments in _SIGNATURES.items():
                        function = getattr(library, name)
                        function.argtypes, function.restype = arguments, _int
                except (OSError, AttributeError) as error:
                    raise DriverError(what, NO_DRIVER, "there is no usable NVIDIA driver here (%s)" % error) from None
                code = library.cuInit(0)
                if code:
                    raise DriverError(what, code, _words(library, code))
                self._library = library
            return self._library


def _words(library: Any, code: int) -> str:
    """Return the driver's name and text of an error."""
    words = []
    for function in (library.cuGetErrorName, library.cuGetErrorString):
        text = ctypes.c_char_p()
        found: Optional[bytes] = None if function(code, ctypes.byref(text)) else text.value
        words.append(found.decode() if found else "error %d" % code)
    return "%s (%s)" % (words[0], words[1])
