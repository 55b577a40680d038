"""Kernels of Jupyter that are reached by sockets in the file system.

Jupyter gives a kernel numbers of ports that are free at that moment, and it listens there a second or more later; by
then a process of another test may have been given one, and the kernel ends with "Address already in use": seen in a
run of five workers, where the browser then waited for it in vain.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

import jupyter_client
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import AsyncKernelManager, KernelManager
from traitlets import default

#: The option of a Jupyter server for the same, with a `runtime_directory`.
OPTION = "--KernelManager.transport=ipc"

#: A socket's path has 107 bytes at most, and those of pytest's directories are long.
_sockets = tempfile.TemporaryDirectory(prefix="kernels-")


def runtime_directory() -> str:
    """Return a new runtime directory for a Jupyter server."""
    return tempfile.mkdtemp(dir=_sockets.name)


class SocketKernelManager(KernelManager):
    """A manager whose kernel has sockets in a directory of this process."""

    @default("transport")
    def _transport(self) -> str:
        return "ipc"

    @default("ip")
    def _path(self) -> str:
        return str(Path(_sockets.name, uuid.uuid4().hex[:12]))


class AsyncSocketKernelManager(SocketKernelManager, AsyncKernelManager):
    """The same for asyncio, as nbclient has it."""


def use_sockets() -> None:
    """Let the clients of nbclient that name no manager use sockets; nbmake's cannot name one."""
    jupyter_client.AsyncKernelManager = AsyncSocketKernelManager  # type: ignore[misc]


def start_kernel(environment: Mapping[str, str]) -> tuple[KernelManager, BlockingKernelClient]:
    """Start a kernel in this environment, and return its manager and a client that it has answered."""
    manager = SocketKernelManager(kernel_name="python3")
    manager.start_kernel(env=environment)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    return manager, client
