"""Models to send to: those of a notebook."""

from __future__ import annotations

from tests.notebook.conftest import server, workspace

__all__ = ["server", "workspace"]
