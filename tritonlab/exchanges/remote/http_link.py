"""The way to a server over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ...core.inference.infer_request import RequestSpec
from ...core.inference.infer_response import InferenceResponse
from ...core.status import Code, NotFoundError, TritonError, UnavailableError, UnsupportedError
from ..http_document import read_response, request_body

_CODES = {400: Code.INVALID_ARG, 404: Code.NOT_FOUND, 501: Code.UNSUPPORTED, 503: Code.UNAVAILABLE}


class HttpLink:
    """A server over HTTP: one connection per call, because calls are rare and come from any thread."""

    protocol = "HTTP"

    def __init__(self, address: str, headers: Mapping[str, str], timeout: float) -> None:
        self.address = address
        self.headers = dict(headers)
        self.timeout = timeout
        self._binary: bool | None = None

    def live(self, timeout: float) -> bool:
        """Return whether an HTTP server of this protocol answers. `timeout`: seconds."""
        try:
            self._ask("GET", "/v2/health/live", timeout=timeout)
        except TritonError as error:
            return not isinstance(error, UnavailableError | NotFoundError)
        return True

    def server(self) -> dict[str, Any]:
        return self._document("/v2")

    def metadata(self, name: str, version: str) -> dict[str, Any]:
        return self._document(model_path(name, version))

    def config(self, name: str, version: str) -> dict[str, Any]:
        return self._document(model_path(name, version) + "/config")

    def statistics(self, name: str, version: str) -> dict[str, Any]:
        return self._document(model_path(name, version) + "/stats")

    @property
    def binary(self) -> bool:
        """Return whether tensors may be sent as bytes after the JSON, both ways."""
        if self._binary is None:
            self._binary = "binary_tensor_data" in self.server().get("extensions", ())
        return self._binary

    def send(self, request: RequestSpec, decoupled: bool) -> Iterator[InferenceResponse]:
        if decoupled:
            raise UnsupportedError("HTTP has one response for each request; use gRPC for a decoupled model")
        body, head = request_body(request, self.binary)
        length = {"Inference-Header-Content-Length": str(head)} if head is not None else {}
        version = str(request.model_version) if request.model_version != -1 else ""
        answer, headers = self._ask("POST", model_path(request.model_name, version) + "/infer", body, length)
        found = headers.get("Inference-Header-Content-Length")
        yield read_response(answer, int(found) if found else None)

    def close(self) -> None:
        pass

    def _document(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask("GET", path)[0])
        return found

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        more: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> tuple[bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(self.address, timeout=timeout or self.timeout)
        try:
            connection.request(method, path, body, {**self.headers, **(more or {})})
            reply = connection.getresponse()
            data = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnavailableError(
                f"{self.address} does not answer over HTTP: {error or type(error).__name__}"
            ) from None
        finally:
            connection.close()
        if reply.status != 200:
            raise TritonError.from_code(_CODES.get(reply.status, Code.INTERNAL), error_text(data, reply.status))
        return data, reply.headers


def model_path(name: str, version: str) -> str:
    return f"/v2/models/{quote(name, safe='')}" + (f"/versions/{version}" if version else "")


def error_text(data: bytes, status: int) -> str:
    try:
        return str(json.loads(data)["error"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace").strip() or f"HTTP status {status}"
