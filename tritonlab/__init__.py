"""tritonlab: write `model.py` for NVIDIA Triton's Python backend in a notebook.

`%load_ext tritonlab` brings `%%triton_model`; everything it does is a function here, for scripts and other notebooks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.infer_request import InferenceRequest
from .core.infer_response import InferenceResponse
from .core.instrument import Instrument
from .core.status import ModelError, ModelLoadError, TritonError
from .core.tensor import Tensor
from .runtime import default_server, reset
from .server.in_process import AsyncResponseIterator, Model, ResponseIterator, Server

if TYPE_CHECKING:
    from .export import export
    from .notebook import load, load_ipython_extension, playground

__version__ = "0.1.0"

#: Loaded at first use: they need IPython or ipywidgets, which a headless server does without.
_LAZY = {
    "export": "tritonlab.export",
    "load": "tritonlab.notebook",
    "load_ipython_extension": "tritonlab.notebook",
    "playground": "tritonlab.notebook",
}

__all__ = [
    "AsyncResponseIterator",
    "InferenceRequest",
    "InferenceResponse",
    "Instrument",
    "Model",
    "ModelError",
    "ModelLoadError",
    "ResponseIterator",
    "Server",
    "Tensor",
    "TritonError",
    "default_server",
    "export",
    "load",
    "load_ipython_extension",
    "playground",
    "reset",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tritonlab' has no attribute '{name}'")
