"""Loads, unloads and readiness of other models of the same server (rule 1.15)."""

from __future__ import annotations

import base64
from typing import Any, Dict, Optional

from ..wire.message_bodies import IsModelReady, LoadModel, UnloadModel
from .argument_check import CAST_ERROR, as_flag, as_text, mismatch
from .bridge import call_server
from .errors import TritonModelException


def load_model(model_name: str, config: str = "", files: Optional[Dict[str, bytes]] = None) -> None:
    """Load `model_name`, or load it again, and return when it is ready.

    `config`: JSON text that replaces the model's configuration. `files`: contents by `file:<path in the model's
    directory>`, which replace the model's own files; needs `config`. Raises TritonModelException with the server's
    reason.
    """
    name, config_text = as_text(model_name), as_text(config)
    if name is None or config_text is None:
        raise mismatch(
            "load_model",
            "(model_name: str, config: str = '', files: object = None) -> None",
            [value for value, default in ((model_name, ""), (config, ""), (files, None)) if value != default],
        )
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(
            "failed to load model '%s', files should be a dictionary of file paths and file contents" % name
        )
    contents = {_path(path): _content(content) for path, content in (files or {}).items()}
    call_server("load_model", "Failed to load model: ", LoadModel(name, config_text, contents))


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Schedule the unloading of `model_name`; with `unload_dependents` also of the models that only it needs.

    Unknown names are ignored.
    """
    name, dependents = as_text(model_name), as_flag(unload_dependents)
    if name is None or dependents is None:
        raise mismatch(
            "unload_model",
            "(model_name: str, unload_dependents: bool = False) -> None",
            (model_name, unload_dependents),
        )
    call_server("unload_model", "Failed to unload model: ", UnloadModel(name, dependents))


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Return whether `model_name` can be called, in `model_version` (a number as text) or in any."""
    name, version = as_text(model_name), as_text(model_version)
    if name is None or version is None:
        raise mismatch(
            "is_model_ready", "(model_name: str, model_version: str = '') -> bool", (model_name, model_version)
        )
    return bool(call_server("is_model_ready", "Failed to check model readiness: ", IsModelReady(name, version)))


def _path(path: Any) -> str:
    if not isinstance(path, str):
        raise RuntimeError(CAST_ERROR)
    return path


def _content(content: Any) -> str:
    if not isinstance(content, bytes):
        raise TypeError("Object of type '%s' is not an instance of 'bytes'" % type(content).__name__)
    return base64.b64encode(content).decode("ascii")
