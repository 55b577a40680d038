"""The stub's end of the link: commands for the main loop, answers for whoever asked, whichever thread happens to read.

Leader / follower: any thread that waits (the main loop for its next command, the author's threads for an answer) may
read the socket, but one at a time. The leader hands every message to its owner; when it has its own it steps down and
wakes the others. A caller that waits alone reads for itself and is never woken by another thread.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections import deque
from typing import AbstractSet, Any, Callable, Deque, Dict, FrozenSet, List, Optional, Sequence, Set, Tuple
from weakref import ref

import numpy as np

from ..api import own_threads
from ..api.bridge import Bridge, BridgeError, stderr_line
from ..api.errors import TritonError, code_of
from ..api.infer_request import InferenceRequest
from ..api.infer_response import InferenceResponse
from ..api.pb_tensor import SMALL, Tensor
from ..wire.connection import Connection, LinkClosed, Message
from ..wire.ipc_message import BY_NUMBER, NUMBER, NUMBER_OF, ROW
from ..wire.message_bodies import (
    UNCHECKED,
    Infer,
    InferCancel,
    InferResponse,
    IsCancelled,
    Log,
    NeededCall,
    Needs,
    Reply,
    Response,
    ResponseError,
    Row,
    TensorHeader,
)
from ..wire.serialization import bounded
from ..wire.shm_manager import Hold, Lease, Region, RegionReader, SharedMemoryError
from ..wire.tensor_block import Wire, map_block, pack_tensors
from .errands import Errands
from .needed_calls import AwaitedCoroutine, needed_calls

_REPLY = NUMBER["REPLY"]
_INFER_RESPONSE = NUMBER["INFER_RESPONSE"]
_FINAL = 1
_ndarray = np.ndarray
_NOTHING: Any = ()
_NO_OUTPUT: Row = [[], None, ""]
#: A tensor whose array somebody else may change, and its header in the block that was packed
Sent = Tuple["ref[Tensor]", Row]


class StubBridge(Bridge):
    """Implements the author-facing calls over the control socket and the two regions."""

    def __init__(self, connection: Connection, region: Region, reader: RegionReader) -> None:
        self.connection = connection
        self.region = region
        self.reader = reader
        #: requested outputs of each request that still may be answered through its sender, by handle
        self.open_requests: Dict[int, FrozenSet[str]] = {}
        #: those of them that a forked process may answer too
        self.shared_requests: Set[int] = set()
        #: the outputs of the config, and others that were told of already; None where nobody wants to hear of others
        self.declared: Optional[Set[str]] = None
        #: whether this is the copy of a parent's bridge in a process that was forked
        self.abandoned = False
        self.errands = Errands()
        #: the requests of the running `execute`, and its coroutine if the main thread waits for one
        self.executing: Optional[List[InferenceRequest]] = None
        self.awaited: Optional[AwaitedCoroutine] = None
        #: INFER id and number of responses had of the calls that threads wait for, by thread
        self.waiting: Dict[int, Tuple[int, int]] = {}
        self._main = threading.get_ident()
        self._ids = itertools.count(1)
        self._commands: Deque[Message] = deque()
        self._answers: Dict[int, Deque[Any]] = {}  # call id -> what has come for it
        self._lead = threading.Lock()
        self._turn = threading.Condition(
            threading.Lock()
        )  # guards _waiting; notified when a follower should look again
        self._waiting = 0

    def abandon(self) -> None:
        """Called in a forked process: the link is the parent's. Whatever still uses it here gets LinkClosed."""
        self.abandoned = True
        self.connection.abandon()

    # -- messages in

    def next_command(self, spin: float) -> Message:
        """The next command for the main loop. Raises LinkClosed when the kernel is gone."""
        commands = self._commands
        self._pump(lambda: bool(commands), spin)
        return commands.popleft()

    def _pump(self, done: Callable[[], bool], spin: float = 0.0) -> None:
        """Reads, or waits while another thread reads, until `done()`."""
        while not done():
            if not self._lead.acquire(False):
                with self._turn:
                    self._waiting += 1
                    # checked under the lock: the leader notifies under it after every message and when it steps down
                    if not done() and self._lead.locked():
                        self._turn.wait()
                    self._waiting -= 1
                continue
            try:
                while not done():
                    message = self.connection.receive(spin)
                    assert message is not None
                    self._hand_over(message)
                    if self._waiting:
                        with self._turn:
                            self._turn.notify_all()
            finally:
                self._lead.release()
                if self._waiting:
                    with self._turn:
                        self._turn.notify_all()

    def _hand_over(self, message: Message) -> None:
        command, ident, fields = message
        if command in (_REPLY, _INFER_RESPONSE):
            body = BY_NUMBER[command].read(fields)
            box = self._answers.get(ident)
            if box is not None:
                box.append(body)
            elif command == _INFER_RESPONSE and body.block is not None:
                self.connection.freed.append(body.block)
        else:
            self._commands.append(message)

    # -- calls of the author's objects

    def tell(self, message: Any, ident: int = 0) -> None:
        """Sends the body of a row of the COMMANDS table. Raises LinkClosed."""
        self.connection.send(NUMBER_OF[type(message)], ident, message)

    def call(self, message: Any) -> Any:
        if self.phase in ("import", "auto_complete"):
            # Triton waits for ever here (rule 1.18); nothing could ever answer, so say so at once
            raise BridgeError("%s is not available during auto_complete_config" % ROW[type(message)].name)
        ident = next(self._ids)
        box: Deque[Any] = deque()
        self._answers[ident] = box
        try:
            self.tell(message, ident)
            self._pump(lambda: bool(box))
        finally:
            del self._answers[ident]
        reply: Reply = box.popleft()
        if reply.failure is not None:
            raise BridgeError(reply.failure.text, reply.failure.code)
        return reply.value

    def is_cancelled(self, handle: int) -> bool:
        return bool(self.call(IsCancelled(handle)))

    def log(self, level: int, message: str, file: str, line: int) -> None:
        if self.phase in ("import", "auto_complete", "construct"):
            sys.stderr.write(stderr_line(level, message, file, line))  # rule 1.13.4
        else:
            self.tell(Log(level, file, line, message))

    def send_response(self, handle: int, response: Optional[InferenceResponse], flags: int) -> None:
        requested = self.open_requests.get(handle, frozenset())
        block: Optional[int] = None
        output = _NO_OUTPUT
        if response is not None:
            try:
                block, (output,), sent = self.pack_responses([(response, requested)])
            except SharedMemoryError as failure:
                raise BridgeError(str(failure)) from None
            if sent:
                self.keep_sent(block, sent)
        if flags:
            self.open_requests.pop(handle, None)
        self.tell(Response(flags, block, *output), handle)

    def forgotten(self, handle: int, answered: bool) -> None:
        if handle in self.shared_requests:
            return
        # taken out now, not later: the same handle may come back with a rescheduled request
        if self.open_requests.pop(handle, None) is not None:
            self.errands.put(lambda: self._fail_forgotten(handle, answered))

    def _fail_forgotten(self, handle: int, answered: bool) -> None:
        """Ends a request that the model can no longer end. Triton's client waits for ever (rules 3.2.2, 3.7.2)."""
        when = "after a response, but " if answered else ""
        text = (
            "Failed to process the request(s) for model '%s', message: The request and its response sender were "
            "dropped %swithout the final flag, so nothing could end the request. Call response_sender.send("
            "flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL) when the last response was sent."
        ) % (self.instance_name, when)
        with contextlib.suppress(LinkClosed):  # the kernel is gone, and the main loop hears of it too
            self.tell(Response(_FINAL, None, [], ResponseError(None, text), ""), handle)

    def pack_responses(
        self, responses: List[Tuple[InferenceResponse, FrozenSet[str]]]
    ) -> Tuple[Optional[int], List[Row], "Sequence[Sent]"]:
        """One block with the outputs of all `responses` that were asked for, what is to be said of each (rules 1.8.4,
        1.9.5), and what is for `keep_sent`."""
        wires: List[Wire] = []
        plans = []
        kept: List[Tuple[int, "ref[Tensor]"]] = []
        for response, requested in responses:
            error = response._error
            count = 0
            if error is None:
                for tensor in response._tensors:
                    if tensor._name in requested:
                        datatype, shape, data = tensor._wire()
                        if type(data) is _ndarray and data.nbytes < SMALL:
                            data = tensor._freeze()
                        elif tensor._may_change():
                            kept.append((len(wires), ref(tensor)))
                        wires.append((tensor._name, datatype, shape, data))
                        count += 1
                    elif self.declared is not None and tensor._name not in self.declared:
                        self._say_undeclared(tensor._name)
            plans.append((count, error, response._parameters))
        block, headers = pack_tensors(self.region, wires)
        packed: List[Row] = []
        position = 0
        for count, error, parameters in plans:
            tensors = headers[position : position + count]
            position += count
            if error is None:
                packed.append([tensors, None, parameters])  # an Output, as its row
            else:
                packed.append([[], ResponseError(code_of(error), bounded(error.message())), ""])
        return block, packed, [(tensor, headers[index]) for index, tensor in kept] if kept else _NOTHING

    def _say_undeclared(self, name: str) -> None:
        """Once: Triton drops such an output and says nothing (rule 3.4.1)."""
        assert self.declared is not None
        self.declared.add(name)
        self.log(1, "%s'%s' is no output of the config and was dropped." % (UNCHECKED, bounded(name)), "", 0)

    def keep_sent(self, block: Optional[int], tensors: "Sequence[Sent]") -> None:
        """Has tensors whose arrays others may change remember what was sent of them, for as long as they live: Triton
        does not read an array again that it has sent once (rule 1.4.7). To be called when those are gone that nobody
        can send again, and before the kernel can give the block back."""
        hold: Optional[Hold] = None
        for reference, row in tensors:
            tensor = reference()
            if tensor is None:
                continue
            header = TensorHeader._make(row)
            if header.size:
                assert block is not None
                hold = hold or self.region.hold(block)
                tensor._data = tensor._source = self.region.buffer[header.offset : header.offset + header.size]
                tensor._keep = hold

    # -- BLS

    def infer(self, request: InferenceRequest, decoupled: bool) -> "InferCall":
        inputs: List[Wire] = []
        kept = []
        for index, tensor in enumerate(request._inputs):
            datatype, shape, data = tensor._wire()
            if type(data) is _ndarray and data.nbytes < SMALL:
                data = tensor._freeze()
            elif tensor._may_change():
                kept.append((index, ref(tensor)))
            inputs.append((tensor._name, datatype, shape, data))
        try:
            block, tensors = pack_tensors(self.region, inputs)
        except SharedMemoryError as failure:
            raise BridgeError(str(failure)) from None
        if kept:
            self.keep_sent(block, [(tensor, tensors[index]) for index, tensor in kept])
        infer = Infer(request._bls_fields(), decoupled, block, tensors, self.wait_kind())
        call = InferCall(self, next(self._ids), infer)
        if decoupled:
            call.await_one()  # as Triton's exec does, which returns with the first response (rule 4.1.1)
        return call

    def wait_kind(self) -> int:
        """What it means for the running `execute` that this thread waits now; see INFER in the COMMANDS table."""
        executing = self.executing
        return 0 if executing is None or threading.get_ident() != self._main else self._kind(executing, frozenset())

    def waits(self) -> Needs:
        """The answer to WAITS. So the kernel finds calls that wait for themselves (rule 4.4.1)."""
        executing = self.executing
        if executing is None:
            return Needs(0, [])
        calls, threads = needed_calls(self._main, self.waiting.copy(), self.awaited)
        return Needs(self._kind(executing, threads), [NeededCall(*call) for call in sorted(calls)])

    def _kind(self, executing: Sequence[InferenceRequest], waiting: AbstractSet[int]) -> int:
        """2 if nothing but what `execute` returns could answer its requests while these threads wait, else 1."""
        if all(request._sender is None for request in executing):
            return 2
        # the main thread is the one that asks, and the stub's own never answer a request
        never = {self._main, *own_threads.own(), *waiting}
        return 1 if any(thread.ident not in never for thread in threading.enumerate()) else 2


