"""NVIDIA's in-process package `tritonserver`, on tritonlab: `import tritonlab.tritonserver as tritonserver`.

Names, fields, defaults, checks and texts are the same as in that package, so that a program written for it runs without
a Triton. To run one without editing it, set `sys.modules["tritonserver"] = tritonserver` before the import. The classes
of `tritonlab` itself are different: they are made for notebooks, without such a facade.

Better on purpose: `response.model` is a handle of its own, so that a response does not pin the version of the next
request; arrays of any order are sent as they read; text outputs may be any UTF-8; a shape that reaches beyond its
memory is refused; `cache_config` works. Not here: the C API (`_c` has its enums and errors alone), and anything that
requires it.
"""

import sys

from ..server.server_metadata import SERVER_VERSION as __version__
from ._alias import HERE, AliasFinder
from ._api._dlpack import DLDeviceType
from ._api._memorybuffer import MemoryBuffer, MemoryType
from ._api._model import Model
from ._api._request import InferenceRequest
from ._api._response import AsyncResponseIterator, InferenceResponse, ResponseIterator
from ._api._server import (
    InstanceGroupKind,
    LogFormat,
    Metric,
    MetricFamily,
    MetricFormat,
    MetricKind,
    ModelControlMode,
    Options,
    RateLimiterResource,
    RateLimitMode,
    Server,
)
from ._api._tensor import Tensor
from ._c.triton_bindings import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from ._c.triton_bindings import TRITONSERVER_DataType as DataType
from ._c.triton_bindings import TRITONSERVER_ModelBatchFlag as ModelBatchFlag
from ._c.triton_bindings import TRITONSERVER_ModelTxnPropertyFlag as ModelTxnPropertyFlag

__all__ = [
    "AlreadyExistsError",
    "AsyncResponseIterator",
    "DLDeviceType",
    "DataType",
    "InferenceRequest",
    "InferenceResponse",
    "InstanceGroupKind",
    "InternalError",
    "InvalidArgumentError",
    "LogFormat",
    "MemoryBuffer",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricFormat",
    "MetricKind",
    "Model",
    "ModelBatchFlag",
    "ModelControlMode",
    "ModelTxnPropertyFlag",
    "NotFoundError",
    "Options",
    "RateLimitMode",
    "RateLimiterResource",
    "ResponseIterator",
    "Server",
    "Tensor",
    "TritonError",
    "UnavailableError",
    "UnknownError",
    "UnsupportedError",
    "__version__",
]

assert __name__ == HERE
if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
    sys.meta_path.insert(0, AliasFinder())
