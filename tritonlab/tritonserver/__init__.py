"""NVIDIA's in-process package `tritonserver`, on tritonlab: `import tritonlab.tritonserver as tritonserver`.

Names, fields, defaults, checks and texts are the same as in that package, so that a program written for it runs without
a Triton. To run one without editing it, set `sys.modules["tritonserver"] = tritonserver` before the import. The classes
of `tritonlab` itself are different: they are made for notebooks, without such a facade.

Better on purpose: `response.model` is a handle of its own, so that a response does not pin the version of the next
request; arrays of any order are sent as they read; text outputs may be any UTF-8; a shape that reaches beyond its
memory is refused; `cache_config` works. Not here: the C API (`_c` has its enums and errors alone), and anything that
requires it.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from ..server.server_metadata import SERVER_VERSION as __version__
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

_ALIAS = "tritonserver."


class _AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The finder of modules below `tritonserver` while `sys.modules["tritonserver"]` is this package: then the import
    of `tritonserver._api._response` must find the module here, and not load it a second time.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_ALIAS) or sys.modules.get("tritonserver") is not sys.modules.get(__name__):
            return None
        real = f"{__name__}.{fullname.removeprefix(_ALIAS)}"
        if importlib.util.find_spec(real) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=real)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        module = importlib.import_module(spec.origin)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own name, under which it has already been executed."""
        module.__spec__ = self._spec


if not any(isinstance(finder, _AliasFinder) for finder in sys.meta_path):
    sys.meta_path.insert(0, _AliasFinder())
