"""The links of the processes that a model forks, such as the workers of its `multiprocessing.Pool`.

A forked process has copies of the stub's socket and regions, and must not touch them. So the stub has one end of
another socket, of whole messages. Through it the process sends one end of a new socket pair; over the other end it gets
the descriptors of two regions. The result is a link like the stub's that carries only calls.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack

from ...stub._pb_stub.wire.fork_bodies import ForkLink
from ...stub._pb_stub.wire.serialization import encode_body
from ...stub._pb_stub.wire.shm_manager import Region, RegionReader, SharedMemoryError, create_region_file
from .link_reader import LinkReader, Watch
from .stub_link import StubLink

_log = logging.getLogger(__name__)


class ForkLinks:
    """The server's end for one stub. `on_link` is called with each new link before it is used, on the link reader's
    thread; `on_end` is called at its end, on any thread."""

    def __init__(self, sock: socket.socket, link_reader: LinkReader, size: int, growth: int, limit: int | None) -> None:
        self.on_link: Callable[[StubLink], None] = lambda link: None
        self.on_end: Callable[[StubLink], None] = lambda link: None
        self._socket = sock
        self._link_reader = link_reader
        #: the watch of the socket, which the owner starts once the stub has its end
        self.watch = Watch(link_reader, sock.fileno(), self._on_event)
        self._sizes = (size, growth, limit)
        self._lock = threading.Lock()  # guards everything below
        self._links: dict[StubLink, tuple[Region, RegionReader]] = {}
        self._closed = False

    @property
    def count(self) -> int:
        """The number of processes that have a link."""
        return len(self._links)

    def _on_event(self, events: int) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, 64, 4, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return  # it was closed meanwhile
        if not data:
            return  # the stub and all its forks are gone
        try:
            for fd in fds[1:]:
                os.close(fd)
            if fds:
                self._accept(fds[0])
        except (OSError, SharedMemoryError):
            _log.exception("a forked process could not be given a link")
        self.watch.arm()

    def _accept(self, fd: int) -> None:
        try:
            ours = socket.socket(fileno=fd)
        except OSError:
            os.close(fd)
            raise
        size, growth, limit = self._sizes
        with ExitStack() as undo:
            undo.enter_context(ours)
            server_fd = create_region_file("tritonlab kernel fork")
            undo.callback(os.close, server_fd)
            stub_fd = create_region_file("tritonlab fork")
            undo.callback(os.close, stub_fd)
            regions = (Region(server_fd, size, growth, limit), RegionReader(stub_fd))
            os.ftruncate(stub_fd, size)
            link = StubLink(ours, *regions, self._link_reader)
            link.watch.start()
            undo.pop_all()
        with self._lock:
            closed = self._closed
            self._links[link] = regions
        link.on_lost = lambda reason: self._on_lost(link)
        self.on_link(link)
        try:
            # These are the first bytes that the process gets; it sends nothing before.
            socket.send_fds(ours, [encode_body(ForkLink(size, growth, limit or 0))], [server_fd, stub_fd])
        except OSError:
            closed = True
        if closed or link.lost:
            self._bury(link)

    def _on_lost(self, link: StubLink) -> None:
        # This needs a thread of its own: the thread that noticed the end may be reading the link or sending on it.
        threading.Thread(target=self._bury, args=(link,), name="end of fork", daemon=True).start()

    def _bury(self, link: StubLink) -> None:
        with self._lock:
            regions = self._links.pop(link, None)
        if regions is None:
            return
        link.close()
        link.devices.close()
        for region in regions:
            region.close()
        self.on_end(link)

    def close(self) -> None:
        """End all links, after the stub has ended."""
        with self._lock:
            self._closed = True
            links = list(self._links)
        self.watch.remove()
        self._socket.close()
        for link in links:
            self._bury(link)

    def forget(self) -> None:
        """Drop the descriptors in a forked child of the server, without a message to the processes at the other
        ends."""
        self._socket.close()
        for link in self._links:
            link.forget()
