"""The way to a server over HTTP."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ...core.inference.infer_request import RequestSpec
from ...core.inference.infer_response import InferenceResponse
from ...core.status import Code, NotFoundError, TritonError, UnavailableError, UnsupportedError
from ..http_document import infer_path, model_path, read_response, request_body
from .transport import Transport

#: The most bytes of a request that loads a model. 2.51 takes 4.0 MB, and ends with SIGSEGV at 5.3 MB (2026-11-28).
MOST_LOAD_BYTES = 2_000_000
_CODES = {400: Code.INVALID_ARG, 404: Code.NOT_FOUND, 501: Code.UNSUPPORTED, 503: Code.UNAVAILABLE}


class HttpLink:
    """A server over HTTP: one connection per call, because calls are rare and come from any thread."""

    protocol = "HTTP"

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.address = transport.name
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
        answer, headers = self._ask("POST", infer_path(request), body, length)
        found = headers.get("Inference-Header-Content-Length")
        yield read_response(answer, int(found) if found else None)

    def index(self) -> list[dict[str, Any]]:
        """Return the rows of the repository index."""
        return list(json.loads(self._ask("POST", "/v2/repository/index", b"{}")[0]))

    def load(self, name: str, config: str | None, files: Mapping[str, bytes], timeout: float) -> None:
        """Load a model, with a configuration in its JSON form and files by their path in the model directory, and wait
        until it is READY. `timeout`: seconds."""
        parameters = {"config": config} if config is not None else {}
        parameters |= {f"file:{path}": base64.b64encode(data).decode() for path, data in files.items()}
        body = json.dumps({"parameters": parameters}).encode()
        if len(body) > MOST_LOAD_BYTES:
            raise UnsupportedError(
                f"'{name}' was not loaded: with its files the request has {len(body) / 1e6:,.1f} MB, and over HTTP "
                f"{MOST_LOAD_BYTES / 1e6:,.1f} MB are the most, as larger ones can crash a Triton: connect over gRPC"
            )
        self._ask("POST", f"/v2/repository/models/{quote(name, safe='')}/load", body, timeout=timeout)

    def unload(self, name: str) -> None:
        """Unload a model. It returns before its requests have ended."""
        self._ask("POST", f"/v2/repository/models/{quote(name, safe='')}/unload", b"{}")

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
        try:
            with contextlib.closing(_Connection(self.transport, timeout or self.transport.timeout)) as connection:
                connection.request(method, path, body, {**self.transport.headers, **(more or {})})
                reply = connection.getresponse()
                data = reply.read()
        except (OSError, http.client.HTTPException) as error:  # also for an address that is not HOST:PORT
            raise self.transport.failure(self.protocol, error) from None
        if reply.status != 200:
            raise http_error(data, reply.status)
        return data, reply.headers


class _Connection(http.client.HTTPConnection):
    """A connection that is opened by a `Transport`, with or without TLS."""

    def __init__(self, transport: Transport, timeout: float) -> None:
        super().__init__(transport.address, timeout=timeout)
        self._transport = transport

    def connect(self) -> None:
        self.sock = self._transport.connect(self.timeout)


def http_error(data: bytes, status: int) -> TritonError:
    """Return the error of an answer with another status than 200."""
    return TritonError.from_code(_CODES.get(status, Code.INTERNAL), error_text(data, status))


def error_text(data: bytes, status: int) -> str:
    try:
        return str(json.loads(data)["error"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace").strip() or f"HTTP status {status}"
