"""The author's objects in processes that the model forked: `multiprocessing.Pool` and `Process`, `os.fork`.

Parent and child hold the same socket and the same regions, and neither knows how the other uses them. So the child
first drops them, and gets its own link from the server when it first needs one (`ipc/link/fork_links.py`). Then
everything works there: BLS, metrics, Logger, model control, cancellation, response senders. With Triton (2.51) only
`exec` and metrics work; Logger's lines get lost, `is_cancelled()` and decoupled calls hang, and a sender ends the
server.

A worker that was forked in `initialize` may use BLS as soon as the model is READY; on Triton it never may.
"""

from __future__ import annotations

import array
import os
import socket
import threading
from typing import Any, Dict, FrozenSet, Iterator, List, Optional

from ..api import bridge
from ..api.bridge import Bridge, BridgeError
from ..api.dlpack import Imported
from ..api.infer_request import InferenceRequest
from ..api.infer_response import InferenceResponse
from ..api.signal_gate import uninterrupted
from ..wire.connection import Connection
from ..wire.device_memory import Lent
from ..wire.fork_bodies import ForkLink, Knock
from ..wire.ipc_message import ROW
from ..wire.serialization import decode_body, encode_body
from ..wire.shm_manager import Region, RegionReader
from .stub_bridge import StubBridge

#: The most bytes of the server's answer to a KNOCK.
_ANSWER = 256


class _ChildBridge(StubBridge):
    """The bridge of a forked process, over its own link."""

    def forgotten(self, handle: int, answered: bool) -> None:
        """Do nothing: the parent has the sender too, and may still use it."""


class ForkedBridge(Bridge):
    """The bridge of a forked process before it is used."""

    def __init__(self, parent: Bridge, open_requests: Dict[int, FrozenSet[str]], door: socket.socket) -> None:
        # the allowed calls depend on the model's present phase, which only the server knows (see above)
        is_over = parent.phase in ("import", "auto_complete", "finalize")
        self.phase = parent.phase if is_over else "execute"
        self.instance_name = parent.instance_name
        self.model_dir = parent.model_dir
        self.open_requests = open_requests
        self._door = door
        self._lock = threading.Lock()  # guards _link
        self._link: Optional[StubBridge] = None

    @uninterrupted
    def linked(self) -> StubBridge:
        """Return the bridge that takes over. Raises BridgeError if the server has ended."""
        with self._lock:
            if self._link is None:
                self._link = self._connect()
                bridge.install(self._link)
            return self._link

    def _connect(self) -> StubBridge:
        ours, theirs = socket.socketpair()
        ends = array.array("i", [theirs.fileno()])
        try:
            knock = encode_body(Knock(os.getpid()))
            self._door.sendmsg([knock], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
            theirs.close()
            answer, ancillary, _, _ = ours.recvmsg(_ANSWER, socket.CMSG_SPACE(2 * ends.itemsize))
            if not ancillary:
                raise OSError("no link was given")
        except OSError as error:
            ours.close()
            theirs.close()
            raise BridgeError("the server has ended: %s" % error) from None
        server_fd, stub_fd = array.array("i", ancillary[0][2])
        sizes: ForkLink = ROW[ForkLink].read(decode_body(answer))
        region = Region(stub_fd, sizes.size, sizes.growth, sizes.limit or None)
        child = _ChildBridge(Connection(ours, on_freed=region.free, unpacks=True), region, RegionReader(server_fd))
        child.phase, child.instance_name, child.model_dir = self.phase, self.instance_name, self.model_dir
        child.open_requests = self.open_requests
        return child

    def log(self, level: int, message: str, file: str, line: int) -> None:
        self.linked().log(level, message, file, line)

    def call(self, message: Any) -> Any:
        return self.linked().call(message)

    def is_cancelled(self, handle: int) -> bool:
        return self.linked().is_cancelled(handle)

    def send_response(self, handle: int, response: Optional[InferenceResponse], flags: int) -> None:
        self.linked().send_response(handle, response, flags)

    def lend(self, imported: Imported) -> Lent:
        return self.linked().lend(imported)

    def infer(self, request: InferenceRequest, decoupled: bool) -> Iterator[InferenceResponse]:
        return self.linked().infer(request, decoupled)


class ForkGuard:
    """The guard that keeps processes forked by the stub away from the stub's link. `connections` are the stub's; `door`
    is its end of the socket over which forked processes request links.
    """

    def __init__(self, stub: StubBridge, connections: List[Connection], door: socket.socket) -> None:
        self._stub = stub
        self._connections = connections
        self._door = door

    def install(self) -> None:
        """Watch every fork of this process from now on, also the forks of its children."""
        os.register_at_fork(after_in_parent=self._in_parent, after_in_child=self._in_child)

    def _in_parent(self) -> None:
        # the child has senders of these requests, too: they are not forgotten when the parent drops its own
        self._stub.shared_requests = set(self._stub.open_requests)

    def _in_child(self) -> None:
        before = bridge.current()
        if isinstance(before, StubBridge):
            before.abandon()
        for connection in self._connections:
            connection.abandon()
        self._connections = []
        open_requests = dict(getattr(before, "open_requests", {}))
        bridge.install(ForkedBridge(before, open_requests, self._door))
