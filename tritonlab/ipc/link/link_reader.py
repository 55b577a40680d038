"""The thread that reads all descriptors without another reader: control sockets without a waiting caller, and the
models' output pipes. `stub_connection` describes which thread reads a control socket when. An event loop that may read
one has a `LoopReader`, to which watches are moved.

A caller that waits for an answer is the leader: it reads its stub's socket itself, and this thread does not watch the
socket meanwhile. So an answer wakes one thread, not two: a round trip took 55 us p50, against 100-145 us with a
separate reader that wakes the caller (bare prototype, 2 cores). Descriptors are armed for one event at a time, so that
handing over takes a single system call.

While one model waits for another's answer this thread polls, because it carries all four messages of such a call
(`wait_policy` has the measurement). It polls only if the last answer came soon: with 100 calls a second the other model
is asleep, and useless polling made an `exec` take 8 % longer.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from .wait_policy import AnswerPace, Cores

_log = logging.getLogger(__name__)


#: The events that a watch may wait for.
_WANTED = (0, select.EPOLLIN, select.EPOLLOUT, select.EPOLLIN | select.EPOLLOUT)


class Watch:
    """The watch of one descriptor, at its current reader. A new watch is not started yet: a callback may come before
    `start` returns. The number of a removed and closed descriptor may be used for another. So a descriptor is never
    armed by its number, and an event for a number may belong to the number's last owner."""

    __slots__ = ("_home", "_wanted", "callback", "fd", "reader", "started")

    def __init__(self, reader: LinkReader, fd: int, callback: Callable[[int], None]) -> None:
        #: its current reader
        self.reader: Reader = reader
        self._home = reader
        self.fd = fd
        self._wanted = select.EPOLLIN
        self.callback = callback
        #: the number of the reader's poll in which it was started
        self.started = 0

    def start(self) -> None:
        """Arm the watch for one readable event. Raises OSError once the reader is closed."""
        self._home.start((self,))

    def arm(self, *, readable: bool = True, writable: bool = False) -> None:
        """Allow one more event of the kinds that are True; with an event loop, any number of events. It has no effect
        before `start` and after `remove`."""
        wanted = (select.EPOLLIN if readable else 0) | (select.EPOLLOUT if writable else 0)
        with self._home.lock:
            reader = self.reader
            if wanted == self._wanted and (not wanted or reader.repeats):
                return
            if reader.watches.get(self.fd) is self:
                self._wanted = wanted
                reader.epoll.modify(self.fd, reader.masks[wanted])

    def move(self, reader: Reader | None, *, readable: bool, writable: bool) -> None:
        """Give the descriptor to another reader, armed for the kinds that are True. None: to the reader for which it
        was made. A reader that has ended does not get it."""
        with self._home.lock:
            reader = reader if reader is not None and reader.running else self._home
            if self.reader is not reader and self.reader.watches.get(self.fd) is self:
                self._wanted = (select.EPOLLIN if readable else 0) | (select.EPOLLOUT if writable else 0)
                self._move_to(reader)

    def go_home(self) -> None:
        """Give the descriptor back to the reader that it was made for. The caller holds the lock."""
        if self._home.running:
            self._move_to(self._home)
        else:
            self._leave()
            self.reader = self._home

    def ask_again(self) -> None:
        """Allow an event that is still pending to be reported again."""
        with self._home.lock:
            reader = self.reader
            if reader.watches.get(self.fd) is self:
                reader.epoll.modify(self.fd, reader.masks[self._wanted])

    def remove(self) -> None:
        """End the watch; call it before the descriptor is closed."""
        with self._home.lock:
            if self.reader.watches.get(self.fd) is self:
                self._leave()

    def _move_to(self, reader: Reader) -> None:
        self._leave()
        self.reader = reader
        reader.watches[self.fd] = self
        self.started = reader.polls
        reader.epoll.register(self.fd, reader.masks[self._wanted])

    def _leave(self) -> None:
        del self.reader.watches[self.fd]
        self.reader.epoll.unregister(self.fd)


