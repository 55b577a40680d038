"""Write `model.py` for NVIDIA Triton's Python backend in a notebook: `%load_ext tritonlab` brings `%%triton_model`;
everything it does is a function here, for scripts and other notebooks.

The public names are imported at their first use. Measured on 2026-11-28: `import tritonlab` loads 5 of our modules
instead of 288, and each command of `tritonlab` only those that it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import kernel_modules
from .core.version import VERSION as __version__  # noqa: F401 - read as an attribute

if TYPE_CHECKING:
    from .core.inference.infer_request import InferenceRequest
    from .core.inference.infer_response import InferenceResponse
    from .core.inference.tensor import Tensor
    from .core.metrics.metrics_config import MetricsConfig
    from .core.observe.instrument import Instrument
    from .core.observe.log_settings import LogSetting
    from .core.observe.trace_settings import TraceSetting
    from .core.status import ModelError, ModelLoadError, TritonError
    from .frontends.endpoints import EndpointOptions
    from .notebook.authoring.config_options import ConfigOptions
    from .notebook.authoring.imported_notebook import import_repository
    from .notebook.model import Model, Server
    from .runtime import (
        capture,
        capture_from,
        connect,
        default_server,
        default_workspace,  # noqa: F401
        export,
        golden,
        load,
        load_panel,
        playground,
        recording,
        reset,
        serve,
        verify,
        view,
    )
    from .runtime import open_repository as open  # noqa: F401
    from .server.api.response_iterator import AsyncResponseIterator, RequestInterrupted, ResponseIterator
    from .server.options import Options

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
    "capture",
    "capture_from",
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

#: The names of the imports for type checkers, by module.
_NAMES = {
    "core.inference.infer_request": ("InferenceRequest",),
    "core.inference.infer_response": ("InferenceResponse",),
    "core.inference.tensor": ("Tensor",),
    "core.metrics.metrics_config": ("MetricsConfig",),
    "core.observe.instrument": ("Instrument",),
    "core.observe.log_settings": ("LogSetting",),
    "core.observe.trace_settings": ("TraceSetting",),
    "core.status": ("ModelError", "ModelLoadError", "TritonError"),
    "frontends.endpoints": ("EndpointOptions",),
    "notebook.authoring.config_options": ("ConfigOptions",),
    "notebook.authoring.imported_notebook": ("import_repository",),
    "notebook.model": ("Model", "Server"),
    "runtime": (
        *("capture", "capture_from", "connect", "default_server", "default_workspace", "export", "golden", "load"),
        *("load_panel", "open", "playground", "recording", "reset", "serve", "verify", "view"),
    ),
    "server.api.response_iterator": ("AsyncResponseIterator", "RequestInterrupted", "ResponseIterator"),
    "server.options": ("Options",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name. `open` is not in `__all__`, because an `import *` would hide Python's own."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_MODULES[name]}", __name__)
    found = globals()[name] = getattr(module, "open_repository" if name == "open" else name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; `%load_ext tritonlab` calls it."""
    from .runtime import default_workspace, show_in

    default_workspace()  # first, as its zygote takes 0.1 s to start, on another core
    from .notebook.shell import magics

    show_in(magics.register(shell, default_workspace))
