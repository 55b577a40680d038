"""`LinkReader` is one thread that reads every descriptor nobody else reads: control sockets without a waiting caller,
and the models' output pipes.

A caller that waits for an answer reads its stub's socket itself; it is the leader, and this thread does not watch the
socket meanwhile. So an answer wakes one thread, not two: a round trip took 55 us p50, against 100-145 us with a
separate reader that wakes the caller (bare prototype, 2 cores). Descriptors are armed for one event at a time, which
makes handing over a single system call.

While one model waits for another's answer this thread polls, because it carries all four messages of such a call
(`spin` says what that gains). It polls only if the last answer came soon: with 100 calls a second the other model is
asleep, and with polling in vain an `exec` took 8 % longer.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable

from .spin import AnswerPace, SpinBudget

_log = logging.getLogger(__name__)


class Watch:
    """Watches one descriptor. Once it is removed and closed its number may become another's. So nobody arms by number,
    and an event for a number may belong to its last owner."""

    __slots__ = ("_fd", "_mask", "_reader", "callback", "started")

    def __init__(self, reader: LinkReader, fd: int, callback: Callable[[int], None]) -> None:
        self._reader = reader
        self._fd = fd
        self._mask = select.EPOLLIN | select.EPOLLONESHOT
        self.callback = callback
        #: the number of the reader's poll in which it was started
        self.started = 0

    def start(self) -> None:
        """Arms the watch for one readable event. Raises OSError once the reader is closed."""
        reader = self._reader
        with reader.lock:
            if not reader.running:
                raise OSError("the server is stopping")
            reader.watches[self._fd] = self
            self.started = reader.polls
            reader.epoll.register(self._fd, self._mask)

    def arm(self, *, readable: bool = True, writable: bool = False) -> None:
        """Allows one more event of the kinds that are True. It has no effect before `start` and after `remove`."""
        mask = select.EPOLLONESHOT | (select.EPOLLIN if readable else 0) | (select.EPOLLOUT if writable else 0)
        if mask == self._mask == select.EPOLLONESHOT:
            return  # it is disarmed, and stays so
        reader = self._reader
        with reader.lock:
            if reader.watches.get(self._fd) is self:
                self._mask = mask
                reader.epoll.modify(self._fd, mask)

    def ask_again(self) -> None:
        """Has an event that is still there reported again."""
        reader = self._reader
        with reader.lock:
            if reader.watches.get(self._fd) is self:
                reader.epoll.modify(self._fd, self._mask)

    def remove(self) -> None:
        """Ends the watch; to be called before the descriptor is closed."""
        reader = self._reader
        with reader.lock:
            if reader.watches.get(self._fd) is self:
                del reader.watches[self._fd]
                reader.epoll.unregister(self._fd)


class LinkReader:
    """Runs an epoll loop in a daemon thread. Callbacks get the epoll event mask, must not block, and arm their watch
    again for the next event."""

    def __init__(self, spin: SpinBudget | None = None) -> None:
        if not hasattr(select, "epoll"):
            raise OSError("tritonlab's stub link needs Linux (epoll)")
        self.epoll = select.epoll()
        self.lock = threading.Lock()  # guards running, watches and epoll's registrations
        self.running = True
        self.polls = 0  # how many polls have begun
        self._spin = spin or SpinBudget()
        self._pace = AnswerPace()  # of the answers to models that wait for another
        self.watches: dict[int, Watch] = {}
        self._wake_read, self._wake_write = os.pipe()
        self.epoll.register(self._wake_read, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="tritonlab link reader", daemon=True)
        self._thread.start()

    def watch(self, fd: int, callback: Callable[[int], None]) -> Watch:
        """Returns a watch of `fd` that is not started yet: a callback may come before `start` returns."""
        return Watch(self, fd, callback)

    def _run(self) -> None:
        while self.running:
            self.polls += 1
            for fd, events in self._relayed() if self._spin.relaying else self.epoll.poll():
                self._handle(fd, events)

    def _relayed(self) -> list[tuple[int, int]]:
        """Returns the next events while one model waits for another; polls for them where that pays."""
        poll = self.epoll.poll
        now = time.perf_counter()
        end = now + self._pace.begin(now)
        found: list[tuple[int, int]] = []
        while now < end and not (found := poll(0)):
            os.sched_yield()  # lets the stub run, which may share this core
            now = time.perf_counter()
        found = found or poll()
        self._pace.end(time.perf_counter())
        return found

    def _handle(self, fd: int, events: int) -> None:
        # This is not in the loop, whose names would keep the last stub and its model alive until the next event.
        watch = self.watches.get(fd)
        if watch is None:
            return
        if watch.started == self.polls:
            # The event may belong to the number's last owner, if that was removed after the event was read and before
            # it is handled here. Without this check a stub lost its link because the one before it had ended.
            watch.ask_again()
            return
        try:
            watch.callback(events)
        except Exception:
            _log.exception("reading descriptor %d failed", fd)

    def close(self) -> None:
        with self.lock:
            self.running = False
            self.watches.clear()
        os.write(self._wake_write, b"x")
        self._thread.join(timeout=5)
        for fd in (self._wake_read, self._wake_write):
            os.close(fd)
        self.epoll.close()
