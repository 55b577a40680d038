"""The client of tritonlab over its gRPC frontend, so that cases written for both servers can be sent to that, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tritonlab.frontends.grpc.grpc_server import GRPCServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

from .grpc_client import GRPCClient
from .lab_client import LabClient


class LabGRPCClient(GRPCClient, LabClient):
    """A client with inference over gRPC; models are controlled, and documents read, through the API a notebook uses."""

    def __init__(self, repository: Path, **options: Any) -> None:
        super().__init__(repository, **options)
        self._frontend = GRPCServer(self.server.core, SharedMemoryManager())
        self._connect(f"127.0.0.1:{self._frontend.start('127.0.0.1', 0)}")

    def close(self) -> None:
        super().close()
        self._frontend.stop()
        LabClient.close(self)
