"""The client of the real server: gRPC with the messages and stub that tritonclient ships, documents over HTTP."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from tritonclient.grpc import service_pb2

from .clients import DEADLINE, Failure, Files, Logged
from .grpc_client import GRPCClient
from .reference import ReferenceServer

_POLL_FAILED = re.compile(r"\"Poll failed for model directory '(?P<model>[^']*)': (?P<reason>.*)\"$", re.MULTILINE)


class RealClient(GRPCClient):
    """tritonserver over gRPC, with the messages and the generated stub that tritonclient ships; documents over HTTP."""

    side = "real"

    def __init__(self, server: ReferenceServer) -> None:
        super().__init__(server.repository)
        self.server = server
        #: Models that a server started again has to have: those of the test module that uses this one now.
        self.serving: Mapping[str, Files] = {}
        self._connect(self.server.grpc)

    def revive(self) -> bool:
        """Start the server again if it crashed, as 2.51 does now and then, and load `serving`. Return whether it
        did."""
        if self.server.live():
            return False
        self.close()
        self.server.stop()
        self.server.start()
        self._connect(self.server.grpc)
        failed = {name: failure for name, failure in super().load_all(self.serving).items() if failure is not None}
        assert not failed, failed
        return True

    def load_all(self, models: Mapping[str, Files]) -> dict[str, Failure | None]:
        found = super().load_all(models)
        return super().load_all(models) if any(found.values()) and self.revive() else found

    def load(self, name: str, config: str | None = None, files: Mapping[str, bytes] | None = None) -> Failure | None:
        request = service_pb2.RepositoryModelLoadRequest(model_name=name)
        if config is not None:
            request.parameters["config"].string_param = config
        for path, content in (files or {}).items():
            request.parameters[path].bytes_param = content
        logged = len(self.server.log())
        failure = self._control(self._rpc.RepositoryModelLoad, request)
        if failure is None:
            return None
        reasons = {m["model"]: m["reason"] for m in _POLL_FAILED.finditer(self.server.log()[logged:])}
        return Failure(failure.code, failure.text, self.plain(reasons.get(name, failure.text)))

    def unload(self, name: str, dependents: bool = False) -> Failure | None:
        request = service_pb2.RepositoryModelUnloadRequest(model_name=name)
        request.parameters["unload_dependents"].bool_param = dependents
        return self._control(self._rpc.RepositoryModelUnload, request)

    def ready(self, name: str = "", version: int = -1) -> bool:
        path = f"/v2/models/{name}{_version(version)}/ready" if name else "/v2/health/ready"
        return not isinstance(self._http(path), Failure)

    def index(self, ready: bool = False) -> list[dict[str, Any]]:
        return list(self._http("/v2/repository/index", b'{"ready": true}' if ready else b"{}"))

    def config(self, name: str, version: int = -1) -> dict[str, Any] | Failure:
        return self._document(self._http(f"/v2/models/{name}{_version(version)}/config"))

    def metadata(self, name: str = "", version: int = -1) -> dict[str, Any] | Failure:
        return self._document(self._http(f"/v2/models/{name}{_version(version)}" if name else "/v2"))

    def statistics(self, name: str, version: int = -1) -> list[dict[str, Any]] | Failure:
        found = self._http(f"/v2/models/{name}{_version(version)}/stats")
        return found if isinstance(found, Failure) else list(found["model_stats"])

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self.server.metrics}/metrics", timeout=10) as reply:
            return str(reply.read().decode())

    def log(self) -> str:
        return self.plain(self.server.log())

    def logged(self, message: str) -> list[Logged]:
        text = re.escape(json.dumps(message, ensure_ascii=False))
        found = re.finditer(rf"^([IWEF])\d{{4}} [\d:.]+ \d+ ([^ ]+):(\d+)\] {text}$", self.server.log(), re.MULTILINE)
        return [Logged(record[1], record[2], int(record[3])) for record in found]

    def log_verbosely(self, on: bool) -> None:
        self._http("/v2/logging", json.dumps({"log_verbose_level": int(on)}).encode())

    @staticmethod
    def _document(found: Any) -> dict[str, Any] | Failure:
        return found if isinstance(found, Failure) else dict(found)

    def _http(self, path: str, body: bytes | None = None) -> Any:
        """Return the JSON of a reply, None for an empty one, or a Failure with the status as its code."""
        try:
            with urllib.request.urlopen(f"http://{self.server.http}{path}", data=body, timeout=DEADLINE) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            return Failure(str(error.code), json.loads(text)["error"] if text else "")
        return json.loads(text) if text else None


def _version(version: int) -> str:
    return "" if version < 0 else f"/versions/{version}"
