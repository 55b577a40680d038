"""The calls of a gRPC server, driven straight from grpcio's completion queue.

grpcio's own server (`grpc.server`) hands every event of every call from its one serving thread to a thread of a pool
and back: three hand-overs per unary call and two per message of a stream, each with a wait for the interpreter lock.
Here the thread that takes an event from the queue handles it, and the thread that answers a request starts the write
itself. Measured side by side with the same client and an echo, processor time of the server: 105 us instead of 157 us
per unary call with 32 in flight, 8 us instead of 66 us per response of a stream (6,000 responses/s there, 15,600 here);
`grpc.aio` 457 us and 50 us.

One thread serves. With a second thread, so that one can read the stub's answer itself (as a caller in the kernel does),
a lone caller's request costs 10.5 sleeps and 6.5 preemptions of the process instead of 6.6 and 2.1, and is slower: two
threads on one queue cause more useless wake-ups than they save.

The answers of stubs come on the link reader's thread, which writes them itself. A completion queue has no descriptor,
so the serving thread cannot wait for both, as HTTP's event loop does. Two alternatives were tried with 4 to 16
connections on 2 cores that had 7 other processes to run: this thread reads the stubs between two events of the queue
and lends them to the link reader while it sleeps (2.0 sleeps of the process a request instead of 2.6; processor time
1.42 x Triton's instead of 1.55 with 8 connections, 1.30 instead of 1.26 with 16, 1.38 instead of 1.29 with 4); and it
also waits up to 300 us for a stub before it lends them (1.69 instead of 1.55; with one connection 1.49 instead of
1.24).

The queue and the operations on calls are grpcio's private `cygrpc`, on which its two public servers are built. All uses
of it are in this module, and `tests/frontends/grpc/test_calls.py` runs every one. Measured again on 2026-11-28, on 2
cores that had other work, with an echo of 200 bytes, 32 calls in flight: processor time of the server 53 us per call
here, 213 us with `grpc.server` alone, 616 us with the calls of this module on top of it; 4, 33 and 64 us per response
of a stream. So pyproject.toml allows no minor version of grpcio after the newest that these tests have seen, a job
tries the newest release (`.github/workflows/newest.yml`), and a version without a used part is refused.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeAlias

import grpc

from ...core.status import UnavailableError
from ...server.options import MAX_UNREAD_SIZE
from ..shared.request_memory import OVERHEAD, too_much_unread
from . import NEWEST

_log = logging.getLogger(__name__)

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]

#: Every part of `cygrpc` that this module uses, with the attributes used.
_USED = {
    "Server": ("register_completion_queue", "add_http2_port", "start", "request_call", "shutdown", "destroy"),
    "CompletionQueue": ("poll", "shutdown"),
    "CompletionType": ("queue_shutdown",),
    "Call": ("start_server_batch", "cancel"),
    "RequestCallEvent": ("call", "call_details", "invocation_metadata", "success", "tag", "completion_type"),
    "BatchOperationEvent": ("batch_operations", "tag", "completion_type"),
    "WriteFlag": ("buffer_hint",),
    "GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY": (),
}
#: Its operations, with arguments by which each is made once at the start, as a release may need others.
_OPERATIONS: dict[str, tuple[Any, ...]] = {
    "ReceiveCloseOnServerOperation": (0,),
    "ReceiveMessageOperation": (0,),
    "SendMessageOperation": (b"", 0),
    "SendInitialMetadataOperation": (None, 0),
    "SendStatusFromServerOperation": (None, 0, b"", 0),
}


def load_cygrpc() -> SimpleNamespace:
    """Return the used parts of grpcio's private module by name. Raises UnavailableError for a grpcio without one."""
    try:
        from grpc._cython import cygrpc as module  # type: ignore[attr-defined]

        attrgetter(*(f"{name}.{part}" for name, parts in _USED.items() for part in parts))(module)
        used = {name: getattr(module, name) for name in (*_USED, *_OPERATIONS)}
        for name, arguments in _OPERATIONS.items():
            used[name](*arguments)
        used["ReceiveMessageOperation"](0).message()
    except (ImportError, AttributeError, TypeError) as error:
        below = f"{NEWEST[0]}.{NEWEST[1] + 1}"
        raise UnavailableError(
            f"the gRPC service does not run with grpcio {grpc.__version__} ({error}): pip install 'grpcio<{below}', or "
            "serve without it: --allow-grpc=false"
        ) from error
    return SimpleNamespace(**used)


