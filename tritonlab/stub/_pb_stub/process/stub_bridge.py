"""The stub's bridge: calls of the author's objects to the server cross the control socket and the two regions."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from queue import SimpleQueue
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Set, Tuple

from ..api import own_threads
from ..api.bridge import Bridge, BridgeError, stderr_line
from ..api.dlpack import Imported
from ..api.errors import TritonError, code_of
from ..api.infer_request import InferenceRequest
from ..api.infer_response import InferenceResponse
from ..api.pb_tensor import Tensor
from ..api.signal_gate import uninterrupted
from ..devices.gpus import driver_of
from ..wire.connection import Connection, LinkClosed
from ..wire.device_memory import Lent
from ..wire.ipc_message import NUMBER, NUMBER_OF, ROW, read_answer
from ..wire.message_bodies import (
    LAST,
    NO_RESPONSE,
    UNCHECKED,
    DeviceMemory,
    InferCancel,
    InferResponse,
    IsCancelled,
    Log,
    Reply,
    Response,
    ResponseError,
    Row,
)
from ..wire.serialization import bounded
from ..wire.shm_manager import Region, RegionReader, SharedMemoryError
from ..wire.tensor_block import Wire, pack_tensors
from .device_arena import DeviceArena
from .inbox import Inbox
from .link_pdb import LastError
from .needed_calls import RunningExecute
from .prints import print_error
from .region_tensors import Sent, Unpacked, add_wires, keep_sent, received_tensors


class DeferredCalls:
    """The work that destructors leave; one daemon thread does it, in order. If one call raises, the thread ends
    silently: the link is gone.

    A destructor may run on any thread and at any moment, even between two bytes of a message: it must not take a lock
    and must not send. It only puts a call here.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()  # its put() is made to be called in destructors
        self.thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Start the thread, which first does earlier work. Not for destructors, where a thread must not start."""
        if self.thread is None:
            self.thread = own_threads.start("errands", self._run)

    def put(self, call: Callable[[], None]) -> None:
        """Let the thread call `call` soon. May be called anywhere."""
        self._queue.put(call)

    def _run(self) -> None:
        while True:
            self._queue.get()()


_INFER = NUMBER["INFER"]
_NOTHING: Any = ()
_NO_OUTPUT: Row = [[], None, ""]


class StubBridge(Bridge):
    """The bridge of a stub process: each call becomes a message to the server."""

    def __init__(self, connection: Connection, region: Region, reader: RegionReader) -> None:
        self.connection = connection
        self.region = region
        self.reader = reader
        #: requested outputs of each request that may still be answered through its sender, by handle
        self.open_requests: Dict[int, FrozenSet[str]] = {}
        #: the requests among them that a forked process may answer too
        self.shared_requests: Set[int] = set()
        #: outputs of the config, and others with an earlier warning; None without warnings
        self.declared: Optional[Set[str]] = None
        #: whether the server requests more of a failure than its text
        self.tells_failures = False
        self.last_error = LastError()
        #: whether this is the copy of a parent's bridge in a forked process
        self.abandoned = False
        self.deferred = DeferredCalls()
        self.arena = DeviceArena(lambda wanted: read_answer(ROW[DeviceMemory], self.call(wanted)))
        self.inbox = Inbox(connection)
        region.on_full = self.inbox.drain
        self.running = RunningExecute()
        self.ids = itertools.count(1)

    def abandon(self) -> None:
        """Abandon the link, in a forked process, as it belongs to the parent. Later uses here raise LinkClosed."""
        self.abandoned = True
        self.connection.abandon()

    def tell(self, message: Any, ident: int = 0) -> None:
        """Send the body of a row of the COMMANDS table. Raises LinkClosed."""
        self.connection.send(NUMBER_OF[type(message)], ident, message)

    @uninterrupted
    def call(self, message: Any) -> Any:
        if self.phase in ("import", "auto_complete"):
            # Triton waits for ever here (rule 1.18); nothing could ever answer, so raise at once
            raise BridgeError("%s is not available during auto_complete_config" % ROW[type(message)].name)
        ident = next(self.ids)
        box = self.inbox.open(ident)
        try:
            self.tell(message, ident)
            self.inbox.await_one(box)
        finally:
            self.inbox.close(ident)
        reply: Reply = box.popleft()
        if reply.failure is not None:
            raise BridgeError(reply.failure.text, reply.failure.code)
        return reply.value

    def is_cancelled(self, handle: int) -> bool:
        return bool(self.call(IsCancelled(handle)))

    def lend(self, imported: Imported) -> Lent:
        return self.arena.lend(driver_of(imported.pointer), imported.device[1], imported.pointer, imported.nbytes)

    @uninterrupted
    def log(self, level: int, message: str, file: str, line: int) -> None:
        if self.phase in ("import", "auto_complete", "construct"):
            print_error(stderr_line(level, message, file, line))  # rule 1.13.4
        else:
            self.tell(Log(level, file, line, message))

    def send_response(self, handle: int, response: Optional[InferenceResponse], flags: int) -> None:
        requested = self.open_requests.get(handle, frozenset())
        block: Optional[int] = None
        output = _NO_OUTPUT
        number = flags
        if response is None:
            number |= NO_RESPONSE
        else:
            try:
                block, (output,), sent = self.pack_responses([(response, requested)])
            except SharedMemoryError as failure:
                raise BridgeError(str(failure)) from None
            if sent:
                keep_sent(self.region, block, sent)
        if flags:
            self.open_requests.pop(handle, None)
        self.tell(Response(number, block, *output), handle)

    def forgotten(self, handle: int, answered: bool) -> None:
        if handle in self.shared_requests:
            return
        # removed now: the same handle may return with a rescheduled request
        if self.open_requests.pop(handle, None) is not None:
            self.deferred.put(lambda: self._fail_forgotten(handle, answered))

    def _fail_forgotten(self, handle: int, answered: bool) -> None:
        """End a request that the model can no longer end. On Triton its client waits for ever (rules 3.2.2, 3.7.2)."""
        when = "after a response, but " if answered else ""
        text = (
            "Failed to process the request(s) for model '%s', message: The request and its response sender were "
            "dropped %swithout the final flag, so nothing could end the request. Call response_sender.send("
            "flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL) when the last response was sent."
        ) % (self.instance_name, when)
        with contextlib.suppress(LinkClosed):  # the server is gone, as the main loop notices too
            self.tell(
                Response(flags=LAST, block=None, tensors=[], error=ResponseError(None, text), parameters=""), handle
            )

    def pack_responses(
        self, responses: List[Tuple[InferenceResponse, FrozenSet[str]]]
    ) -> Tuple[Optional[int], List[Row], "Sequence[Sent]"]:
        """Pack the requested outputs of all `responses` into one block.

        Returns the block, the row of each response (rules 1.8.4, 1.9.5), and the tensors for `keep_sent`. Raises
        SharedMemoryError if the region cannot grow.
        """
        wires: List[Wire] = []
        plans = []
        changeable: List[Unpacked] = []
        for response, requested in responses:
            error = response._error
            wanted = 0
            if error is None:
                tensors = response._tensors
                chosen = [tensor for tensor in tensors if tensor._name in requested]
                wanted = len(chosen)
                if wanted < len(tensors) and self.declared is not None:
                    self._warn_of_undeclared(tensors, requested)
                add_wires(wires, chosen, changeable)
            plans.append((wanted, error, response._parameters))
        block, headers = pack_tensors(self.region, wires)
        packed: List[Row] = []
        position = 0
        for count, error, parameters in plans:
            rows = headers[position : position + count]
            position += count
            if error is None:
                packed.append([rows, None, parameters])  # the row of an Output
            else:
                packed.append([[], ResponseError(code_of(error), bounded(error.message())), ""])
        return block, packed, [(tensor, headers[index]) for index, tensor in changeable] if changeable else _NOTHING

    def _warn_of_undeclared(self, tensors: Sequence[Tensor], requested: FrozenSet[str]) -> None:
        """Warn of outputs that are not in the config, of each name once: Triton drops them silently (rule 3.4.1)."""
        assert self.declared is not None
        for tensor in tensors:
            name = tensor._name
            if name not in requested and name not in self.declared:
                self.declared.add(name)
                self.log(
                    1, "%s'%s' is not an output of the config and was dropped." % (UNCHECKED, bounded(name)), "", 0
                )

    def infer(self, request: InferenceRequest, decoupled: bool) -> "InferCall":
        inputs: List[Wire] = []
        changeable: List[Unpacked] = []
        add_wires(inputs, request._inputs, changeable)
        try:
            block, tensors = pack_tensors(self.region, inputs)
        except SharedMemoryError as failure:
            raise BridgeError(str(failure)) from None
        if changeable:
            keep_sent(self.region, block, [(tensor, tensors[index]) for index, tensor in changeable])
        # the row of an Infer
        infer = [request._bls_fields(), decoupled, block, tensors, self.running.wait_kind()]
        call = InferCall(self, next(self.ids), infer)
        if decoupled:
            call.await_one()  # as Triton's exec does, which returns with the first response (rule 4.1.1)
        return call


class InferCall:
    """The responses of one BLS request, in order; it ends after the final one (rule 1.10)."""

    __slots__ = ("_box", "_bridge", "_done", "_ident", "_received")

    def __init__(self, bridge: StubBridge, ident: int, infer: Row) -> None:
        self._bridge = bridge
        self._ident = ident
        self._done = False
        self._received = 0
        self._box = bridge.inbox.open(ident)
        bridge.connection.send(_INFER, ident, infer)
        # lets the server's reader run first, if it woke on this core, which makes an `exec` 3 % quicker on two cores
        os.sched_yield()

    def await_one(self) -> None:
        """Wait until a response is here."""
        box, bridge = self._box, self._bridge
        if box:
            return
        thread = threading.get_ident()
        bridge.running.calls[thread] = (self._ident, self._received)
        try:
            bridge.inbox.await_one(box)
        finally:
            del bridge.running.calls[thread]

    def __iter__(self) -> "InferCall":
        return self

    def __next__(self) -> InferenceResponse:
        if self._done:
            raise StopIteration
        bridge = self._bridge
        self.await_one()
        response: InferResponse = self._box.popleft()
        self._received += 1
        if response.final:
            self._finish()
        tensors = received_tensors(bridge.reader, bridge.connection.freed, response.block, response.tensors)
        error = response.error
        failure = None if error is None else TritonError._of_code(error.text, 1 if error.code is None else error.code)
        return InferenceResponse._received(tensors, failure, response.parameters)

    @property
    def done(self) -> bool:
        """Return whether the final response has been taken."""
        return self._done

    @uninterrupted
    def cancel(self) -> None:
        """Ask the server to cancel the request; nothing to do once it is over (rule 1.10.6)."""
        if not self._done:
            self._bridge.tell(InferCancel(), self._ident)

    def _finish(self) -> None:
        self._done = True
        self._bridge.inbox.close(self._ident)

    def __del__(self) -> None:
        # later responses for an abandoned iterator are returned unread by the inbox (rule 1.10.5)
        if not self._done:
            self._finish()
            for response in self._box:
                if response.block is not None:
                    self._bridge.connection.freed.append(response.block)