class Reader:
    """Watches that one thread waits for. Callbacks get the epoll event mask and must not block."""

    #: whether a watch stays armed after an event
    repeats = False
    #: the event mask of a watch, by the events that it waits for
    masks: ClassVar[Mapping[int, int]] = {wanted: wanted | select.EPOLLONESHOT for wanted in _WANTED}

    def __init__(self, lock: threading.Lock) -> None:
        self.epoll = select.epoll()
        self.lock = lock  # guards running, watches and epoll's registrations
        self.running = True
        self.polls = 0  # how many polls have begun
        self.watches: dict[int, Watch] = {}

    def _handle(self, fd: int, events: int) -> None:
        # This is a method of its own because the names of the loop would keep the last stub and its model alive until
        # the next event.
        watch = self.watches.get(fd)
        if watch is None:
            return
        if watch.started == self.polls:
            # The event may belong to the number's last owner, if its watch was removed between the reading of the event
            # and its handling here. Without this check a stub lost its link because the stub before it had ended.
            watch.ask_again()
            return
        try:
            watch.callback(events)
        except Exception:
            _log.exception("reading descriptor %d failed", fd)


class LoopReader(Reader):
    """The watches of an event loop, for which its thread waits together with its clients: an epoll within the loop's
    epoll. Made on that thread by `LinkReader.in_loop`."""

    repeats = True
    masks: ClassVar[Mapping[int, int]] = {wanted: wanted or select.EPOLLONESHOT for wanted in _WANTED}

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__(lock)
        self.thread = threading.get_ident()

    def fileno(self) -> int:
        """Return the descriptor that is readable when `read` has events to handle."""
        return self.epoll.fileno()

    def read(self) -> None:
        """Handle the pending events."""
        self.polls += 1
        for fd, events in self.epoll.poll(0):
            self._handle(fd, events)

    def close(self) -> None:
        """Give all watches back to the link reader."""
        with self.lock:
            self.running = False
            for watch in list(self.watches.values()):
                watch.go_home()
        self.epoll.close()


class LinkReader(Reader):
    """An epoll loop in a daemon thread. Callbacks arm their watch again for the next event."""

    def __init__(self, cores: Cores | None = None) -> None:
        if not hasattr(select, "epoll"):
            raise OSError("tritonlab's stub link needs Linux (epoll)")
        super().__init__(threading.Lock())
        self._cores = cores or Cores()
        self._pace = AnswerPace()  # of the answers to models that wait for another
        self._wake_read, self._wake_write = os.pipe()
        self.epoll.register(self._wake_read, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="tritonlab link reader", daemon=True)
        self._thread.start()

    def start(self, watches: Iterable[Watch]) -> None:
        """Arm new watches of this reader for one readable event each. Raises OSError once it is closed."""
        with self.lock:
            if not self.running:
                raise OSError("the server is stopping")
            for watch in watches:
                self.watches[watch.fd] = watch
                watch.started = self.polls
                self.epoll.register(watch.fd, self.masks[select.EPOLLIN])

    def in_loop(self) -> LoopReader:
        """Return a reader for the event loop of this thread, to which links may be moved."""
        return LoopReader(self.lock)

    def _run(self) -> None:
        while self.running:
            self.polls += 1
            for fd, events in self._relayed() if self._cores.relaying else self.epoll.poll():
                self._handle(fd, events)

    def _relayed(self) -> list[tuple[int, int]]:
        """Return the next events while one model waits for another; polls for them where polling pays."""
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

    def close(self) -> None:
        with self.lock:
            self.running = False
            self.watches.clear()
        os.write(self._wake_write, b"x")
        self._thread.join(timeout=5)
        for fd in (self._wake_read, self._wake_write):
            os.close(fd)
        self.epoll.close()
