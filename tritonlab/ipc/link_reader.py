"""One thread that reads every descriptor nobody else is reading: control sockets without a waiting caller, and the
models' output pipes.

A caller that waits for an answer reads its stub's socket itself (leader) and takes the descriptor out of this
thread's hands meanwhile, so that
its answer wakes one thread, not two: with a separate reader waking the caller a round trip took 100-145 us p50,
without 55 us (bare prototype,
2 cores). Descriptors are armed for one event at a time, which makes handing over a single system call.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


class LinkReader:
    """An epoll loop in a daemon thread. Callbacks get the epoll event mask, must not block, and re-arm when they
    want more."""

    def __init__(self) -> None:
        if not hasattr(select, "epoll"):
            raise OSError("tritonlab's stub link needs Linux (epoll)")
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}  # replaced key by key; dict access is atomic
        self._wake_read, self._wake_write = os.pipe()
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._running = True
        self._thread = threading.Thread(target=self._run, name="tritonlab link reader", daemon=True)
        self._thread.start()

    def add(self, fd: int, callback: Callable[[int], None]) -> None:
        """Watches `fd`, armed for one readable event. Raises OSError once closed."""
        if not self._running:
            raise OSError("the server is stopping")
        self._callbacks[fd] = callback
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def arm(self, fd: int, *, readable: bool = True, writable: bool = False) -> None:
        """Allows one more event for `fd`, or none of either kind; a removed one is ignored."""
        mask = select.EPOLLONESHOT | (select.EPOLLIN if readable else 0) | (select.EPOLLOUT if writable else 0)
        if fd in self._callbacks:
            try:
                self._epoll.modify(fd, mask)
            except (OSError, ValueError):
                if fd in self._callbacks:
                    raise

    def remove(self, fd: int) -> None:
        """Forgets `fd`; call it before the descriptor is closed."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def on_this_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while self._running:
            for fd, events in self._epoll.poll():
                callback = self._callbacks.get(fd)
                if callback is None:
                    continue
                try:
                    callback(events)
                except Exception:
                    _log.exception("reading descriptor %d failed", fd)

    def close(self) -> None:
        self._running = False
        os.write(self._wake_write, b"x")
        self._thread.join(timeout=5)
        self._callbacks.clear()
        for fd in (self._wake_read, self._wake_write):
            os.close(fd)
        self._epoll.close()
