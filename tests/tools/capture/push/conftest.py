"""The notebook whose models are pushed."""

from __future__ import annotations

from tests.notebook.conftest import server, workspace

__all__ = ["server", "workspace"]
