"""The server's end of a stub's link: it sends commands, awaits answers, calls handlers for other
messages, and decides which thread reads the socket.

Who reads it when:

    a thread that waits for the answer   leads: it holds `_receiving` and reads until the answer has come. In the
                                         kernel that is the caller; over the network an event loop whose only client
                                         has just sent a request.
    an event loop (`LoopReader`)         otherwise, if the last batch was sent for clients of that loop: it waits for
                                         the socket beside its clients, and writes the replies where it reads the
                                         answers.
    the link reader                      otherwise: answers to callers with callbacks, calls of a model that asks
                                         another, log lines, the end of the process.

`StubExecutor` names the reader of each batch (`read_by`). So a link changes hands, for two system calls, when its
requests come from elsewhere; otherwise it stays, also while nothing is sent. While one thread leads no other waits for
the socket; a thread that is its reader anyway disarms nothing. Handlers never run on two threads at once. Messages that
came before a link changed hands are reported again to its new reader.

With the link reader between, each answer woke two threads, and 44 % of the time under the interpreter's lock was the
call that wakes the event loop. Measured over HTTP with 8 connections (2026-11-23, 2 cores, load average 3 to 4, rounds
in turn), before and since, as ratios to Triton's: binary 0.61 and 0.73 of its requests a second at 1.53 and 1.13 x its
processor time for each; JSON with dynamic batching 0.51 and 1.04 at 1.66 and 0.88 x, partly due to the reader of plain
numbers (`http.plain_inputs`). The rest of a binary request's time under the interpreter's lock: 32 % write the reply,
which wakes the client, 8 % each send the batch and receive the answer, 9 % decode; no other thread has 1 %. `python -m
tests.benchmarks.side_by_side connections` measures it again.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ...stub._pb_stub.wire.connection import Connection, LinkClosed
from ...stub._pb_stub.wire.ipc_message import BY_NUMBER, NUMBER, NUMBER_OF, ROW, CommandRow, read_answer
from ...stub._pb_stub.wire.message_bodies import Failure, Hello, Result
from ...stub._pb_stub.wire.serialization import WireError
from ...stub._pb_stub.wire.shm_manager import Region, RegionReader
from .interrupts import interruptible, shielded
from .link_reader import LinkReader, LoopReader, Watch

_log = logging.getLogger(__name__)

Handler = Callable[[int, Any], None]

_RESULT = NUMBER["RESULT"]
_HELLO = NUMBER["HELLO"]


class Answer:
    """The RESULT of a command, which may still come. `lost`: whether the link ended first. Otherwise it has, when done,
    a `failure` or a `value`, whose type the COMMANDS table sets for the command."""

    __slots__ = ("_event", "command", "done", "failure", "lost", "value")

    def __init__(self, command: CommandRow) -> None:
        self.command = command
        self._event = threading.Event()
        #: whether the answer has come, or will not come; called at each message that a waiting thread reads
        self.done: Callable[[], bool] = self._event.is_set
        self.lost = False
        self.value: Any = None
        self.failure: Failure | None = None

    def set(self, value: Any, failure: Failure | None = None) -> None:
        self.value = value
        self.failure = failure
        self._event.set()

    def lose(self) -> None:
        """Note that the answer will not come, unless it is there already."""
        if not self.done():
            self.lost = True
            self._event.set()

    def wait(self, timeout: float | None) -> bool:
        return self._event.wait(timeout)


class StubConnection:
    """The sender of commands; messages of the stub are passed to `handlers` (command number -> callable(id, body)).

    Guarantees: handlers run one at a time per connection, on whichever thread reads; they must not block. `on_lost` is
    called once, when the link ends or the stub breaks the protocol.
    """

    #: the handlers that each connection of the class begins with
    FIRST_HANDLERS: ClassVar[Mapping[int, Handler]] = {}

    def __init__(self, sock: socket.socket, region: Region, stub_region: RegionReader, link_reader: LinkReader) -> None:
        self.region = region
        self.stub_region = stub_region
        self.handlers: dict[int, Handler] = dict(self.FIRST_HANDLERS)
        self.on_lost: Callable[[str], None] | None = None
        self.lost_reason = ""
        self._socket = sock
        self._connection = Connection(sock, on_freed=region.free)
        #: the blocks in the stub's region that are no longer read; leases append to it
        self.freed = self._connection.freed
        self._receiving = threading.Lock()  # held by the thread that reads the socket
        self._holder = 0  # the id of the thread that holds _receiving through `hold`; no thread has 0
        self._ids = itertools.count(1)
        self._awaited: dict[int, Answer] = {}  # by the ids of their commands
        self._lost = False
        self._lost_lock = threading.Lock()
        self._arm_lock = threading.Lock()  # makes arming match the latest state
        #: the stub's report of itself, a Hello; its value is None until it has come, and if the stub died before
        self.hello = Answer(ROW[Hello])
        #: the watch of the socket, which the owner starts
        self.watch = Watch(link_reader, sock.fileno(), self._on_event)

    # -- sending

    def post(self, command: int, ident: int, body: Any, *, packed: bool = False) -> None:
        """Send a message without blocking, `packed` if possible. A lost link is reported by `on_lost`, not here, and
        only after the other process's last messages: a fork of the model may answer and exit."""
        try:
            if not self._connection.post(command, ident, body, packed=packed):
                self._arm()
        except LinkClosed:
            pass  # the reader of the socket notices its end

    def _arm(self) -> None:
        """Make the link reader watch the socket: for messages unless a thread reads them, and for room to send while
        messages wait. Call it after either has changed."""
        with self._arm_lock:
            self.watch.arm(readable=not self._receiving.locked(), writable=bool(self._connection.unsent))

    @property
    def reader(self) -> LoopReader | None:
        """Return the event loop's reader that reads the socket while no thread leads; None: the link reader reads
        it."""
        reader = self.watch.reader
        return reader if isinstance(reader, LoopReader) else None

    def read_by(self, reader: LoopReader | None) -> None:
        """Set the object that reads the socket while no waiting thread does; None sets the link reader. Any thread may
        call this, even from a handler."""
        with self._arm_lock:
            self.watch.move(reader, readable=not self._receiving.locked(), writable=bool(self._connection.unsent))

    def _reads_here(self) -> bool:
        """Return whether this thread also reads the socket while no thread leads. While it leads it does not wait for
        events, so nothing has to be disarmed, which saves two system calls a request."""
        reader = self.watch.reader
        return isinstance(reader, LoopReader) and reader.thread == threading.get_ident()

    def tell(self, message: Any, ident: int = 0) -> None:
        """Send a typed message of the COMMANDS table, as `post` does."""
        self.post(NUMBER_OF[type(message)], ident, message)

    def ask(self, message: Any) -> Answer:
        """Send a command that RESULT answers."""
        ident = next(self._ids)
        answer = self._awaited[ident] = Answer(ROW[type(message)])
        if self._lost:
            answer.lose()
        else:
            self.post(NUMBER_OF[type(message)], ident, message)
        return answer

    def await_answer(self, answer: Answer, timeout: float | None = None) -> bool:
        """Wait `timeout` seconds for an answer, reading the socket if no other thread does. Return False after that."""
        end = None if timeout is None else time.monotonic() + timeout
        while not answer.done():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            if not self.lead(answer.done, timeout=left):
                answer.wait(0.05 if left is None else min(left, 0.05))
        return True

    # -- receiving

    def hold(self, *, unwatch: bool = False) -> bool:
        """Reserve the socket for this thread, before it sends a command and waits for the answer; then it must `lead`.
        Returns False if another thread is reading or the link has ended. With `unwatch` the watch is disarmed here,
        otherwise by `lead` while the stub works; an event before that finds the socket taken."""
        if self._lost or not self._receiving.acquire(False):
            return False
        self._holder = threading.get_ident()
        if unwatch and not self._reads_here():
            self._arm()
        return True

    @property
    def held(self) -> bool:
        """Whether this thread has called `hold` and not led since."""
        return self._holder == threading.get_ident()

    def lead(self, done: Callable[[], bool], *, spin: float = 0.0, timeout: float | None = None) -> bool:
        """Read the socket until `done()`, the link ends or time is up. Returns False if another thread is reading."""
        return shielded(self._lead, done, spin, timeout)

    def _lead(self, done: Callable[[], bool], spin: float, timeout: float | None) -> bool:
        if self._holder == threading.get_ident():
            self._holder = 0
        elif self._lost or not self._receiving.acquire(False):
            return False
        end = None if timeout is None else time.monotonic() + timeout
        left, wait = timeout, self._connection.wait
        try:
            if not self._reads_here():
                self._arm()
            while not (done() or self._lost):
                if not interruptible(wait, spin, left):
                    break
                self._take_messages()
                if end is not None and (left := end - time.monotonic()) <= 0:
                    break  # also while a stub sends without end
        except LinkClosed as error:
            self._lose(str(error))
        finally:
            # The order matters: an event between the two would otherwise be missed.
            self._receiving.release()
            if not self._lost:
                self._arm()
        return True

    def _take_messages(self) -> None:
        """Handle all messages that one read brings, because no event reports these again; one does report more."""
        connection = self._connection
        try:
            message = connection.try_receive()
            while message is not None:
                self._dispatch(message)
                message = connection.take_buffered()
        except (LinkClosed, WireError) as error:
            self._lose(str(error))

    def _on_event(self, events: int) -> None:
        """Handle an event of the socket, on the link reader's thread."""
        if events & select.EPOLLOUT:
            with contextlib.suppress(LinkClosed):  # read the remaining messages first, as in `post`
                self._connection.flush()
        if not self._receiving.acquire(False):
            if self._connection.unsent:
                self._arm()
            return  # the leader arms the watch again when it is done
        try:
            self._take_messages()  # once only, so that other sockets get their turn
        finally:
            self._receiving.release()
        if not self._lost:
            self._arm()

    def _dispatch(self, message: tuple[int, int, Any]) -> None:
        command, ident, body = message
        handler = self.handlers.get(command)
        try:
            if handler is not None:
                handler(ident, body)
            elif command == _RESULT:
                self._give_result(ident, body)
            elif command == _HELLO:
                self.hello.set(ROW[Hello].read(body))
            else:
                raise WireError(f"unexpected {BY_NUMBER[command].name}")
        except (LinkClosed, WireError):
            raise
        except Exception as error:
            # The body breaks the COMMANDS table, or this is a defect of ours. Either way no caller may wait for ever.
            if not isinstance(error, (TypeError, ValueError, LookupError, AttributeError)):
                _log.exception("a handler of %s raised", BY_NUMBER[command].name)
            raise WireError(f"{BY_NUMBER[command].name}: {type(error).__name__}: {error}") from error

    def _give_result(self, ident: int, body: Any) -> None:
        """Hand a RESULT to the answer of its command. Raises WireError if no command waits for it."""
        answer = self._awaited.get(ident)
        if answer is None:
            raise WireError(f"unexpected result {body!r}")
        result: Result = ROW[Result].read(body)
        value = None if result.failure is not None else read_answer(answer.command, result.value)
        del self._awaited[ident]
        answer.set(value, result.failure)

    # -- the end

    @property
    def lost(self) -> bool:
        return self._lost

    def _lose(self, reason: str) -> None:
        with self._lost_lock:
            if self._lost:
                return
            self._lost = True
            self.lost_reason = reason
        self.watch.remove()
        self.hello.lose()
        for answer in list(self._awaited.values()):
            answer.lose()
        if self.on_lost is not None:
            self.on_lost(reason)

    def shutdown(self) -> None:
        """End the link: the stub sees the end of its control socket and exits."""
        self._connection.shutdown()

    def close(self) -> None:
        self._lose("closed")
        self.watch.remove()  # the thread that noticed the loss may not have done it yet
        self._connection.shutdown()
        self._socket.close()

    def forget(self) -> None:
        """Drop the descriptor in a forked child without a message to the stub, which is the parent's."""
        self._lost = True
        self.lost_reason = "the server is in another process"
        self._socket.close()
