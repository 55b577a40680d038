"""The HTTP application of a server: the endpoint that answers each path and method (rule 6.1)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ...core.status import TritonError
from ...ipc.processes.stub_log import LogRecord
from ...server.inference_server import InferenceServer
from ...server.observe.tracer import RECEPTION, Reception
from ...server.options import MAX_UNREAD_SIZE
from ..shared.access import AccessRules
from ..shared.cuda_region import CudaRegion
from ..shared.infer_exchange import InferExchange, trace_context
from ..shared.shared_memory_manager import SharedMemoryManager
from ..shared.system_region import SystemRegion
from .control_endpoints import ControlEndpoints
from .generate_endpoint import GenerateEndpoint
from .infer_endpoint import PATH, InferEndpoint
from .large_work import LargeWork
from .models_page import FRAME, ModelsPage
from .reply import (
    JSON,
    METHOD_NOT_ALLOWED,
    TEXT,
    HttpCall,
    HttpReply,
    RestrictedFeatures,
    WriteWatch,
    failure,
    refusal,
)
from .request_parser import Request

#: The numbers of methods in Triton's verbose log, by their order (measured).
_METHODS = (
    *("GET", "HEAD", "POST", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "OPTIONS", "PROPFIND", "PROPPATCH", "LOCK"),
    *("UNLOCK", "TRACE", "CONNECT", "PATCH"),
)

#: Bytes; Triton's --http-max-input-size.
MAX_INPUT_SIZE = 64 << 20
#: How many calls of ControlEndpoints may block at the same time. Loads may take all of them; health is still answered.
_THREADS = 64
_HEALTH_THREADS = 4


Action: TypeAlias = Callable[[Request, dict[str, str]], Awaitable[HttpReply]]


@dataclass(frozen=True)
class HTTPOptions:
    """The options of the HTTP port.

    `header_forward_pattern`: request headers that match it, an expression of RE2, become parameters. `restricted_api`:
    category -> (header, value) that clients must send to use its endpoints. `max_input_size`: bytes of JSON, or of a
    raw binary body. `reuse_port`: servers that all set this may share a port. `access`: the access rules.
    `max_unread_size`: bytes of responses that may wait for a client. `cancel_on_disconnect`: whether a client that
    leaves cancels its request (rule 6.15.10). `models_page`: whether `/` shows the models, and `/openapi.json` their
    OpenAPI document; Triton has neither.
    """

    header_forward_pattern: str = ""
    restricted_api: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    max_input_size: int = MAX_INPUT_SIZE
    reuse_port: bool = False
    access: AccessRules = field(default_factory=AccessRules)
    max_unread_size: int = MAX_UNREAD_SIZE
    cancel_on_disconnect: bool = False
    models_page: bool = False


class HTTPApp:
    """The application of one server. Raises InvalidArgumentError for options that are not valid."""

    def __init__(self, core: InferenceServer, shared_memory: SharedMemoryManager, options: HTTPOptions) -> None:
        self._core = core
        self._restricted = RestrictedFeatures(options.restricted_api)
        self._threads = ThreadPoolExecutor(_THREADS, "tritonlab http")
        self._health_threads = ThreadPoolExecutor(_HEALTH_THREADS, "tritonlab http health")
        self._work = LargeWork()
        self._most_unread = options.max_unread_size
        self._cancels = options.cancel_on_disconnect
        self._exchange = InferExchange(core, shared_memory)
        self._infer = InferEndpoint(
            self._exchange,
            self._restricted,
            forwarded=options.access.forwarded(options.header_forward_pattern),
            max_input_size=options.max_input_size,
            on_defect=self.on_defect,
            work=self._work,
            cancels=self._cancels,
        )
        self._traced_infer = TracedCall(core, self._infer)
        self._routes = self._table(ControlEndpoints(core, shared_memory, options.access))
        if options.models_page:
            page = ModelsPage(core, options.restricted_api, bool(options.access.token))
            document = _Endpoint(self, "model-config", ("GET",), JSON, page.document)
            self._routes.append((_pattern("/openapi.json"), document))
            for path in FRAME:
                self._routes.append((_pattern(path), _Endpoint(self, "", ("GET",), TEXT, partial(page.frame, path))))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._health_threads.shutdown(wait=False, cancel_futures=True)
        self._work.close()

    @contextlib.contextmanager
    def reading(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Make the event loop, which runs on this thread meanwhile, read the answers to its clients' requests."""
        reader = self._core.loop_reader()
        loop.add_reader(reader.fileno(), reader.read)
        self._exchange.reader = reader
        try:
            yield
        finally:
            self._exchange.reader = None
            loop.remove_reader(reader.fileno())
            reader.close()

    async def __call__(self, request: Request) -> HttpReply:
        if self._core.log_settings.setting.log_verbose_level:
            self._log("HTTP request: {}", request)
        path = request.path
        try:
            text = path.decode()  # names are compared as they are sent, `%20` and all (measured)
        except UnicodeDecodeError:
            return self._not_found(request)
        infer = PATH.fullmatch(text) if text.endswith("/infer") else None
        if infer is not None:
            model, version = infer.groups("")
            endpoint = self._traced_infer if self._core.tracer.active else self._infer
            return await endpoint(request, model, version)
        for pattern, action in self._routes:
            if (match := pattern.fullmatch(text)) is not None:
                if self._core.tracer.active and isinstance(action, GenerateEndpoint):
                    action = TracedCall(self._core, action)
                return await action(request, match.groupdict())
        return self._not_found(request)

    def _not_found(self, request: Request) -> HttpReply:
        if self._core.log_settings.setting.log_verbose_level:
            self._log("HTTP error: {} - 404", request)
        return failure(404, "Not Found", TEXT)

    def _log(self, form: str, request: Request) -> None:
        """Add the line of Triton's verbose log for a request."""
        method = _METHODS.index(request.method) if request.method in _METHODS else len(_METHODS)
        text = form.format(f"{method} {request.path.decode(errors='replace')}")
        self._core.log.add(LogRecord.from_server("VERBOSE", text))

    def on_defect(self, error: Exception) -> HttpReply:
        """Return the reply for a defect of ours; the log names its place."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
        text = f"an HTTP request failed at {where}: {type(error).__name__}: {error}"
        self._core.log.add(LogRecord.from_server("ERROR", text))
        return failure(500, f"unexpected error: {type(error).__name__}: {error}")

    def _table(self, do: ControlEndpoints) -> list[tuple[re.Pattern[str], Action]]:
        model = "/v2/models/{model}"
        versions = (model, model + "/versions/{version}")
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
                for prefix, kind, register in (
                    ("/v2/systemsharedmemory", SystemRegion, do.system_register),
                    ("/v2/cudasharedmemory", CudaRegion, do.cuda_register),
                )
                for region in ("", "/region/{region}")
                for path, method, action in (
                    ("/status", get, partial(do.region_status, kind)),
                    ("/register", post, register),
                    ("/unregister", post, partial(do.unregister, kind)),
                )
            ),
        ]
        generating = [
            (
                _pattern(path + name),
                GenerateEndpoint(
                    self._exchange,
                    self._restricted,
                    self._work,
                    stream=stream,
                    most_unread=self._most_unread,
                    cancels=self._cancels,
                ),
            )
            for path in versions
            for name, stream in (("/generate", False), ("/generate_stream", True))
        ]
        return [*generating, *((_pattern(row[0]), _Endpoint(self, *row[1:])) for row in table)]


class _Endpoint:
    """The check of one endpoint: who may call it, and with which method."""

    def __init__(
        self,
        app: HTTPApp,
        category: str,
        methods: tuple[str, ...],
        kind: bytes,
        action: Callable[[HttpCall], HttpReply],
        blocks: bool = True,
    ) -> None:
        self._app = app
        self._category = category
        self._methods = methods
        self._kind = kind  # of errors
        self._action = action
        self._blocks = blocks
        self._threads = app._health_threads if category == "health" else app._threads

    async def __call__(self, request: Request, path: dict[str, str]) -> HttpReply:
        call = HttpCall(request.method, path, request.body)
        if (restricted := self._app._restricted.refusal(self._category, request.headers)) is not None:
            return restricted
        if call.method not in self._methods:
            return failure(405, METHOD_NOT_ALLOWED, self._kind)
        try:
            if self._blocks:
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._action, call)
            return self._action(call)
        except TritonError as error:
            return refusal(error, self._kind)


def _pattern(path: str) -> re.Pattern[str]:
    """Make the regular expression of a path with parts in braces."""
    text = path.replace("{version}", "(?P<version>[0-9]+)")
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", text))


class TracedCall:
    """An endpoint that adds the times that only HTTP has to its request's trace: of the bytes' arrival and of the
    answer (rule 5.14.4). It is only used while requests are traced."""

    def __init__(self, core: InferenceServer, endpoint: Callable[..., Awaitable[HttpReply]]) -> None:
        self._core = core
        self._endpoint = endpoint

    async def __call__(self, request: Request, *where: Any) -> HttpReply:
        now = self._core.clock.now
        headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in reversed(request.headers))
        reception = Reception(trace_context(headers))  # of two with one name the first counts
        reception.stamp("HTTP_RECV_START", request.begun)
        reception.stamp("HTTP_RECV_END", request.ended)

        def begin() -> None:
            reception.stamp("INFER_RESPONSE_COMPLETE", now())
            reception.stamp("HTTP_SEND_START", now())

        def end() -> None:
            reception.stamp("HTTP_SEND_END", now())
            reception.end()

        async def each(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            async for event in events:
                begin()
                yield event
                reception.stamp("HTTP_SEND_END", now())

        token = RECEPTION.set(reception)
        try:
            reply = await self._endpoint(request, *where)
        except BaseException:
            reception.end()
            raise
        finally:
            RECEPTION.reset(token)
        reply.watch = WriteWatch(begin, end)
        if reply.events is not None:
            reply.events, reply.watch = each(reply.events), WriteWatch(lambda: None, reception.end)
        return reply
