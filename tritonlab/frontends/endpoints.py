"""The three ports of a server, HTTP, gRPC and metrics, opened and closed together."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from ..core.os_limits import explained
from ..core.process_bound import ProcessBound
from ..core.scratch_directory import ScratchDirectory
from ..core.status import InvalidArgumentError, TritonError, UnavailableError
from ..ipc.processes.stub_log import LogRecord
from ..server.api.server import Server
from ..server.inference_server import InferenceServer
from ..tool_table import Port, find_port, ports
from .http.connection_server import ConnectionServer
from .http.http_server import HTTPOptions, HTTPServer, metrics_app
from .shared.access import AUTHORIZATION, AccessRules
from .shared.cuda_region import ServerGpus
from .shared.grpc_options import GRPCOptions
from .shared.listener import GRPC_PORT, HTTP_PORT, LOOPBACK, METRICS_PORT, FileWatch, check_free
from .shared.request_memory import RequestMemory
from .shared.shared_memory_manager import SharedMemoryManager

#: Seconds for requests under way, by default.
STOP_TIMEOUT = 5.0


class Frontend(Protocol):
    """A listener on one port."""

    def start(self, address: str, port: int) -> int:
        """Listen, and return the port."""

    def is_busy(self) -> bool:
        """Return whether a request is being received or an answer sent."""

    def stop(self, timeout: float) -> None:
        """Refuse new requests; requests under way get `timeout` seconds."""


class ToolFrontend(Frontend, Protocol):
    """A listener of a tool (`tool_table.Port`)."""

    def client(self, address: str, token: str) -> dict[str, str]:
        """Return the options of a client of the port. `token`: what it must send; "" for none."""


class ListenAddress(NamedTuple):
    """The address of one service. With `shared`, other servers may listen there, too."""

    address: str
    port: int
    shared: bool = False


@dataclass(frozen=True)
class EndpointOptions:
    """The options of a server's ports.

    `http`, `grpc`, `metrics`: whether that port is opened; port 0 is any free one. `metrics_address`: by default HTTP's
    address. `client_shm`: whether clients may register shared memory. `access`: the access rules. `max_message_size`:
    bytes of one request, and of one answer over gRPC; all requests together may have twice as many. `max_unread_size`:
    bytes of unread responses that may wait for the client of one stream; beyond that the request is cancelled and the
    stream ends with an error. For these two, None means the server's setting (`Options`). `http_cancel_on_disconnect`:
    whether an HTTP client that leaves cancels its request. `tool_ports`: the ports of tools by name, at HTTP's address.
    """

    http: bool = True
    grpc: bool = True
    metrics: bool = True
    http_address: str = LOOPBACK
    grpc_address: str = LOOPBACK
    metrics_address: str = ""
    http_port: int = HTTP_PORT
    grpc_port: int = GRPC_PORT
    metrics_port: int = METRICS_PORT
    client_shm: bool = False
    max_message_size: int | None = None
    max_unread_size: int | None = None
    http_cancel_on_disconnect: bool = False
    tool_ports: Mapping[str, int] = field(default_factory=dict)
    access: AccessRules = field(default_factory=AccessRules)
    http_options: HTTPOptions = field(default_factory=HTTPOptions)
    grpc_options: GRPCOptions = field(default_factory=GRPCOptions)

    def places(self) -> dict[str, ListenAddress]:
        """Map each service, by its name in Triton's log, to its address, in the order in which Triton starts them."""
        places = {
            "GRPC": (self.grpc, ListenAddress(self.grpc_address, self.grpc_port, self.grpc_options.reuse_port)),
            "HTTP": (self.http, ListenAddress(self.http_address, self.http_port, self.http_options.reuse_port)),
            "Metrics": (self.metrics, ListenAddress(self.metrics_address or self.http_address, self.metrics_port)),
        }
        known = ports() if self.tool_ports else {}
        for name, number in self.tool_ports.items():
            if name not in known:
                raise InvalidArgumentError(f"no tool has a port '{name}'; there are {', '.join(known) or 'none'}")
            places[known[name].title] = (True, ListenAddress(self.http_address, number))
        return {name: address for name, (allowed, address) in places.items() if allowed}

    def guarded(self) -> AccessRules:
        """Return the access rules; a client may also name the address that the server listens on."""
        addresses = (self.http_address, self.metrics_address)
        return replace(self.access, hosts=(*self.access.hosts, *filter(None, addresses)))

    def check_free(self) -> None:
        """Raise the error of `Endpoints` for a port that is in use, or used twice. Call it before models are loaded,
        because loading takes long."""
        for (one, address), (other, another) in itertools.combinations(sorted(self.places().items(), key=_by_name), 2):
            if address[:2] == another[:2] and address.port:
                raise InvalidArgumentError(
                    f"The server cannot listen to {_word(one)} requests and {_word(other)} requests at the same "
                    f"address and port {address.address}:{address.port}"
                )
        for name, address in self.places().items():
            with _named(name):
                check_free(address.address, address.port, address.shared)


