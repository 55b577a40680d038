"""What a served model imports, as its stub says, for the environment of its export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ipc.processes.interpreter import STUB
from .lock import StubImports, imported

if TYPE_CHECKING:
    from ...server.api.model import Model


def imports_of(model: Model) -> StubImports:
    """Return the distributions that the model's stubs imported while it was loaded and answered its requests so far."""
    return imported(model.modules(), [model.directory, STUB.parent])
