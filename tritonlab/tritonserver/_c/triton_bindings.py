"""The enums and exceptions of NVIDIA's compiled module of this name, with the numbers of Triton's C API.

The rest of that module is the C API call by call (`TRITONSERVER_Server` and the like). It is not here, as there is no C
library below. The exceptions are tritonlab's own, so that `except` means the same for both packages.
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
    """An enum as pybind11 makes it: a member is not an int, but can be converted to one."""

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)


class TRITONSERVER_DataType(_Enum):
    INVALID = 0
    BOOL = 1
    UINT8 = 2
    UINT16 = 3
    UINT32 = 4
    UINT64 = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FP16 = 10
    FP32 = 11
    FP64 = 12
    BYTES = 13
    BF16 = 14


class TRITONSERVER_MemoryType(_Enum):
    CPU = 0
    CPU_PINNED = 1
    GPU = 2


class TRITONSERVER_InstanceGroupKind(_Enum):
    AUTO = 0
    CPU = 1
    GPU = 2
    MODEL = 3


class TRITONSERVER_LogLevel(_Enum):
    INFO = 0
    WARN = 1
    ERROR = 2
    VERBOSE = 3


class TRITONSERVER_LogFormat(_Enum):
    DEFAULT = 0
    ISO8601 = 1


class TRITONSERVER_MetricFormat(_Enum):
    PROMETHEUS = 0


class TRITONSERVER_MetricKind(_Enum):
    COUNTER = 0
    GAUGE = 1


class TRITONSERVER_ModelBatchFlag(_Enum):
    UNKNOWN = 1
    FIRST_DIM = 2


class TRITONSERVER_ModelControlMode(_Enum):
    NONE = 0
    POLL = 1
    EXPLICIT = 2


class TRITONSERVER_ModelTxnPropertyFlag(_Enum):
    ONE_TO_ONE = 1
    DECOUPLED = 2


class TRITONSERVER_RateLimitMode(_Enum):
    OFF = 0
    EXEC_COUNT = 1


class TRITONSERVER_RequestFlag(_Enum):
    SEQUENCE_START = 1
    SEQUENCE_END = 2


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
