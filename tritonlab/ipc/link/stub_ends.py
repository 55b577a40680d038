"""`StubEnds`, the descriptors between the server and one stub: all of them, or none."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

from ...stub._pb_stub.wire.shm_manager import create_region_file


class StubEnds:
    """The sockets, regions and pipes of a stub that is to be started. Raises OSError, and leaves nothing open, if
    the process has no descriptors left.

    `inherited` are the stub's own ends, in the order in which its entry point takes them.
    """

    def __init__(self) -> None:
        with ExitStack() as ours, ExitStack() as theirs:
            self.region = _region(ours, "tritonlab kernel")
            self.stub_region = _region(ours, "tritonlab stub")
            self.control, control = socket.socketpair()
            ours.enter_context(self.control)
            theirs.enter_context(control)
            self.monitor, monitor = socket.socketpair()
            ours.enter_context(self.monitor)
            theirs.enter_context(monitor)
            life, self.life = _pipe(theirs, ours)
            self.stdout, self.stdout_write = _pipe(ours, theirs)
            self.stderr, self.stderr_write = _pipe(ours, theirs)
            self.inherited = (control.fileno(), monitor.fileno(), self.region, self.stub_region, life)
            self._ours, self._theirs = ours.pop_all(), theirs.pop_all()

    def close_theirs(self) -> None:
        """Close the stub's ends, once it has them or never will."""
        self._theirs.close()

    def close(self) -> None:
        """Close both sides' ends; for when nobody has taken over ours."""
        self._theirs.close()
        self._ours.close()


def _region(stack: ExitStack, name: str) -> int:
    fd = create_region_file(name)
    stack.callback(os.close, fd)
    return fd


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write