cygrpc = load_cygrpc()
_COMPRESSION = cygrpc.GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY
_HINT = cygrpc.WriteFlag.buffer_hint
_SHUTDOWN = cygrpc.CompletionType.queue_shutdown
_OK: int = grpc.StatusCode.OK.value[0]
_receive = cygrpc.ReceiveMessageOperation
_receive_close = cygrpc.ReceiveCloseOnServerOperation
_send = cygrpc.SendMessageOperation
_send_metadata = cygrpc.SendInitialMetadataOperation
_send_status = cygrpc.SendStatusFromServerOperation


def _status(code: grpc.StatusCode, text: str) -> Any:
    return _send_status(None, code.value[0], text.encode("utf-8", "replace"), 0)


def _ignore(event: Any) -> None:
    """Do nothing at the end of operations that need no further step."""


#: The calls whose next message has not come wholly, in the order in which their wait began.
RECEIVING: dict[GRPCCall, None] = {}


class GRPCCall:
    """One call in progress. A subclass decides when to read and to listen, and what to do with the messages.

    `metadata`: the client's metadata, with keys in lower case.
    """

    #: `gzip` or `deflate`, where responses are to be compressed if the client can read that
    compression: str = ""
    #: called when the call is over, by the serving thread
    on_over: Callable[[], None] | None = None
    #: the least memory in bytes that this process had in use since the wait for a message began, once it was measured
    least: int | None = None

    def __init__(self, event: Any) -> None:
        self._call = event.call
        self.metadata: Metadata = event.invocation_metadata

    def _listen(self, *operations: Any) -> None:
        """Request the event of the call's end, once, with `operations` that end the call, which saves an event."""
        self._call.start_server_batch((_receive_close(0), *operations), self._on_closed)

    def _read(self) -> None:
        self.least = None
        RECEIVING[self] = None
        self._call.start_server_batch((_receive(0),), self._on_message)

    def _on_message(self, event: Any) -> None:
        raise NotImplementedError

    def _on_closed(self, event: Any) -> None:
        """Handle the call's end for the client: it has its status, has cancelled, is gone, or its deadline passed."""
        if self.on_over is not None:
            self.on_over()
        if event.batch_operations[0].cancelled():
            self.cancelled()

    def cancelled(self) -> None:
        """Note that the client no longer waits for the answer."""

    def refuse_message(self, text: str) -> None:
        """End the call while its message is received, from any thread."""
        raise NotImplementedError

    def _cancel(self, text: str) -> None:
        self._call.cancel(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], text)

    def _beginning(self) -> Any:
        return _send_metadata(((_COMPRESSION, self.compression),) if self.compression else None, 0)


