"""The lines that models print and log, each with its model, its instance and the requests that were executing."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...stub._pb_stub.wire.message_bodies import UNCHECKED

__all__ = ["FILLED", "MISPLACED", "UNCHECKED", "UNPRINTABLE", "LogBook", "LogRecord", "StubOutput"]

#: The start of warnings about instances that use another device than the configured one.
MISPLACED = "Triton checks no placement: "
#: The start of the warning that a model with sequences does not recognise the null requests of its empty slots.
FILLED = "Triton fills empty slots: "
#: The start of warnings about printed lines that are not ASCII.
UNPRINTABLE = "Triton prints ASCII only: "

#: Bytes after which a line is cut: a model that prints megabytes without a newline must not fill the server's memory.
MAX_LINE = 1 << 16
#: How many records a server keeps, and how many characters in them; the oldest go first.
KEPT_RECORDS = 20_000
KEPT_TEXT = 16 << 20
#: Bytes that a pipe holds at most (Linux's default): a read of this size takes all that was in it at the start.
_PIPE = 1 << 16


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One line of the log. `time_ns` is wall-clock nanoseconds. `stream` is `stdout`, `stderr`, `log`
    (pb_utils.Logger) or `server`.

    `level` is `INFO`, `WARNING`, `ERROR` or `VERBOSE`. `file` and `line` are set for Logger records and for exceptions
    of `execute` (stream `server`). `request_ids` and `serials`: the requests that were executing when the line was
    written or, between two executions, that a sender still had to answer (without an id of the client: the empty
    string). `pid`: the process that wrote it, to distinguish a version from its predecessor; 0 for the server.
    `unheard`: `execute` raised this after the last answer of its requests, so no client gets it.
    """

    time_ns: int
    model: str
    version: int
    instance: str
    stream: str
    level: str
    text: str
    file: str = ""
    line: int = 0
    request_ids: tuple[str, ...] = ()
    pid: int = 0
    serials: tuple[int, ...] = ()
    unheard: bool = False

    @staticmethod
    def from_server(
        level: str, text: str, model: str = "", version: int = -1, *, instance: str = "", pid: int = 0
    ) -> LogRecord:
        """Return a record by the server itself, with the current time."""
        now = time.time_ns()
        return LogRecord(now, model, version, instance=instance, stream="server", level=level, text=text, pid=pid)

    def is_of_request(self, request: str) -> bool:
        """Return whether the line is about the request of that id, or of that serial number."""
        return request in self.request_ids or request in map(str, self.serials)

    @property
    def unchecked(self) -> bool:
        """Return whether the line is a warning that Triton does not give: an output that does not fit the config, an
        instance on the wrong device, output that could not be printed, or null requests."""
        return self.stream == "server" and self.text.startswith((UNCHECKED, MISPLACED, UNPRINTABLE, FILLED))

    @property
    def in_error(self) -> bool:
        """Whether the requests' error has the same text: an exception of `execute`."""
        return self.stream == "server" and not (self.unchecked or self.unheard)


class LogBook:
    """The last records of a server."""

    def __init__(
        self,
        listener: Callable[[LogRecord], None] | None = None,
        capacity: int = KEPT_RECORDS,
        kept_text: int = KEPT_TEXT,
    ) -> None:
        self._listener = listener
        self._capacity = capacity
        self._kept_text = kept_text
        self._lock = threading.Lock()  # guards everything below
        self._records: deque[LogRecord] = deque()
        self._text = 0

    def add(self, record: LogRecord) -> None:
        records = self._records
        with self._lock:
            records.append(record)
            self._text += len(record.text)
            while len(records) > self._capacity or (self._text > self._kept_text and len(records) > 1):
                self._text -= len(records.popleft().text)
        if self._listener is not None:
            self._listener(record)

    def records(self, model: str | None = None) -> list[LogRecord]:
        """Return the records, oldest first; only those of `model` if given."""
        with self._lock:
            records = list(self._records)
        return [record for record in records if model is None or record.model == model]


class StubOutput:
    """One stub's stdout and stderr pipes, read line by line; the lines are kept until a model takes them.

    Guarantees: `drain` may be called from any thread. Lines keep their order within a stream.
    """

    def __init__(self, stdout: int, stderr: int) -> None:
        self._lock = threading.Lock()  # guards the pipes' reads and everything below
        self._streams = {stdout: "stdout", stderr: "stderr"}
        #: the start of an unfinished line, MAX_LINE bytes at most, and its whole length so far
        self._partial = {stdout: (b"", 0), stderr: (b"", 0)}
        self._has_partial = False
        self._held: list[tuple[str, str]] = []
        self._emit: Callable[[str, str], None] = lambda stream, text: self._held.append((stream, text))
        self._poll = select.poll()
        for fd in self._streams:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)

    @property
    def fds(self) -> tuple[int, ...]:
        return tuple(self._streams)

    @property
    def held(self) -> list[str]:
        """Return the lines that have not been taken yet."""
        return [text for _, text in self._held]

    def retarget(self, emit: Callable[[str, str], None]) -> None:
        """Send the held and all later lines to `emit(stream, text)`. A stub may print before it has a model."""
        with self._lock:
            self._emit = emit
            held, self._held = self._held, []
            for stream, text in held:
                emit(stream, text)

    def drain_all(self, *, ended: bool = False) -> None:
        """Read what both pipes hold now, so that the lines of a finished execution are logged before its answer
        arrives; it takes half a microsecond if they are empty.

        `ended`: the code that printed has returned, and a line without a newline is complete.
        """
        try:
            ready = self._poll.poll(0)
        except RuntimeError:  # another thread is polling; a lock against it would cost time with each request
            ready = [(fd, 0) for fd in self.fds]
        for fd, _ in ready:
            self.drain(fd)
        if self._lock.locked():
            with self._lock:
                pass  # waits for a thread that has read lines and is still handing them on
        if ended and self._has_partial:
            with self._lock:
                self._emit_partial()

    def drain(self, fd: int) -> bool:
        """Read the current content of the pipe. Return False once the pipe has ended.

        Later output is left in the pipe: otherwise a model that never stops printing would keep its reader for ever.
        """
        with self._lock:
            stream = self._streams.get(fd)
            taken = 0
            while stream is not None and taken < _PIPE:
                try:
                    data = os.read(fd, _PIPE)
                except BlockingIOError:
                    return True
                except OSError:
                    data = b""
                if not data:
                    return False
                taken += len(data)
                self._split(fd, stream, data)
            return stream is not None

    def _split(self, fd: int, stream: str, data: bytes) -> None:
        first, *others = data.split(b"\n")
        start, length = self._partial[fd]
        line, length = start + first[: MAX_LINE - len(start)], length + len(first)
        for other in others:
            self._emit(stream, _text(line, length))
            line, length = other[:MAX_LINE], len(other)
        self._partial[fd] = line, length
        self._has_partial = any(length for _, length in self._partial.values())

    def _emit_partial(self) -> None:
        """Emit the unfinished lines; later output begins new ones. The caller holds the lock."""
        self._has_partial = False
        for fd, stream in self._streams.items():
            line, length = self._partial[fd]
            self._partial[fd] = b"", 0
            if length:
                self._emit(stream, _text(line, length))

    def close(self) -> None:
        """Read the pipes, emit unfinished lines and close the pipes."""
        for fd in self.fds:
            self.drain(fd)
        with self._lock:
            self._emit_partial()
            for fd in self._streams:
                os.close(fd)
            self._streams = {}


def _text(line: bytes, length: int) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return text if length <= MAX_LINE else f"{text} … [{length - MAX_LINE} bytes cut]"
