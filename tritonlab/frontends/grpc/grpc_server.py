"""The gRPC frontend, which offers tritonclient's service on a server's core (rules 6.7, 6.12, 6.13)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from ...core.status import InvalidArgumentError, UnavailableError
from ...ipc.processes.memory_room import RESERVE
from ...server.inference_server import InferenceServer
from ...server.observe.idle_memory import private
from ...stub._pb_stub.wire.shm_manager import trim_heap
from ..shared.access import AUTHORIZATION
from ..shared.grpc_options import GRPCOptions
from ..shared.request_memory import RequestMemory, no_memory
from ..shared.shared_memory_manager import SharedMemoryManager
from .calls import RECEIVING, CallFactory, CallServer, GRPCCall, RefusedCall, UnaryCall
from .control_handlers import HEALTH, RPCS, ControlCall, Services
from .infer_handler import InferService, ModelInferCall, TracedModelInferCall
from .infer_response_writer import LARGEST_MESSAGE
from .stream_infer_handler import ModelStreamInferCall

SERVICE = "/inference.GRPCInferenceService/"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"

#: The beginning of the metadata key for a restricted protocol (rule 6.1.3).
RESTRICTED_PREFIX = "triton-grpc-protocol-"

#: How many loads and other calls that may block run at the same time.
CONTROL_THREADS = 16

#: --grpc-infer-response-compression-level: gRPC's levels are these algorithms.
_COMPRESSION = {"none": "", "low": "gzip", "medium": "deflate", "high": "deflate"}

#: How often a received message is in memory next to its pieces.
_RECEIVED_COPIES = 2
#: Messages matter only if the process grows by at least this much.
_MUCH = 16 << 20
#: Bytes that clients of this machine send in a second, at most, and the seconds between two checks.
_RATE = 4 << 30
_SOONEST, _LATEST = 0.005, 1.0


def _credentials(options: GRPCOptions) -> grpc.ServerCredentials | None:
    """Return the server's credentials, None without SSL. Raises InvalidArgumentError for an unreadable file."""
    if not options.use_ssl and not options.use_ssl_mutual:
        return None
    key, cert = _file("key", options.server_key), _file("cert", options.server_cert)
    root = _file("root", options.root_cert) if options.root_cert or options.use_ssl_mutual else None
    return grpc.ssl_server_credentials([(key, cert)], root, options.use_ssl_mutual)


def _file(what: str, path: str | None) -> bytes:
    try:
        return Path(path or "").read_bytes()
    except OSError as error:
        option = "root" if what == "root" else "server"
        raise InvalidArgumentError(f"--grpc-{option}-{'cert' if what == 'root' else what}: {error}") from error