class InferCall:
    """The responses of one BLS request, in order; ends after the final one (rule 1.10)."""

    def __init__(self, bridge: StubBridge, ident: int, infer: Infer) -> None:
        self._bridge = bridge
        self._ident = ident
        self._box: Deque[Any] = deque()
        self._done = False
        self._received = 0
        bridge._answers[ident] = self._box
        bridge.tell(infer, ident)
        # the kernel's reader, if it woke on this core, goes first: an `exec` takes 168 us instead of 174 on two cores
        os.sched_yield()

    def await_one(self) -> None:
        """Waits until a response is there."""
        box, bridge = self._box, self._bridge
        if box:
            return
        thread = threading.get_ident()
        bridge.waiting[thread] = (self._ident, self._received)
        bridge._pump(lambda: bool(box))
        del bridge.waiting[thread]

    def __iter__(self) -> "InferCall":
        return self

    def __next__(self) -> InferenceResponse:
        if self._done:
            raise StopIteration
        self.await_one()
        response: InferResponse = self._box.popleft()
        self._received += 1
        if response.final:
            self._finish()
        tensors = received_tensors(self._bridge, response.block, response.tensors)
        error = response.error
        failure = None if error is None else TritonError._of_code(error.text, 1 if error.code is None else error.code)
        return InferenceResponse._received(tensors, failure, response.parameters)

    @property
    def done(self) -> bool:
        """Whether the final response has been taken."""
        return self._done

    def cancel(self) -> None:
        """Asks the server to cancel the request; nothing to do once it is over (rule 1.10.6)."""
        if not self._done:
            self._bridge.tell(InferCancel(), self._ident)

    def _finish(self) -> None:
        self._done = True
        self._bridge._answers.pop(self._ident, None)

    def __del__(self) -> None:
        # what still comes for an abandoned iterator is returned unread by _hand_over (rule 1.10.5)
        if not self._done:
            self._finish()
            for response in self._box:
                if response.block is not None:
                    self._bridge.connection.freed.append(response.block)


def received_tensors(bridge: StubBridge, block: Optional[int], rows: List[Row]) -> List[Tensor]:
    """Tensor objects over a block of the kernel's region; the block goes back when the last of them is gone."""
    # first of all, so that the block goes back whatever fails
    lease = None if block is None else Lease(bridge.connection.freed, block, bridge.reader)
    map_block(bridge.reader, rows)
    view = bridge.reader.view
    received = Tensor._received
    return [
        received(name, datatype, shape, view(offset, size), lease) for name, datatype, shape, _, _, offset, size in rows
    ]
