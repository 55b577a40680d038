"""The ASGI application: which path and method is answered by what (rule 6.1)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ...core.status import InvalidArgumentError, TritonError
from ...ipc.stub_log import LogRecord
from ...server.inference_server import InferenceServer
from ..shared.access import AccessRules, Forwarded
from ..shared.exchange import Exchange
from ..shared.shared_memory_manager import SharedMemoryManager
from .control_endpoints import ControlEndpoints
from .generate_endpoint import GenerateEndpoint
from .http_protocol import is_gone
from .infer_endpoint import PATH, InferEndpoint
from .large_work import LargeWork
from .reply import JSON, METHOD_NOT_ALLOWED, TEXT, Call, Disconnected, Reply, failure, read_body, refusal
from .restricted_features import RestrictedFeatures
from .traced_call import TracedCall

#: Bytes; Triton's --http-max-input-size.
MAX_INPUT_SIZE = 64 << 20
#: ControlEndpoints that may block at the same time; loads may have all of them, and health is asked meanwhile.
_THREADS = 64
_HEALTH_THREADS = 4


class _Digits(StringConvertor):
    regex = "[0-9]+"


register_url_convertor("digits", _Digits())


@dataclass(frozen=True)
class HTTPOptions:
    """`header_forward_pattern`: request headers whose name it finds become parameters. `restricted_api`: category ->
    (header, value), without which a client may not use its endpoints. `max_input_size`: bytes of JSON, or of a raw
    binary body. `reuse_port`: other servers that say so may have the same port. `access`: who may ask for what; about a
    head that it let pass to `infer` it is not asked again on its connection. `middleware`: ASGI applications around the
    whole, the first one outermost, of which the same holds."""

    header_forward_pattern: str = ""
    restricted_api: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    max_input_size: int = MAX_INPUT_SIZE
    reuse_port: bool = False
    access: AccessRules = field(default_factory=AccessRules)
    middleware: Sequence[Callable[[ASGIApp], ASGIApp]] = ()


class HTTPApp:
    """The application of one server, middleware not included. Raises InvalidArgumentError for options that cannot
    be."""

    def __init__(self, core: InferenceServer, shared_memory: SharedMemoryManager, options: HTTPOptions) -> None:
        self._core = core
        self._restricted = RestrictedFeatures(options.restricted_api)
        self._threads = ThreadPoolExecutor(_THREADS, "tritonlab http")
        self._health_threads = ThreadPoolExecutor(_HEALTH_THREADS, "tritonlab http health")
        self._work = LargeWork()
        self._exchange = Exchange(core, shared_memory)
        self._infer = InferEndpoint(
            self._exchange,
            self._restricted,
            _forwarded(options),
            options.max_input_size,
            self._on_defect,
            self._work,
        )
        self._traced_infer = TracedCall(core, self._infer)
        self._router = Router(
            self._routes(ControlEndpoints(core, shared_memory, options.access)),
            redirect_slashes=False,
            default=_not_found,
        )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._health_threads.shutdown(wait=False, cancel_futures=True)
        self._work.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: bytes = scope["raw_path"]
        try:
            infer = PATH.fullmatch(path) if path.endswith(b"/infer") else None
            if infer is not None:
                model, version = infer.groups(b"")
                endpoint = self._traced_infer if self._core.tracer.active else self._infer
                await endpoint(scope, receive, send, model.decode("latin-1"), version.decode())
            else:
                # names are compared as they are sent, `%20` and all (measured)
                scope["path"] = path.decode("latin-1")
                await self._router(scope, receive, send)
        except Disconnected:
            pass
        except Exception as error:
            if not (isinstance(error, RuntimeError) and is_gone(send)):  # nobody is there to write to
                await self._on_defect(error).send(send)

    def _on_defect(self, error: Exception) -> Reply:
        """A defect of ours: the client is told that there was one, the log says where."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
        text = f"an HTTP request failed at {where}: {type(error).__name__}: {error}"
        self._core.log.add(LogRecord(time.time_ns(), "", -1, "", "server", "ERROR", text))
        return failure(500, f"unexpected error: {type(error).__name__}: {error}")

    def _routes(self, do: ControlEndpoints) -> list[Route]:
        model = "/v2/models/{model}"
        versions = (model, model + "/versions/{version:digits}")
        system, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
        get, post, both = ("GET",), ("POST",), ("GET", "POST")
        table: list[Any] = [
            ("/v2/health/live", "health", get, TEXT, do.live, False),
            ("/v2/health/ready", "health", get, TEXT, do.ready),
            ("/v2", "metadata", get, JSON, do.server_metadata),
            ("/v2/models/stats", "statistics", get, JSON, do.statistics),
            *((path, "metadata", get, JSON, do.model_metadata) for path in versions),
            *((path + "/ready", "health", get, TEXT, do.model_ready) for path in versions),
            *((path + "/config", "model-config", get, JSON, do.model_config) for path in versions),
            *((path + "/stats", "statistics", get, JSON, do.statistics) for path in versions),
            (model + "/trace/setting", "trace", both, JSON, do.trace_setting),
            ("/v2/trace/setting", "trace", both, JSON, do.trace_setting),
            ("/v2/logging", "logging", both, JSON, do.logging),
            *(
                (prefix + path, "model-repository", post, JSON, action)
                for prefix in ("/v2/repository", "/v2/repository/{repository}")
                for path, action in (
                    ("/index", do.repository_index),
                    ("/models/{model}/load", do.load),
                    ("/models/{model}/unload", do.unload),
                )
            ),
            *(
                (prefix + region + path, "shared-memory", method, JSON, action)
                for prefix, actions in (
                    (system, (do.system_status, do.system_register, do.system_unregister)),
                    (cuda, (do.cuda_status, do.cuda_register, do.cuda_unregister)),
                )
                for region in ("", "/region/{region}")
                for path, method, action in zip(
                    ("/status", "/register", "/unregister"), (get, post, post), actions, strict=True
                )
            ),
        ]
        generating = [
            Route(path + name, GenerateEndpoint(self._exchange, self._restricted, self._work, stream=stream))
            for path in versions
            for name, stream in (("/generate", False), ("/generate_stream", True))
        ]
        return [*generating, *(Route(row[0], _Endpoint(self, *row[1:])) for row in table)]


class _Endpoint:
    """An ASGI application around one endpoint: who may ask, with which method."""

    def __init__(
        self,
        app: HTTPApp,
        category: str,
        methods: tuple[str, ...],
        kind: bytes,
        action: Callable[[Call], Reply],
        blocks: bool = True,
    ) -> None:
        self._app = app
        self._category = category
        self._methods = methods
        self._kind = kind  # of errors
        self._action = action
        self._blocks = blocks
        self._threads = app._health_threads if category == "health" else app._threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive)
        call = Call(scope["method"], scope["path_params"], scope["headers"], body)
        await (await self._reply(call)).send(send)

    async def _reply(self, call: Call) -> Reply:
        if (restricted := self._app._restricted.refusal(self._category, call.headers)) is not None:
            return restricted
        if call.method not in self._methods:
            return failure(405, METHOD_NOT_ALLOWED, self._kind)
        try:
            if self._blocks:
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._action, call)
            return self._action(call)
        except TritonError as error:
            return refusal(error, self._kind)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await read_body(scope, receive)
    await failure(404, "Not Found", TEXT).send(send)


def _forwarded(options: HTTPOptions) -> Forwarded | None:
    try:
        return options.access.forwarded(options.header_forward_pattern)
    except re.error as error:
        pattern = options.header_forward_pattern
        raise InvalidArgumentError(f"'{pattern}' is no regular expression for header names: {error}") from None
