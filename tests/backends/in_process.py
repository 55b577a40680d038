"""A backend's model.py in the process of the test, which can look into it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tritonlab.server.models.backends import SHIPPED
from tritonlab.testing import FakeTriton, build_args, load_class


def in_process(backend: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an initialized instance for a model directory with a complete config."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(SHIPPED / "shared")])
    instance = load_class(SHIPPED / backend / "model.py")()
    with FakeTriton(model_dir=str(model / "1")):
        instance.initialize(build_args((model / "config.pbtxt").read_text() + "\n", name=model.name))
    return instance


class Spy:
    """A record of the arguments and the result of the function `called`, in its place."""

    def __init__(self, called: Any) -> None:
        self._called = called
        self.arguments: Any = None
        self.returned: Any = None

    def __call__(self, *arguments: Any) -> Any:
        self.arguments, self.returned = arguments, self._called(*arguments)
        return self.returned
