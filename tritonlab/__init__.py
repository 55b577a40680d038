"""Write `model.py` for NVIDIA Triton's Python backend in a notebook: `%load_ext tritonlab` brings `%%triton_model`;
everything it does is a function here, for scripts and other notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import kernel_modules
from .core.inference.infer_request import InferenceRequest
from .core.inference.infer_response import InferenceResponse
from .core.inference.tensor import Tensor
from .core.metrics.metrics_config import MetricsConfig
from .core.observe.instrument import Instrument
from .core.observe.log_settings import LogSetting
from .core.observe.trace_settings import TraceSetting
from .core.status import ModelError, ModelLoadError, TritonError
from .core.version import VERSION as __version__  # noqa: F401 - read as an attribute
from .notebook.authoring.config_options import ConfigOptions
from .notebook.authoring.imported_notebook import import_repository
from .notebook.model import Model, Server
from .runtime import (
    connect,
    default_server,
    default_workspace,
    export,
    follow_workspaces,
    golden,
    load,
    load_panel,
    playground,
    recording,
    reset,
    serve,
    view,
)
from .runtime import open_repository as open  # noqa: F401 - not in __all__: an `import *` would hide Python's own
from .server.api.response_iterator import AsyncResponseIterator, RequestInterrupted, ResponseIterator
from .server.options import Options

if TYPE_CHECKING:
    from .export.verify.verification import verify
    from .frontends.endpoints import EndpointOptions

kernel_modules.install()  # from here on `import triton_python_backend_utils` works in this process

__all__ = [
    "AsyncResponseIterator",
    "ConfigOptions",
    "EndpointOptions",
    "InferenceRequest",
    "InferenceResponse",
    "Instrument",
    "LogSetting",
    "MetricsConfig",
    "Model",
    "ModelError",
    "ModelLoadError",
    "Options",
    "RequestInterrupted",
    "ResponseIterator",
    "Server",
    "Tensor",
    "TraceSetting",
    "TritonError",
    "connect",
    "default_server",
    "export",
    "golden",
    "import_repository",
    "load",
    "load_ipython_extension",
    "load_panel",
    "playground",
    "recording",
    "reset",
    "serve",
    "verify",
    "view",
]


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; `%load_ext tritonlab` calls it."""
    default_workspace()  # first, as its zygote takes 0.1 s to start, on another core
    # imported here, because a headless server does without IPython
    from .notebook.shell import magics

    follow_workspaces(magics.register(shell, default_workspace))


def __getattr__(name: str) -> Any:
    """Import at its first use what needs gRPC."""
    if name == "EndpointOptions":
        from .frontends.endpoints import EndpointOptions

        return EndpointOptions
    if name == "verify":
        from .export.verify.verification import verify

        return verify
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
