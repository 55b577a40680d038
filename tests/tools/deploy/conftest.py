"""The notebook whose models are exported."""

from __future__ import annotations

from tests.notebook.conftest import notebook, server, shell, workspace

__all__ = ["notebook", "server", "shell", "workspace"]
