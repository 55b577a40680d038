"""This module has the method `why` of servers."""

from __future__ import annotations

from ..inference_server import InferenceServer
from ..observe.why import Why


class Explaining:
    """Says what a server waits for."""

    _core: InferenceServer

    def why(self, name: str | None = None) -> Why:
        """Returns, in sentences, what every request, instance, sequence and load waits for, of one model or of all, and
        why the last load of a model failed, with line and fix.

        `.text()` has all of it, `.to_dict()` the same for programs.
        """
        return self._core.why(name or "")
