"""The gRPC endpoint of either side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tritonlab.frontends.grpc.grpc_server import GRPCServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

from .clients import Client
from .lab_client import LabClient
from .real_client import RealClient


@contextmanager
def grpc_served(side: Client) -> Iterator[str]:
    """Yield the address at which `side` serves gRPC, with clients' shared memory allowed."""
    if isinstance(side, RealClient):
        yield side.server.grpc
        return
    assert isinstance(side, LabClient)
    frontend = GRPCServer(side.server.core, SharedMemoryManager(allowed=True))
    yield f"127.0.0.1:{frontend.start('127.0.0.1', 0)}"
    frontend.stop()