class GRPCServer:
    """A server on one port, from `start` to `stop`."""

    def __init__(
        self,
        core: InferenceServer,
        shared_memory: SharedMemoryManager,
        options: GRPCOptions | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        self._options = options = options or GRPCOptions()
        memory = memory or RequestMemory()
        self._pool = ThreadPoolExecutor(CONTROL_THREADS, "grpc control")
        most = ("grpc.max_receive_message_length", min(memory.most_at_once, LARGEST_MESSAGE))
        methods = self._methods(core, shared_memory, memory)
        self._server = CallServer(methods, [*options.channel_arguments(), most], ReceptionWatch(memory).watch)

    def _methods(
        self, core: InferenceServer, shared_memory: SharedMemoryManager, memory: RequestMemory
    ) -> dict[str, CallFactory]:
        options = self._options
        forwarded = options.access.forwarded(options.header_forward_pattern)
        service = InferService(core, shared_memory, forwarded, memory)
        services = Services(core, shared_memory, options.access)
        compression = _COMPRESSION[options.compression]
        methods: dict[str, CallFactory] = {
            f"{SERVICE}ModelInfer": self._restricted(
                "inference",
                lambda event: (TracedModelInferCall if core.tracer.active else ModelInferCall)(
                    event, service, compression
                ),
            ),
            f"{SERVICE}ModelStreamInfer": self._restricted(
                "inference", lambda event: ModelStreamInferCall(event, service, compression, options.max_unread_size)
            ),
        }
        names = {HEALTH_CHECK: HEALTH, **{SERVICE + name: rpc for name, rpc in RPCS.items()}}
        for name, rpc in names.items():

            def control(event: Any, rpc: Any = rpc) -> GRPCCall:
                return ControlCall(event, rpc, services, self._pool)

            methods[name] = self._restricted(rpc.category, control)
        is_live = f"{SERVICE}ServerLive"
        return {name: factory if name == is_live else self._guarded(factory) for name, factory in methods.items()}

    def _guarded(self, factory: CallFactory) -> CallFactory:
        """Wrap a factory so that only calls with the token, if there is one, reach it."""
        access = self._options.access
        if not access.token:
            return factory

        def guarded(event: Any) -> GRPCCall:
            sent = [value for key, value in event.invocation_metadata if key == AUTHORIZATION]
            if refused := access.refuses(sent, AUTHORIZATION):
                return RefusedCall(event, grpc.StatusCode.UNAUTHENTICATED, refused)
            return factory(event)

        return guarded

    def _restricted(self, category: str, factory: CallFactory) -> CallFactory:
        """Wrap a factory so that only calls with the category's key and value reach it (rule 6.1.3)."""
        if category not in self._options.restricted:
            return factory
        key, value = self._options.restricted[category]
        header = (RESTRICTED_PREFIX + key.lower(), value)

        def restricted(event: Any) -> GRPCCall:
            if header in event.invocation_metadata:
                return factory(event)
            text = f"This protocol is restricted, expecting header '{RESTRICTED_PREFIX}{key}'"
            return RefusedCall(event, grpc.StatusCode.UNAVAILABLE, text)

        return restricted

    def start(self, address: str, port: int) -> int:
        """Listen, and return the port; port 0 is any free one. Raises UnavailableError."""
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        try:
            bound = self._server.listen(place, _credentials(self._options))
        except OSError as error:
            raise UnavailableError(f"Socket '{place}' already in use ") from error
        self._server.start()
        return bound

    def is_busy(self) -> bool:
        """Return whether a request is being received or an answer sent."""
        return self._server.is_busy()

    def stop(self, timeout: float = 0) -> None:
        """Refuse new calls and wait. Calls under way have `timeout` seconds, then they are cancelled."""
        self._server.stop(timeout)
        self._pool.shutdown(wait=False)


class ReceptionWatch:
    """The watch over the messages that one server receives. grpcio reports a message only once it is complete and in
    memory three times: in the pieces that came, in a row, and as `bytes`. Until then its memory shows only in the
    memory of this process.
    """

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._has_refused = False
        self._least = 0  # in use since there was neither a message nor a unary call that receives one

    def watch(self) -> float:
        """End the newest call that receives a message, if there is no memory for a message as large as this process has
        grown since the oldest began. Return in how many seconds to check again."""
        if self._has_refused:
            trim_heap()  # the pieces of the refused message
            self._has_refused = False
        now, size = private(os.getpid()), 0
        later = self._memory.later
        calls = {call: isinstance(call, UnaryCall) for call in list(RECEIVING)}
        is_start = not later and all(call.least is None for call, is_unary in calls.items() if is_unary)
        self._least = now if is_start else min(now, self._least)
        for call, is_unary in calls.items():
            # memory that an earlier message still had when this call began, and that it frees, hides later growth
            begin = self._least if is_unary else now
            call.least = begin if call.least is None else min(now, call.least)
            size = max(size, now - call.least)
        size = min(size, self._memory.most_at_once)
        room = self._memory.room
        needed = _RECEIVED_COPIES * size + later + RESERVE
        left = room.left()
        if size > _MUCH and left < needed + (1 + _RECEIVED_COPIES) * self._memory.most_at_once:
            room.reclaim()  # early, as the message does not wait until that is done
        if size > _MUCH and left < needed and (newest := [call for call in reversed(calls) if call in RECEIVING]):
            # a stream may only wait for its client
            refused = next((call for call in newest if calls[call]), newest[0])
            RECEIVING.pop(refused, None)
            self._has_refused = True
            refused.refuse_message(str(no_memory(size)))
        spare = left - needed
        return min(max(spare / (1 + _RECEIVED_COPIES) / _RATE, _SOONEST), _LATEST)
