"""Stand-ins for Ray's modules, which are not installed beside the suite; `make engines` has the real ones."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest


class Deployment:
    """What `serve.deployment(...)` returns here: its options, and what it was bound to."""

    def __init__(self, wrapped: Any, options: dict[str, Any]) -> None:
        self.wrapped = wrapped
        self.options = options

    def bind(self, *args: Any) -> Deployment:
        self.args = args
        return self


class Dataset:
    """A dataset of one block, whose `map_batches` calls the class at once, block by block."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns
        self.context = ModuleType("context")
        self.context.execution_options = ModuleType("options")  # type: ignore[attr-defined]
        self.options: dict[str, Any] = {}

    def map_batches(self, kind: Any, *, fn_constructor_kwargs: dict[str, Any], **options: Any) -> Any:
        self.options = options
        return kind(**fn_constructor_kwargs)(self.columns)


def fake_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put modules of these names where `tritonlab.ray` finds them, for the length of a test."""
    ray, serve, data = ModuleType("ray"), ModuleType("ray.serve"), ModuleType("ray.data")
    serve.deployment = lambda wrapped, **options: Deployment(wrapped, options)  # type: ignore[attr-defined]
    serve.ingress = lambda: lambda wrapped: wrapped  # type: ignore[attr-defined]
    data.ActorPoolStrategy = lambda **sizes: sizes  # type: ignore[attr-defined]
    ray.serve, ray.data = serve, data  # type: ignore[attr-defined]
    for module in (ray, serve, data):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in [name for name in sys.modules if name.split(".")[:2] == ["tritonlab", "ray"]]:
        monkeypatch.delitem(sys.modules, name)
    importlib.import_module("tritonlab.ray")
