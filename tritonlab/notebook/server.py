"""A server as a notebook has it: its models have views, load tests and tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.status import TritonError
from ..server.api import server as served
from ..server.observe.why import Why
from .authoring.workspace import Workspace
from .model import Model


class Server(served.Server):
    __doc__ = served.Server.__doc__

    #: what the notebook writes into the server's repository; None for a server that no notebook writes to
    workspace: Workspace | None = None

    def load(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> Model:
        try:
            return cast(Model, super().load(name, config, files))  # what `model` below returns
        except TritonError as error:
            if self.workspace is not None:
                error.explained_by = self.workspace.explain
            raise

    load.__doc__ = served.Server.load.__doc__

    def why(self, name: str | None = None) -> Why:
        return super().why(name).cited(self.workspace.cite if self.workspace is not None else str)

    why.__doc__ = served.Server.why.__doc__

    def model(self, name: str, version: int = -1) -> Model:
        """Return a handle on a model, loaded or not; version -1 is the latest that its policy serves."""
        return Model(self, name, version, self.workspace)

    def models(self, exclude_not_ready: bool = False) -> Mapping[tuple[str, int], Model]:
        """Return every version that was loaded or tried, or only those that are READY, by (name, version)."""
        return {(name, version): self.model(name, version) for name, version in super().models(exclude_not_ready)}
