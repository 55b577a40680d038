"""This module has the methods of servers that tell what is there and what goes on: `why` and `gpus`."""

from __future__ import annotations

from typing import Any

from ..inference_server import InferenceServer
from ..observe.why import Why


class Explaining:
    """Says what a server waits for, and what it has."""

    _core: InferenceServer

    def why(self, name: str | None = None) -> Why:
        """Returns, in sentences, what every request, instance, sequence and load waits for, of one model or of all, and
        why the last load of a model failed, with line and fix.

        `.text()` has all of it, `.to_dict()` the same for programs.
        """
        return self._core.why(name or "")

    def gpus(self) -> list[dict[str, Any]]:
        """Returns the GPUs that models may be placed on: `ordinal`, `uuid`, `name`, `total_bytes`, `simulated`."""
        return [gpu._asdict() for gpu in self._core.gpus.all]