class UnaryCall(GRPCCall):
    """A call with one message. `handle` is called on the serving thread and must not block; `respond` or `fail` ends
    the call, from any thread, once.

    An answer and the call's end are one event if the answer comes before `handle` returns: at 100 calls a second 1,300
    us p50 and 834 us of processor time instead of 1,520 and 963.
    """

    def __init__(self, event: Any) -> None:
        super().__init__(event)
        self._lock = threading.Lock()  # guards _call, None when the call is over, and _listens
        self._listens = False
        self._begun = False  # whether initial metadata went out
        self._read()

    def _on_message(self, event: Any) -> None:
        RECEIVING.pop(self, None)
        message = event.batch_operations[0].message()
        if message is None:
            self.without_message()
        else:
            try:
                self.handle(message)
            except Exception as error:  # a defect of ours; its client must not wait for ever
                _log.exception("a call failed")
                self.fail(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        with self._lock:
            if not self._listens:  # it is not answered yet
                self._listens = True
                self._listen()

    def handle(self, message: bytes) -> None:
        raise NotImplementedError

    def without_message(self) -> None:
        """Note that the client sends no message, or has gone and does not read the answer."""
        self.fail(grpc.StatusCode.INTERNAL, "Unable to parse request")

    def hand_over(self, work: Callable[[], None]) -> None:
        """Call `work`, which ends the call, on the serving thread; not if the call is over."""

        def on_begun(event: Any) -> None:
            try:
                work()
            except Exception as error:  # a defect of ours; its client must not wait for ever
                _log.exception("an answer failed")
                self.fail(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

        with self._lock:
            if self._call is not None:
                self._begun = True  # the operation whose event that thread gets
                self._call.start_server_batch((self._beginning(),), on_begun)

    def respond(self, message: bytes) -> None:
        self._close(_send(message, 0), _send_status(None, _OK, b"", 0))

    def fail(self, code: grpc.StatusCode, text: str) -> None:
        self._close(_status(code, text))

    def _close(self, *operations: Any) -> None:
        self._finish(*(() if self._begun else (self._beginning(),)), *operations)

    def refuse_message(self, text: str) -> None:
        with self._lock:
            if self._call is not None:
                self._cancel(text)

    def _finish(self, *operations: Any) -> None:
        with self._lock:
            if not self._listens:
                self._listens = True
                self._listen(*operations)
            elif self._call is not None:
                self._call.start_server_batch(operations, _ignore)

    def _on_closed(self, event: Any) -> None:
        with self._lock:
            self._call = None  # an operation on a call of a server that has stopped aborts the process
        super()._on_closed(event)


class StreamCall(GRPCCall):
    """A call with any number of messages both ways. `handle` is called as in UnaryCall, for each message, and `closed`
    after the last one.

    One write is under way at a time; more wait in a queue. Beyond `most_unread` bytes in it the stream is ended, but
    one message may be larger; from a quarter of that size on, the client's messages are not read.
    """

    def __init__(self, event: Any, most_unread: int = MAX_UNREAD_SIZE) -> None:
        super().__init__(event)
        self._most_unread = most_unread
        self._lock = threading.Lock()  # guards all of the below
        self._begun = False  # whether initial metadata went out
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._writing = False
        self._paused = False  # whether reading waits until the client has taken what there is for it
        #: whether the client has sent its last message
        self.input_over = False
        self._end: Any = None  # the status, once nothing follows
        #: the status is on its way, or the client is gone
        self.is_over = False
        self._listen()
        self._read()

    @property
    def is_sending(self) -> bool:
        return self._writing

    def handle(self, message: bytes) -> None:
        raise NotImplementedError

    def closed(self) -> None:
        """Note that the client sends no further message."""
        raise NotImplementedError

    def stop_reading(self) -> None:
        """Stop reading the client's messages."""
        self.input_over = True
        self.closed()

    def _on_message(self, event: Any) -> None:
        RECEIVING.pop(self, None)
        message = event.batch_operations[0].message()
        if message is None:
            self.stop_reading()
            return
        try:
            self.handle(message)
        except Exception as error:  # a defect of ours; its client must not wait for ever
            _log.exception("a stream failed")
            self.end(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        with self._lock:
            if self.is_over or self._end is not None or self.input_over:
                return
            self._paused = self._unsent_bytes > self._most_unread // 4
            if self._paused:
                return
        self._read()

    def write(self, message: bytes) -> None:
        """Send a message after those before it. A client that does not read them loses its stream."""
        with self._lock:
            if self.is_over or self._end is not None:
                return
            if not self._writing:
                self._writing = True
                self._start_write(message, 0)
                return
            self._unsent.append(message)
            self._unsent_bytes += len(message) + OVERHEAD
            if self._unsent_bytes <= self._most_unread or len(self._unsent) == 1:
                return
            self._cancel(too_much_unread(self._most_unread))

    def refuse_message(self, text: str) -> None:
        with self._lock:
            if not self.is_over:
                self._cancel(text)

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK, text: str = "") -> None:
        """End the stream after the messages that are already written."""
        with self._lock:
            if self.is_over or self._end is not None:
                return
            self._end = _status(code, text)
            if not self._writing:
                self._start_end()

    def _start_write(self, message: bytes, flags: int) -> None:
        operations = (_send(message, flags),) if self._begun else (self._beginning(), _send(message, flags))
        self._begun = True
        self._call.start_server_batch(operations, self._on_sent)

    def _start_end(self) -> None:
        self.is_over = True
        operations = (self._end,) if self._begun else (self._beginning(), self._end)
        self._call.start_server_batch(operations, _ignore)

    def _on_sent(self, event: Any) -> None:
        with self._lock:
            if self.is_over:
                return
            if self._unsent:
                message = self._unsent.popleft()
                self._unsent_bytes -= len(message) + OVERHEAD
                # more follows at once: they may share packets
                self._start_write(message, _HINT if self._unsent else 0)
            else:
                self._writing = False
                if self._end is not None:
                    self._start_end()
                    return
            resumed = self._paused and self._unsent_bytes <= self._most_unread // 8
            if resumed:
                self._paused = False
        if resumed:
            self._read()

    def _on_closed(self, event: Any) -> None:
        with self._lock:
            self.is_over = True
            self._unsent.clear()
            self._unsent_bytes = 0
        super()._on_closed(event)


CallFactory: TypeAlias = Callable[[Any], GRPCCall]


class RefusedCall(UnaryCall):
    """A call of any kind that is answered with an error."""

    def __init__(self, event: Any, code: grpc.StatusCode, text: str) -> None:
        super().__init__(event)
        self.fail(code, text)

    def handle(self, message: bytes) -> None:
        pass

    def without_message(self) -> None:
        pass


class CallServer:
    """A server of calls on a thread of its own; `methods` are the full names and factories of GRPCCall.

    `options` are gRPC channel arguments. `watch` checks the messages that are being received, and returns the seconds
    until its next call. It has a thread of its own, as the serving thread may read from sockets for 100 ms and more
    before it returns from `poll`. With 512 MB of memory, 4 clients of 120 MB ended the server in 6 of 21 runs when the
    serving thread called it; in 1 of 30 with the thread; 4 clients of 60 MB, the largest message now, in 0 of 12, and
    8 of them in 0 of 14.
    """

    def __init__(
        self,
        methods: Mapping[str, CallFactory],
        options: Sequence[tuple[str, Any]],
        watch: Callable[[], float] = lambda: 60.0,
    ) -> None:
        self._watch = watch
        self._methods = {name.encode(): factory for name, factory in methods.items()}
        self._queue = cygrpc.CompletionQueue()
        self._server = cygrpc.Server(tuple(options), False)
        self._server.register_completion_queue(self._queue)
        self._running = False
        self._unary = 0  # calls under way that take one message; the serving thread alone counts
        self._streams: weakref.WeakSet[StreamCall] = weakref.WeakSet()
        self._stopped = threading.Event()
        self._ended = threading.Event()
        self._receives = threading.Event()  # set while calls of the last look, or later ones, receive messages
        self._thread = threading.Thread(target=self._serve, name="grpc", daemon=True)
        self._watcher = threading.Thread(target=self._watch_messages, name="grpc memory", daemon=True)

    def listen(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Bind `host:port` and return the port; port 0 is any free one. Raises OSError."""
        inner = [] if credentials is None else [credentials._credentials]  # type: ignore[attr-defined]
        port = self._server.add_http2_port(address.encode(), *inner)
        if not port:
            raise OSError(f"cannot listen on {address}")
        return int(port)

    def start(self) -> None:
        self._server.start()
        self._running = True
        self._accept()
        self._thread.start()
        self._watcher.start()

    def _accept(self) -> None:
        self._server.request_call(self._queue, self._queue, self._on_call)

    def _on_call(self, event: Any) -> None:
        if not event.success:
            return  # the server is stopping
        if self._running:
            self._accept()
        factory = self._methods.get(event.call_details.method)
        if factory is None:
            RefusedCall(event, grpc.StatusCode.UNIMPLEMENTED, "")  # Triton gives no more detail (measured)
            return
        call = factory(event)
        if isinstance(call, StreamCall):
            self._streams.add(call)
        else:
            self._unary += 1
            call.on_over = self._on_over

    def _on_over(self) -> None:
        self._unary -= 1

    def is_busy(self) -> bool:
        """Return whether a message is being received or sent. A stream that waits for its client is not busy."""
        return self._unary > 0 or any(stream.is_sending for stream in list(self._streams))

    def _serve(self) -> None:
        poll, receives = self._queue.poll, self._receives
        while True:
            if RECEIVING and not receives.is_set():
                receives.set()
            try:
                event = poll()
            except MemoryError:  # for a message that has come; grpcio drops it and cancels its call
                _log.error("there was no memory for a message of a client; its call is cancelled")
                continue
            if event.completion_type == _SHUTDOWN:
                return
            try:
                event.tag(event)
            except Exception:  # a defect of ours; the other calls go on
                _log.exception("an event of a call was not handled")
            event = None  # a queue with an event that holds a call cannot shut down

    def _watch_messages(self) -> None:
        while self._receives.wait() and not self._ended.wait(self._watch()):
            self._receives.clear()
            if RECEIVING:
                self._receives.set()

    def stop(self, grace: float = 0) -> None:
        """Refuse new calls and wait. Calls under way have `grace` seconds to end, then they are cancelled. May be
        called twice, and without a start."""
        if not self._running:
            return
        self._running = False
        self._server.shutdown(self._queue, lambda event: self._stopped.set())
        if not grace or not self._stopped.wait(grace):
            self._server.cancel_all_calls()
            self._stopped.wait()
        self._queue.shutdown()
        self._thread.join()
        self._ended.set()
        self._receives.set()
        self._watcher.join()
        self._server.destroy()
