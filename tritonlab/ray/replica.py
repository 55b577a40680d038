"""One replica of a repository: a server, its HTTP protocol as an ASGI application, and its health."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core.config.model_config import ModelConfig, parse_pbtxt
from ..core.status import InvalidArgumentError, TritonError, UnsupportedError
from ..frontends.http.asgi import AsgiApp
from ..frontends.http.http_app import HTTPApp, HTTPOptions
from ..frontends.http.reply import HttpReply, refusal
from ..frontends.http.request_parser import Request
from ..frontends.shared.access import ANY, AccessRules
from ..frontends.shared.request_memory import RequestMemory
from ..frontends.shared.shared_memory_manager import SharedMemoryManager
from ..server.api.server import Server

SHARED_MEMORY = (
    "shared memory cannot be used with Ray Serve: a region is registered with one replica, and the next request may "
    "reach another one, on another machine; send the tensors with the request"
)
_ONE_OF_MANY = (
    "'{}' would change one replica and not the others, as Ray Serve sends a request to any of them; deploy the "
    "application again with what is to change"
)
_REGIONS = re.compile(r"/v2/(system|cuda)sharedmemory/.*")
_CHANGES = re.compile(r"/v2/(repository(/[^/]+)?/models/[^/]+/(un)?load|logging|(models/[^/]+/)?trace/setting)")
#: Clients use Ray's address, whatever its name is; requests of web pages are still refused.
_RULES = AccessRules(hosts=(ANY,), model_control=False, settings=False)


class Replica:
    """The server of one replica. Ray Serve constructs it, and calls its methods by name.

    Raises InvalidArgumentError for a model that keeps sequences, ModelLoadError for a model that does not load: the
    deployment fails with that text.
    """

    def __init__(self, model_repository: str, models: Sequence[str] = ()) -> None:
        names = tuple(models) or ("*",)
        self._server = Server(model_repository, model_control_mode="explicit", startup_models=names, warm=0)
        core = self._server.core
        # as in Triton, a client that leaves only cancels a stream (`cancel_on_disconnect`, rule 6.15.10)
        options = HTTPOptions(access=_RULES, max_unread_size=core.max_unread_size)
        self._http = HTTPApp(core, SharedMemoryManager(refusal=SHARED_MEMORY), options)
        self._app = AsgiApp(self._http, _RULES, RequestMemory(core.max_message_size), refuses=_refused)
        try:
            for (name, _), model in self._server.models().items():
                check_config(name, parse_pbtxt(model.config_pbtxt(), "the served config"))
        except BaseException:
            self.stop()
            raise

    def __serve_build_asgi_app__(self) -> AsgiApp:
        """Return the ASGI application of this replica; Ray Serve calls this once."""
        return self._app

    def check_health(self) -> None:
        """Raise RuntimeError, after which Ray Serve replaces this replica, if a model is dead: its process has ended
        and no new one has started in its place. A model whose own `is_ready()` returns False is left alone."""
        if not self._server.live():
            raise RuntimeError("the server of this replica was stopped")
        dead = [
            f"{model.identifier} version {number}"
            for model in self._server.core.models.known()
            for number, version in model.versions.items()
            if version.failed()
        ]
        if dead:
            raise RuntimeError(f"no process runs for {', '.join(dead)}")

    def stop(self) -> None:
        """Wait for running requests, and end the models. Safe to call twice."""
        self._http.close()
        self._server.stop()

    def __del__(self) -> None:
        if hasattr(self, "_http"):
            self.stop()


def check_config(name: str, config: ModelConfig) -> None:
    """Raise InvalidArgumentError for a model that replicas cannot serve together."""
    if config.HasField("sequence_batching"):
        raise InvalidArgumentError(
            f"the model '{name}' keeps sequences, and Ray Serve sends the requests of one sequence to different "
            "replicas: serve it with Triton, or name the other models in `models`"
        )


def _refused(request: Request) -> HttpReply | None:
    """Refuse a request that every replica would have to receive."""
    path = request.path.decode("utf-8", "replace")
    error: TritonError | None = None
    if _REGIONS.fullmatch(path):
        error = UnsupportedError(SHARED_MEMORY)
    elif _CHANGES.fullmatch(path) and request.method == "POST":
        error = UnsupportedError(_ONE_OF_MANY.format(path))
    return refusal(error) if error is not None else None
