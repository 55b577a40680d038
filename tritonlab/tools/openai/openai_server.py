"""The port of OpenAI's API, on a thread and event loop of its own."""

from __future__ import annotations

from dataclasses import replace

from ...frontends.http.connection_server import ConnectionServer
from ...frontends.http.reply import HttpReply
from ...frontends.shared.access import AccessRules
from ...frontends.shared.request_memory import RequestMemory
from ...server.inference_server import InferenceServer
from .openai_app import OpenAIApp
from .openai_errors import OpenAIError


class OpenAIServer(ConnectionServer):
    """The port of one server. `rules`: the access rules; their token is the key of the API."""

    def __init__(self, core: InferenceServer, rules: AccessRules, memory: RequestMemory | None = None) -> None:
        app = OpenAIApp(core, rules)
        self._token_metrics = app.metrics
        own = replace(rules, token="")  # the application refuses in OpenAI's form
        super().__init__(app, "tritonlab openai", own, _defect, memory=memory, cancel_on_disconnect=True)

    def client(self, address: str, token: str) -> dict[str, str]:
        """Return the options of `openai.OpenAI` for this port. A server without a token takes any key."""
        return {"base_url": f"http://{address}/v1", "api_key": token or "none"}

    def stop(self, timeout: float = 0.0) -> None:
        super().stop(timeout)
        self._token_metrics.close()


def _defect(error: Exception) -> HttpReply:
    failure = OpenAIError.unexpected(error)
    return HttpReply(failure.status, failure.body())
