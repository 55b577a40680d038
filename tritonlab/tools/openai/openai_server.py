"""The port of OpenAI's API, on a thread and event loop of its own."""

from __future__ import annotations

import logging
from dataclasses import replace

from ...frontends.http.connection_server import ConnectionServer
from ...frontends.http.reply import HttpReply
from ...frontends.shared.access import AccessRules
from ...frontends.shared.request_memory import RequestMemory
from ...server.inference_server import InferenceServer
from .openai_app import OpenAIApp
from .openai_errors import OpenAIError

_log = logging.getLogger(__name__)


class OpenAIServer:
    """The port of one server. It is started and stopped at most once. `rules`: the access rules; their token is the key
    of the API."""

    def __init__(self, core: InferenceServer, rules: AccessRules, memory: RequestMemory | None = None) -> None:
        self._app = OpenAIApp(core, rules)
        self._server = ConnectionServer(
            self._app,
            "tritonlab openai",
            replace(rules, token=""),  # the application refuses in OpenAI's form
            _defect,
            memory=memory,
            cancel_on_disconnect=True,
        )

    def start(self, address: str, port: int) -> int:
        """Listen, and return the port. Raises UnavailableError if the port is in use."""
        return self._server.start(address, port)

    def is_busy(self) -> bool:
        """Return whether a request is being received or an answer sent."""
        return self._server.is_busy()

    def client(self, address: str, token: str) -> dict[str, str]:
        """Return the options of `openai.OpenAI` for this port. A server without a token takes any key."""
        return {"base_url": f"http://{address}/v1", "api_key": token or "none"}

    def stop(self, timeout: float = 0.0) -> None:
        """Refuse new connections; requests under way are cut off after `timeout` seconds."""
        self._server.stop(timeout)
        self._app.metrics.close()


def _defect(error: Exception) -> HttpReply:
    _log.error("a request failed", exc_info=error)
    failure = OpenAIError(f"unexpected error: {type(error).__name__}: {error}", 500)
    return HttpReply(failure.status, failure.body())
