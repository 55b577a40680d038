"""Fixtures for tests of captures in a notebook."""

from tests.notebook.conftest import notebook, server, shell, workspace

__all__ = ["notebook", "server", "shell", "workspace"]
