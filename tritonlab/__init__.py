"""Write `model.py` for NVIDIA Triton's Python backend in a notebook: `%load_ext tritonlab` brings `%%triton_model`;
everything it does is a function here, for scripts and other notebooks."""

from __future__ import annotations

from typing import Any

from . import kernel_modules
from .core.infer_request import InferenceRequest
from .core.infer_response import InferenceResponse
from .core.instrument import Instrument
from .core.log_settings import LogSetting
from .core.metrics_config import MetricsConfig
from .core.status import ModelError, ModelLoadError, TritonError
from .core.tensor import Tensor
from .core.trace_settings import TraceSetting
from .export.repository import export
from .runtime import default_server, default_workspace, load, playground, reset, serve
from .server.api.model import Model
from .server.api.response_iterator import AsyncResponseIterator, RequestInterrupted, ResponseIterator
from .server.api.server import Server
from .server.options import Options

__version__ = "0.1.0"

kernel_modules.install()  # from here on `import triton_python_backend_utils` works in this process

__all__ = [
    "AsyncResponseIterator",
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
    "default_server",
    "export",
    "load",
    "load_ipython_extension",
    "playground",
    "reset",
    "serve",
]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tritonlab`. Imported here, because a headless server does without IPython."""
    from .notebook.shell import magics

    magics.register(shell, default_workspace)
