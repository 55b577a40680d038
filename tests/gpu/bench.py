"""A server with the models, and a card: what checks and measurements share."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tritonlab.server.api.model import Model
from tritonlab.server.api.server import Server

from . import models
from .cards import Card


class Bench:
    """A server with its card, for a `with` block; the server ends with it."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self._scratch = tempfile.TemporaryDirectory(prefix="tritonlab-gpu-")
        self._repository = Path(self._scratch.name)
        self.server = Server(self._repository, model_control_mode="explicit", simulated_gpus=1 if card.simulated else 0)

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.stop()
        self._scratch.cleanup()

    def identity(self, *, on_device: bool = True) -> Model:
        return self.model("there" if on_device else "here", models.IDENTITY, on_device=on_device)

    def in_model(self, name: str, source: str) -> Model:
        """Return a model that makes arrays on the device."""
        return self.model(name, self.card.in_model + source)

    def model(self, name: str, source: str, *, on_device: bool = True) -> Model:
        """Return a model, loaded at the first call."""
        model = self.server.model(name)
        if model.state == "UNKNOWN":
            model = self.server.load(models.place(self._repository, name, source, on_device=on_device))
        return model

    def used(self) -> int:
        self.card.synchronize()
        return self.card.used()


def answer(model: Model, value: Any) -> Any:
    """Return the output of one request, a Tensor."""
    (response,) = model.infer(inputs={"IN": value})
    return response.outputs["OUT"]
