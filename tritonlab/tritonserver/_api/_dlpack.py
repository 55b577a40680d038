"""The device types of DLPack."""

from __future__ import annotations

import enum


class DLDeviceType(enum.IntEnum):
    """The numbers of dlpack.h. They are ints, as every consumer of `__dlpack_device__` expects. NVIDIA's members are
    ints without a type, so that its package refuses its own `(DLDeviceType.kDLCUDA, 0)` as a memory type.
    """

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
