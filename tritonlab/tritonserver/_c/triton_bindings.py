"""The enums and exceptions of NVIDIA's compiled module of this name, with the numbers of Triton's C API.

The rest of that module, the C API call by call (`TRITONSERVER_Server` and the like), is missing here, as there is no C
library. The exceptions are tritonlab's own, so that `except` catches the same errors with both packages.
"""

from __future__ import annotations

import enum

from ...core.status import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)


class _Enum(enum.Enum):
    """An enum as in pybind11: a member is not an int, but can be converted to one."""

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)


class TRITONSERVER_DataType(_Enum):
    INVALID, BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES, BF16 = range(15)


class TRITONSERVER_MemoryType(_Enum):
    CPU, CPU_PINNED, GPU = range(3)


class TRITONSERVER_InstanceGroupKind(_Enum):
    AUTO, CPU, GPU, MODEL = range(4)


class TRITONSERVER_LogLevel(_Enum):
    INFO, WARN, ERROR, VERBOSE = range(4)


class TRITONSERVER_LogFormat(_Enum):
    DEFAULT, ISO8601 = range(2)


class TRITONSERVER_MetricFormat(_Enum):
    PROMETHEUS = 0


class TRITONSERVER_MetricKind(_Enum):
    COUNTER, GAUGE = range(2)


class TRITONSERVER_ModelBatchFlag(_Enum):
    UNKNOWN, FIRST_DIM = range(1, 3)


class TRITONSERVER_ModelControlMode(_Enum):
    NONE, POLL, EXPLICIT = range(3)


class TRITONSERVER_ModelTxnPropertyFlag(_Enum):
    ONE_TO_ONE, DECOUPLED = range(1, 3)


class TRITONSERVER_RateLimitMode(_Enum):
    OFF, EXEC_COUNT = range(2)


class TRITONSERVER_RequestFlag(_Enum):
    SEQUENCE_START, SEQUENCE_END = range(1, 3)


class TRITONSERVER_ResponseCompleteFlag(_Enum):
    FINAL = 1


__all__ = [
    "AlreadyExistsError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "TRITONSERVER_DataType",
    "TRITONSERVER_InstanceGroupKind",
    "TRITONSERVER_LogFormat",
    "TRITONSERVER_LogLevel",
    "TRITONSERVER_MemoryType",
    "TRITONSERVER_MetricFormat",
    "TRITONSERVER_MetricKind",
    "TRITONSERVER_ModelBatchFlag",
    "TRITONSERVER_ModelControlMode",
    "TRITONSERVER_ModelTxnPropertyFlag",
    "TRITONSERVER_RateLimitMode",
    "TRITONSERVER_RequestFlag",
    "TRITONSERVER_ResponseCompleteFlag",
    "TritonError",
    "UnavailableError",
    "UnknownError",
    "UnsupportedError",
]
