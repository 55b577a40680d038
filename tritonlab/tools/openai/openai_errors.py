"""The errors of OpenAI's API: a status, and one JSON object that its clients read."""

from __future__ import annotations

import json
import logging
from typing import Any

from ...core.status import Code, TritonError

_log = logging.getLogger(__name__)
_STATUS = {
    Code.NOT_FOUND: 404,
    Code.INVALID_ARG: 400,
    Code.UNSUPPORTED: 400,
    Code.ALREADY_EXISTS: 400,
    Code.UNAVAILABLE: 503,
}
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "invalid_request_error"}


class OpenAIError(Exception):
    """An error for the client. `param`: the field of the request that caused it; `code`: OpenAI's word for it."""

    def __init__(self, message: str, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code

    @classmethod
    def from_triton(cls, error: TritonError) -> OpenAIError:
        """Return the error of a model or of the server, with Triton's text."""
        status = _STATUS.get(error.code, 500)
        return cls(error.message, status, code="model_not_found" if status == 404 else None)

    @classmethod
    def unexpected(cls, error: Exception) -> OpenAIError:
        """Log an error that nothing handles, and return its error for the client."""
        _log.error("a request failed", exc_info=error)
        return cls(f"unexpected error: {type(error).__name__}: {error}", 500)

    @classmethod
    def missing(cls, name: str, of: str = "") -> OpenAIError:
        """Return the error of a request without a field that it needs."""
        return cls(
            f"Missing required parameter: '{name}'{of and ', '}{of}", param=name, code="missing_required_parameter"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that a client gets."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def body(self) -> bytes:
        return json.dumps(self.to_dict()).encode()
