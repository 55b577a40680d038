"""`CaptureWriter`, which writes a capture on a thread of its own and never harms the traffic."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.inference.infer_request import InferenceRequest
from .capture_file import CapturedRequest, CaptureFile, FileFull
from .capture_rules import CHOSEN, CaptureRules, Choice, Redaction

TOO_FAST = "came faster than they could be written"
TOO_LARGE = "larger than the memory for requests that wait"
FILE_FULL = "the file had its largest size"
CLOSED = "the capture had ended"
#: Bytes of memory of a request besides its tensors, roughly.
REQUEST_BYTES = 2000
#: Redacted requests are written when they are so many bytes, or the first one is so old, in seconds.
_BATCH_BYTES = 8 << 20
_BATCH_SECONDS = 0.5
#: Seconds between two looks at the queue: a thread that wakes for each request would take time from the traffic.
_PAUSE_SECONDS = 0.02
#: A batch is at most this part of the largest size of a file, because a batch that exceeds it is lost.
_BATCH_PART = 32
_LEAST_BATCH = 1 << 18
#: An answered request, or a function that makes it.
_Handed = CapturedRequest | Callable[[], CapturedRequest | None]


@dataclass(frozen=True)
class CaptureReport:
    """The counts of a capture.

    requests: how many are in the file; `file_bytes`: its size
    left_out: how many are not, by reason: by choice of the rules, or lost
    unmatched: patterns of the redaction that have matched nothing
    is_complete: whether the file is complete; if not, all batches on the disk can be read
    """

    path: Path
    requests: int = 0
    file_bytes: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def lost(self) -> dict[str, int]:
        """The counts of the requests that the rules chose and that are not in the file, by reason."""
        return {reason: count for reason, count in self.left_out.items() if reason not in CHOSEN}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {**vars(self), "path": os.fspath(self.path), "left_out": dict(self.left_out), "lost": self.lost}

    def lines(self) -> list[str]:
        """Return the report as sentences: the file, requests that are left out, and problems."""
        found = [f"{self.path}: {self.requests:,} requests, {self.file_bytes:,} bytes"]
        found += [f"left out: {count:,}, {reason}" for reason, count in self.left_out.items() if reason in CHOSEN]
        found += [f"lost: {count:,}, {reason}" for reason, count in self.lost.items()]
        found += [f"the redaction '{pattern}' has matched nothing" for pattern in self.unmatched if self.requests]
        found += [] if self.is_complete else ["the disk did not take the end of the file; the rest of it can be read"]
        return found

    def __repr__(self) -> str:
        return "\n".join(self.lines())


class CaptureWriter:
    """A capture that is being written. All methods may be called from any thread; none but `close` waits, and none
    raises after the constructor.

    A source calls `chooses` when a request arrives, before it copies anything, and calls `add` after the answer.
    """

    def __init__(
        self, path: str | os.PathLike[str], facts: Mapping[str, Any], rules: CaptureRules | None = None
    ) -> None:
        """Create the file, with `facts` in it: JSON values. Raises FileExistsError and other OSErrors, and
        UnsupportedError without pyarrow."""
        self.path = Path(path)
        self.rules = rules or CaptureRules()
        self._choice = Choice(self.rules)
        self._redaction = Redaction(self.rules)
        of_file = max(_LEAST_BATCH, self.rules.most_bytes // _BATCH_PART)
        self._batch_bytes = min(_BATCH_BYTES, of_file, self.rules.queue_bytes // 4)
        self._file = CaptureFile(path, {"rules": self.rules.to_dict(), **facts}, self.rules.most_bytes)
        self._lock = threading.Condition()  # guards the fields below
        self._queue: deque[tuple[_Handed, int]] = deque()
        self._bytes = 0
        self._left_out: Counter[str] = Counter()
        self._is_closing = self._is_full = False
        # -- of the thread; others read them
        self._written = 0
        self._file_bytes = self._file.size
        self._is_complete = False
        self._rows: list[CapturedRequest] = []
        self._row_bytes = 0
        self._oldest = 0.0
        self._in_file: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._thread.start()

    def chooses(self, at_ns: int, request: InferenceRequest | None = None) -> bool:
        """Return whether the rules choose a request by chance, rate and room; if not, it is counted.

        at_ns: its arrival since the capture began; `request`: for its sequence, which is kept whole or not at all; None
        for one that is of no sequence
        """
        with self._lock:
            reason = FILE_FULL if self._is_full else CLOSED if self._is_closing else ""
            reason = reason or self._choice.at_arrival(at_ns, request)
            if reason:
                self._left_out[reason] += 1
            return not reason

    def add(self, captured: _Handed, byte_size: int | None = None, *, waits: bool = False) -> None:
        """Hand over an answered request that `chooses` has chosen, or a function that makes it on the writer's thread
        and returns None for nothing. Its tensors must not change any more.

        byte_size: the bytes of memory that it holds, by default the bytes of the tensors; required for a function
        waits: whether to wait for the disk when the queue is full, for a source that is a file
        """
        try:
            if byte_size is None:
                byte_size = REQUEST_BYTES if callable(captured) else size_of(captured)
            self._add(captured, byte_size, waits)
        except Exception as error:
            self.leave_out(f"cannot be kept: {type(error).__name__}")

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count requests that the source cannot give. `reason`: a few words, the same for all requests of one kind."""
        with self._lock:
            self._left_out[reason] += count

    @property
    def report(self) -> CaptureReport:
        """The counts up to half a second ago."""
        with self._lock:
            left_out = dict(self._left_out)
        unmatched = tuple(self._redaction.unmatched)
        return CaptureReport(
            self.path, self._written, self._file_bytes, left_out, unmatched, self._is_complete or not self._is_closing
        )

    def close(self, seconds: float = 30.0) -> CaptureReport:
        """Write the rest, close the file and return the report. A disk that does not take it within `seconds` loses
        it."""
        with self._lock:
            self._is_closing = True
            self._lock.notify_all()
        self._thread.join(seconds)
        return self.report

    def _add(self, captured: _Handed, byte_size: int, waits: bool) -> None:
        with self._lock:
            if waits:  # a request that is larger than the whole queue comes alone
                most = max(self.rules.queue_bytes - byte_size, 0)
                self._lock.wait_for(lambda: self._bytes <= most or self._is_full or self._is_closing)
            if self._is_full or self._is_closing:
                self._left_out[FILE_FULL if self._is_full else CLOSED] += 1
            elif self._bytes + byte_size > self.rules.queue_bytes and not waits:
                self._left_out[TOO_LARGE if byte_size > self.rules.queue_bytes else TOO_FAST] += 1
            else:
                self._bytes += byte_size
                self._queue.append((captured, byte_size))
                if len(self._queue) == 1:
                    self._lock.notify_all()

    def _run(self) -> None:
        try:
            while self._step():
                pass
            self._write()
            self._append([])  # the counts alone
            with contextlib.suppress(OSError):
                self._file.close()
                self._is_complete = True
        finally:
            with self._lock:
                self._is_closing = True  # also if this thread has failed
                self._lock.notify_all()

    def _step(self) -> bool:
        """Redact the requests of the queue, write them if they are many or old, and return whether to go on."""
        with self._lock:
            self._lock.wait_for(lambda: self._queue or self._is_closing, _BATCH_SECONDS if self._rows else None)
            self._lock.wait_for(lambda: self._is_closing, _PAUSE_SECONDS)
            is_last = self._is_closing
            queue, self._queue = self._queue, deque()
        while queue:
            source, byte_size = queue.popleft()
            captured = self._redact(source)
            if captured is None:
                self._free(byte_size)
                continue
            self._oldest = self._oldest if self._rows else time.monotonic()
            self._rows.append(captured)
            self._row_bytes += byte_size
            if self._row_bytes >= self._batch_bytes:
                self._write()
        if self._rows and time.monotonic() - self._oldest >= _BATCH_SECONDS:
            self._write()
        return not is_last

    def _redact(self, source: _Handed) -> CapturedRequest | None:
        """Return the request in the form for the file, or None if the rules leave it out or it cannot be read."""
        try:
            captured = source() if callable(source) else source
            if captured is None:
                return None
            with self._lock:
                reason = self._choice.at_end(captured)
            if not reason:
                return self._redaction.apply(captured)
        except Exception as error:  # without its text, which may quote the request
            reason = f"cannot be read: {type(error).__name__}"
        self.leave_out(reason)
        return None

    def _write(self) -> None:
        rows, byte_size = self._rows, self._row_bytes
        self._rows, self._row_bytes = [], 0
        try:
            self._append(rows)
        finally:
            self._free(byte_size)

    def _append(self, rows: Sequence[CapturedRequest]) -> None:
        with self._lock:
            counts = self._left_out - self._in_file
        if not rows and not counts:
            return
        if rows and self._is_full:
            self.leave_out(FILE_FULL, len(rows))
            return
        try:
            self._file_bytes = self._file.append(rows, counts)
        except FileFull:
            with self._lock:
                self._is_full = True
            self.leave_out(FILE_FULL, len(rows))
        except OSError as error:
            self.leave_out(f"{error.strerror or type(error).__name__} (the disk)", len(rows))
        except Exception as error:  # a value that no column takes: the others of the batch are written
            if len(rows) > 1:
                for each in rows:
                    self._append([each])
            else:
                self.leave_out(f"cannot be written: {type(error).__name__}", len(rows))
        else:
            self._in_file += counts
            self._written += len(rows)

    def _free(self, byte_size: int) -> None:
        with self._lock:
            self._bytes -= byte_size
            self._lock.notify_all()


def size_of(captured: CapturedRequest) -> int:
    """Return the bytes of memory that a request holds, roughly."""
    holders = [captured.exchange.request.inputs, *(one.outputs for one in captured.exchange.responses)]
    return REQUEST_BYTES * len(holders) + sum(tensor.byte_size for each in holders for tensor in each.values())
