"""The classes that Triton compiles into its stub, under the module name of its reprs (rules 1.1.4, 1.1.6).

Models reach them through `triton_python_backend_utils`, once `attach` has added them there: after the import of
`model.py`, not before (rule 1.1.2). A type checker sees them from the start.
"""

from __future__ import annotations

from types import ModuleType

if __package__:  # in the server: tritonlab.stub.c_python_backend_utils
    from ._pb_stub.api import bridge as _bridge
    from ._pb_stub.api.argument_check import mismatch as _mismatch
    from ._pb_stub.api.enums import MemoryType, MetricKind
    from ._pb_stub.api.errors import TritonError, TritonModelException
    from ._pb_stub.api.infer_request import InferenceRequest
    from ._pb_stub.api.infer_response import InferenceResponse
    from ._pb_stub.api.metric_family import Metric, MetricFamily
    from ._pb_stub.api.model_loader import is_model_ready, load_model, unload_model
    from ._pb_stub.api.native_type import put_into as _put_into
    from ._pb_stub.api.pb_log import Logger
    from ._pb_stub.api.pb_memory import InferenceTrace, PreferredMemory, SharedMemory, shared_memory
    from ._pb_stub.api.pb_response_iterator import ResponseIterator
    from ._pb_stub.api.pb_tensor import Tensor
    from ._pb_stub.api.response_sender import InferenceResponseSender
else:  # in a stub: the directory is on sys.path
    from _pb_stub.api import bridge as _bridge  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.argument_check import mismatch as _mismatch  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.enums import MemoryType, MetricKind  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.errors import TritonError, TritonModelException  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.infer_request import InferenceRequest  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.infer_response import InferenceResponse  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.metric_family import Metric, MetricFamily  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.model_loader import (  # type: ignore[import-not-found,no-redef]
        is_model_ready,
        load_model,
        unload_model,
    )
    from _pb_stub.api.native_type import put_into as _put_into  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.pb_log import Logger  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.pb_memory import (  # type: ignore[import-not-found,no-redef]
        InferenceTrace,
        PreferredMemory,
        SharedMemory,
        shared_memory,
    )
    from _pb_stub.api.pb_response_iterator import ResponseIterator  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.pb_tensor import Tensor  # type: ignore[import-not-found,no-redef]
    from _pb_stub.api.response_sender import InferenceResponseSender  # type: ignore[import-not-found,no-redef]

__all__ = [
    "COUNTER",
    "GAUGE",
    "HISTOGRAM",
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "PreferredMemory",
    "ResponseIterator",
    "SharedMemory",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "is_model_ready",
    "load_model",
    "shared_memory",
    "unload_model",
]

TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
COUNTER = MetricKind.COUNTER
GAUGE = MetricKind.GAUGE
HISTOGRAM = MetricKind.HISTOGRAM

#: The names for models in triton_python_backend_utils (rule 1.1.3); the others are reached here or as instances (rule
#: 1.1.4)
JOINS_LATE = (
    "InferenceRequest",
    "InferenceResponse",
    "Logger",
    "MetricFamily",
    "PreferredMemory",
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "is_model_ready",
    "load_model",
    "unload_model",
)


def get_model_dir(*args: object) -> str:
    """Return `<model repository>/<version>` of this instance, with the repository's path as given to the server.

    Takes no argument (rule 1.1.5).
    """
    if args:
        raise _mismatch("get_model_dir", "() -> str", args)
    directory = _bridge.current().model_dir
    if not directory:
        raise TritonModelException("get_model_dir() needs a running model: only a stub process has a model directory.")
    return str(directory)


def attach(module: ModuleType) -> None:
    """Add the names of rule 1.1.3 to `triton_python_backend_utils`.

    Called when the model's module has been imported.
    """
    for name in JOINS_LATE:
        setattr(module, name, globals()[name])
    module.get_model_dir = get_model_dir  # type: ignore[attr-defined]


for _item in (
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    InferenceTrace,
    Logger,
    MemoryType,
    Metric,
    MetricFamily,
    MetricKind,
    PreferredMemory,
    ResponseIterator,
    SharedMemory,
    Tensor,
    TritonError,
    type(TritonError.INTERNAL),
    type(Logger.INFO),
):
    _put_into(_item, "c_python_backend_utils")
TritonModelException.__module__ = "c_python_backend_utils"
del _item