#: Triton's names for two services at one port, in this order.
_WORDS = {"HTTP": "HTTP", "GRPC": "GRPC", "Metrics": "metrics"}


def _word(service: str) -> str:
    return _WORDS.get(service, service)


def _by_name(item: tuple[str, ListenAddress]) -> int:
    return [*_WORDS, item[0]].index(item[0])


class _Secret(str):
    """A header's value that its repr hides, for example among the variables of a traceback."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr("Bearer …")


class _SecretHeaders(dict[str, str]):
    """Headers or options whose values must not be shown to every reader of a notebook."""

    def __repr__(self) -> str:
        return repr(dict(self))


class Endpoints(ProcessBound):
    """The open ports of one server, from the constructor to `stop`. `started(service, place)` is called for each.

    Raises the TritonError of a port that cannot be opened; then no port is open.
    """

    _elsewhere = "give the other process its addresses, `http` and `grpc`, and its `headers`"

    def __init__(
        self,
        core: InferenceServer,
        options: EndpointOptions | None = None,
        started: Callable[[str, str], None] = lambda service, place: None,
    ) -> None:
        options = options or EndpointOptions()
        options.check_free()
        most = options.max_message_size
        memory = RequestMemory(core.max_message_size if most is None else most)
        gpus = ServerGpus(core.gpus, core.pool.gpu_buffers)
        shared_memory = SharedMemoryManager(options.client_shm, gpus, memory=memory)
        access = options.guarded()
        unread = options.max_unread_size if options.max_unread_size is not None else core.max_unread_size
        http_options = replace(
            options.http_options,
            access=access,
            max_unread_size=unread,
            cancel_on_disconnect=options.http_cancel_on_disconnect,
        )
        grpc_options = replace(options.grpc_options, access=access, max_unread_size=unread)
        frontends: dict[str, Callable[[], Frontend]] = {
            "GRPC": lambda: _grpc_server(core, shared_memory, grpc_options, memory),
            "HTTP": lambda: HTTPServer(core, shared_memory, http_options, memory),
            "Metrics": lambda: ConnectionServer(
                metrics_app(core.metrics_text), "tritonlab metrics", access, memory=memory
            ),
        }
        for tool, known in ports().items() if options.tool_ports else ():
            frontends[known.title] = functools.partial(self._tool_server, tool, known, access, memory)
        self._tool_servers: dict[str, ToolFrontend] = {}
        self._token = access.token
        self._has_models_page = http_options.models_page
        self._files = FileWatch(lambda text: core.log.add(LogRecord.from_server("ERROR", text)))
        self._lock = threading.Lock()  # guards the next
        self._scratch: ScratchDirectory | None = None  # of the header's file
        #: service -> `address:port`
        self.places: dict[str, str] = {}
        self._open: dict[str, Frontend] = {}
        self._core = core
        try:
            for name, (address, port, _) in options.places().items():
                frontend = frontends[name]()
                with _named(name):
                    bound = frontend.start(address, port)
                self._open[name] = frontend
                core.idle_memory.endpoints.append(frontend.is_busy)
                self.places[name] = f"[{address}]:{bound}" if ":" in address else f"{address}:{bound}"
                started(name, self.places[name])
            self._files.start()
        except BaseException:
            self.stop(0)
            raise

    def _tool_server(self, name: str, port: Port, access: AccessRules, memory: RequestMemory) -> Frontend:
        self._tool_servers[name] = find_port(port)(self._core, access, memory)
        return self._tool_servers[name]

    @classmethod
    def from_server(cls, server: Server, options: EndpointOptions | None = None) -> Endpoints:
        """Open the ports of a server in the kernel."""
        return cls(server.core, options)

    @property
    def http(self) -> str:
        """Return `address:port` of HTTP; empty while it is not open."""
        return self.places.get("HTTP", "")

    @property
    def grpc(self) -> str:
        return self.places.get("GRPC", "")

    @property
    def metrics(self) -> str:
        return self.places.get("Metrics", "")

    @property
    def tools(self) -> dict[str, dict[str, str]]:
        """The options of clients of the open ports of tools: `openai.OpenAI(**endpoints.tools["openai"])`."""
        return {
            name: _SecretHeaders(found.client(self.places[port.title], _Secret(self._token) if self._token else ""))
            for name, port in ports().items()
            if port.title in self.places and (found := self._tool_servers.get(name)) is not None
        }

    @property
    def headers(self) -> dict[str, str]:
        """The headers that clients must send with every request, as tritonclient's `headers` for either protocol; empty
        if they need no token. Their repr, which a notebook would store, does not show the token."""
        return _SecretHeaders({AUTHORIZATION: _Secret(f"Bearer {self._token}")} if self._token else {})

    @property
    def header_file(self) -> str:
        """Return the path of a file with the same header as a line, for `curl -H @FILE`; "" if clients need no token.
        Only this user can read it. It is written at the first call, and removed when the ports are closed. Raises
        UnavailableError if it cannot be written."""
        if not self._token:
            return ""
        with self._lock:
            if self._scratch is None:
                try:
                    self._scratch = self._written_header()
                except OSError as error:
                    cause = explained(error) or str(error)
                    raise UnavailableError(f"the file with the token cannot be written: {cause}") from error
            return str(self._scratch.path / AUTHORIZATION)

    def _written_header(self) -> ScratchDirectory:
        scratch = ScratchDirectory("ports-")
        try:
            file = os.open(scratch.path / AUTHORIZATION, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "w") as opened:
                opened.write(f"{AUTHORIZATION}: Bearer {self._token}\n")
        except BaseException:
            scratch.remove()
            raise
        return scratch

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Close the ports; requests under way get `timeout` seconds, all together. Safe to call twice."""
        end = time.monotonic() + timeout
        self._files.stop()
        # metrics last: a client may watch them to the end
        for name in (*(name for name in self._open if name not in _WORDS), *_WORDS):
            frontend = self._open.pop(name, None)
            if frontend is not None:
                frontend.stop(max(end - time.monotonic(), 0))
                self._core.idle_memory.endpoints.remove(frontend.is_busy)
        self.places = {}
        with self._lock:
            if self._scratch is not None:
                self._scratch.remove()

    def __enter__(self) -> Endpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def to_dict(self) -> dict[str, Any]:
        """Return the addresses as JSON values, and whether clients need a token, but not the token."""
        tools = {port.title: self.places[port.title] for port in ports().values() if port.title in self.places}
        named = {"http": self.http, "grpc": self.grpc, "metrics": self.metrics, "token": bool(self._token)}
        return {**named, "tools": tools} if tools else named

    def __repr__(self) -> str:
        """Show one line per port, in the form that clients accept."""
        forms = (
            ("HTTP     http://{}", self.http),
            ("models   http://{}/", self.http if self._has_models_page else ""),
            ("gRPC     {}", self.grpc),
            ("metrics  http://{}/metrics", self.metrics),
            *((f"{name:<8} http://{{}}", place) for name, place in self.places.items() if name not in _WORDS),
            (f"token    {'needed: `.headers` has it' if self._token else 'none'}", " ".join(self.places)),
        )
        return "\n".join(form.format(address) for form, address in forms if address) or "no endpoints"


def _grpc_server(*arguments: Any) -> Frontend:
    """Make the server. gRPC is imported only here, so that HTTP works without it."""
    from .grpc.grpc_server import GRPCServer

    return GRPCServer(*arguments)


@contextlib.contextmanager
def _named(service: str) -> Iterator[None]:
    """Add the name of the service to an error, as Triton does."""
    try:
        yield
    except TritonError as error:
        of_tools = {port.title: name for name, port in ports().items()}
        option = of_tools.get(service, service.lower())
        without = "leave that out" if service in of_tools else f"--allow-{option}=false"
        raise TritonError.from_code(
            error.code,
            f"failed to start {service} service: {error.code.text} - {error.message}; "
            f"another port: --{option}-port (0: any free one), without it: {without}",
        ) from None
