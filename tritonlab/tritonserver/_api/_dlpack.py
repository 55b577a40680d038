"""The device types of DLPack."""

from __future__ import annotations

import enum


class DLDeviceType(enum.IntEnum):
    """Numbers of dlpack.h. Ints, so that `__dlpack_device__` is what every consumer expects; NVIDIA's members are bare
    ints, of which its own `(DLDeviceType.kDLCUDA, 0)` as a memory type is refused."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
