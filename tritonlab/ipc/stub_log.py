"""What models print and log: captured line by line, attributed to model, instance and, while it executes, request."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

#: A line longer than this is cut there: a model that prints megabytes without a newline must not fill the kernel's
#: memory.
MAX_LINE = 1 << 16
#: Records a server keeps; the oldest go first.
KEPT_RECORDS = 20_000


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One line. `time_ns` is wall-clock nanoseconds. `stream` is `stdout`, `stderr`, `log` (pb_utils.Logger) or
    `server`.

    `level` is `INFO`, `WARNING`, `ERROR` or `VERBOSE`. `file` and `line` are set for Logger records only.
    `request_ids` are those of the requests
    that were executing when the line was written (an id the client left out is the empty string).
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


class LogBook:
    """The last records of a server."""

    def __init__(self, listener: Callable[[LogRecord], None] | None = None, kept: int = KEPT_RECORDS) -> None:
        self._records: deque[LogRecord] = deque(maxlen=kept)  # append is atomic; readers copy
        self._listener = listener

    def add(self, record: LogRecord) -> None:
        self._records.append(record)
        if self._listener is not None:
            self._listener(record)

    def records(self, model: str | None = None, instance: str | None = None) -> list[LogRecord]:
        """Oldest first; of one model or instance if named."""
        return [
            record
            for record in list(self._records)
            if (model is None or record.model == model) and (instance is None or record.instance == instance)
        ]


class StubOutput:
    """Reads one stub's stdout and stderr pipes and turns complete lines into records.

    Guarantees: `drain` may be called from any thread. Lines keep their order within a stream.
    """

    def __init__(self, stdout: int, stderr: int, emit: Callable[[str, str], None]) -> None:
        self._lock = threading.Lock()  # guards the pipes' reads and _partial
        self._streams = {stdout: "stdout", stderr: "stderr"}
        self._partial = {stdout: b"", stderr: b""}
        self._emit = emit
        self._poll = select.poll()
        for fd in self._streams:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)

    @property
    def fds(self) -> tuple[int, ...]:
        return tuple(self._streams)

    def retarget(self, emit: Callable[[str, str], None]) -> None:
        """Sends later lines to `emit(stream, text)`; a warm stub gets its owner late."""
        with self._lock:
            self._emit = emit

    def drain_all(self) -> None:
        """Takes what both pipes hold now; half a microsecond if that is nothing."""
        for fd, _ in self._poll.poll(0):
            self.drain(fd)

    def drain(self, fd: int) -> bool:
        """Takes what the pipe holds; False once it has ended."""
        with self._lock:
            stream = self._streams.get(fd)
            if stream is None:
                return False
            while True:
                try:
                    data = os.read(fd, 1 << 16)
                except BlockingIOError:
                    return True
                except OSError:
                    data = b""
                if not data:
                    return False
                self._split(fd, stream, data)

    def _split(self, fd: int, stream: str, data: bytes) -> None:
        *lines, rest = (self._partial[fd] + data).split(b"\n")
        if len(rest) > MAX_LINE:
            lines.append(rest)
            rest = b""
        self._partial[fd] = rest
        for line in lines:
            self._emit(stream, _text(line))

    def close(self) -> None:
        """Drains, emits unfinished lines and closes the pipes."""
        for fd in self.fds:
            self.drain(fd)
        with self._lock:
            for fd, stream in self._streams.items():
                if self._partial[fd]:
                    self._emit(stream, _text(self._partial[fd]))
                os.close(fd)
            self._streams = {}


def _text(line: bytes) -> str:
    cut = line[:MAX_LINE].decode("utf-8", "backslashreplace")
    return cut if len(line) <= MAX_LINE else f"{cut} … [{len(line) - MAX_LINE} bytes cut]"
