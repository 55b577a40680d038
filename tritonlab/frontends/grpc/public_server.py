"""grpcio's public server under the names of its private `cygrpc` that `calls.py` uses, for a grpcio that lacks those.

The public server runs each call on a thread of its pool, and reads and writes block there. So a call here has two
threads, one that waits for what is to be sent and one for the client's next message. What they find goes to the one
serving thread as events, as it would from a completion queue, so the handlers see no difference. It is slower (the head
of `calls.py` has numbers). A stream that is ended while its client reads nothing has the status CANCELLED, and a client
that is gone may first look as if it had sent its last message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any, TypeAlias

import grpc

#: Calls at the same time; more wait.
THREADS = 512

GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY = "compression"
CompletionType = SimpleNamespace(
    queue_shutdown="queue shutdown", queue_timeout="queue timeout", operation_complete="operation complete"
)
WriteFlag = SimpleNamespace(buffer_hint=0)  # the public server has no such hint

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_ALGORITHMS = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}

Tag: TypeAlias = Callable[[Any], object]


def _ignore(event: Any) -> None:
    """Handle the end of operations whose tag another one has, too."""


class ReceiveMessageOperation:
    def __init__(self, flags: int) -> None:
        self.found: bytes | None = None

    def message(self) -> bytes | None:
        return self.found


class ReceiveCloseOnServerOperation:
    def __init__(self, flags: int) -> None:
        self.found = False

    def cancelled(self) -> bool:
        return self.found


@dataclass(frozen=True, slots=True)
class SendMessageOperation:
    content: bytes
    flags: int


@dataclass(frozen=True, slots=True)
class SendInitialMetadataOperation:
    metadata: Sequence[tuple[str, str]] | None
    flags: int


@dataclass(frozen=True, slots=True)
class SendStatusFromServerOperation:
    metadata: Any
    code: int
    details: bytes
    flags: int


class CompletionQueue:
    def __init__(self) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()

    def post(self, tag: Tag | None, **content: Any) -> None:
        """Report to the serving thread what happened; without a tag, that nothing more will happen."""
        kind = CompletionType.operation_complete if tag is not None else CompletionType.queue_shutdown
        self._events.put(SimpleNamespace(tag=tag, completion_type=kind, **content))

    def poll(self, deadline: float | None = None) -> Any:
        try:
            return self._events.get(timeout=None if deadline is None else max(deadline - time.time(), 0.0))
        except Empty:
            return SimpleNamespace(completion_type=CompletionType.queue_timeout)

    def shutdown(self) -> None:
        self.post(None)


class PublicCall:
    """The connection of a call's handler, which starts operations, with the threads that carry them out."""

    def __init__(self, queue: CompletionQueue, readers: ThreadPoolExecutor, requests: Any, context: Any) -> None:
        self._queue = queue
        self._readers = readers
        self._requests = requests
        self._context = context
        self._to_send: SimpleQueue[tuple[Sequence[Any], Tag] | None] = SimpleQueue()
        self._ended = False  # its status has been sent

    def start_server_batch(self, operations: Sequence[Any], tag: Tag) -> None:
        first, *others = operations
        if isinstance(first, ReceiveCloseOnServerOperation):
            if others:  # They are over when the call is.
                self._to_send.put((others, _ignore))
            if not self._context.add_callback(lambda: self._close(first, tag)):
                self._close(first, tag)
        elif isinstance(first, ReceiveMessageOperation):
            self._readers.submit(self._read, first, tag)
        else:
            self._to_send.put((operations, tag))

    def cancel(self, code: int, details: str) -> None:
        self._context.cancel()

    def _read(self, operation: ReceiveMessageOperation, tag: Tag) -> None:
        try:
            operation.found = next(self._requests, None)
        except Exception:  # grpcio's way to say that the client is gone
            operation.found = None
        self._queue.post(tag, batch_operations=(operation,))

    def _close(self, operation: ReceiveCloseOnServerOperation, tag: Tag) -> None:
        operation.found = not self._ended
        self._to_send.put(None)
        self._queue.post(tag, batch_operations=(operation,))

    def sent(self) -> Iterator[bytes]:
        """Yield the messages to grpcio's thread, which asks for the next one when one was sent."""
        while (batch := self._to_send.get()) is not None:
            operations, tag = batch
            for operation in operations:
                if isinstance(operation, SendMessageOperation):
                    yield operation.content
                elif isinstance(operation, SendStatusFromServerOperation):
                    self._ended = self._context.is_active()  # or the client is gone, which its handler must hear
                    self._context.set_code(_CODES[operation.code])
                    self._context.set_details(operation.details.decode())
                elif operation.metadata:
                    self._context.set_compression(_ALGORITHMS[dict(operation.metadata)["compression"]])
            self._queue.post(tag, batch_operations=operations)
            if isinstance(operations[-1], SendStatusFromServerOperation):
                return


class Server(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs alone
    def __init__(self, options: Sequence[tuple[str, Any]], xds: bool) -> None:
        self._queue: CompletionQueue
        self._on_call: Tag
        self._pool = ThreadPoolExecutor(THREADS, "grpc call")
        self._readers = ThreadPoolExecutor(THREADS, "grpc read")
        self._server = grpc.server(self._pool, handlers=[self], options=options)

    def register_completion_queue(self, queue: CompletionQueue) -> None:
        self._queue = queue

    def add_http2_port(self, address: bytes, credentials: grpc.ServerCredentials | None = None) -> int:
        """Return the port; 0 if it cannot be had, as the private server does."""
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(address.decode()))
            return int(self._server.add_secure_port(address.decode(), credentials))
        except RuntimeError:
            return 0

    def start(self) -> None:
        self._server.start()

    def request_call(self, queue: CompletionQueue, other: CompletionQueue, tag: Tag) -> None:
        self._on_call = tag  # asked again after each call, in vain: all are taken

    def service(self, details: Any) -> Any:
        """Treat every method as a stream both ways; `calls.py` knows which methods there are."""

        def run(requests: Any, context: Any) -> Iterator[bytes]:
            call = PublicCall(self._queue, self._readers, requests, context)
            named = SimpleNamespace(method=details.method.encode())
            metadata = details.invocation_metadata
            self._queue.post(self._on_call, success=True, call=call, call_details=named, invocation_metadata=metadata)
            return call.sent()

        return grpc.stream_stream_rpc_method_handler(run)

    def shutdown(self, queue: CompletionQueue, tag: Tag) -> None:
        stopped = self._server.stop(threading.TIMEOUT_MAX)

        def wait() -> None:
            stopped.wait()
            queue.post(tag)

        threading.Thread(target=wait, name="grpc stop", daemon=True).start()

    def cancel_all_calls(self) -> None:
        self._server.stop(0)

    def destroy(self) -> None:
        self._pool.shutdown()
        self._readers.shutdown()
