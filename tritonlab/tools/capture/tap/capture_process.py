"""The process that reads the copies of forwarded bytes and writes the capture."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....core.status import TritonError
from ..capture_commands import rules_of
from ..capture_writer import CaptureWriter
from .copied_bytes import CopyReader, Record, RecordKind
from .frame_reader import PREFACE, NotReadable
from .request_reading import CaptureSink
from .tapped_grpc import TappedGrpc
from .tapped_http import TappedHttp

#: Below the traffic's priority, which matters where processors are few.
_NICENESS = 5
_TLS = b"\x16"
_ENDED_BY: dict[int, str] = {RecordKind.CLIENT_ENDED: "client", RecordKind.SERVER_ENDED: "server"}
_NO_ROOM = "the capture was too slow, and its memory full"
_LOST_CALLS = "calls of gRPC, of any kind, after copies of their connection were lost"


class TappedConnection:
    """A connection of any protocol, found by its first bytes. `unread`: why it is not read, or no longer.

    Where copies were lost, HTTP/1.1 is read again from a request after an answer, if the client has waited for each
    answer before. gRPC is not, because the tables of its headers are lost, too.
    """

    def __init__(self, sink: CaptureSink, address: str) -> None:
        self._sink = sink
        self._address = address
        self._reader: TappedHttp | TappedGrpc | None = None
        self._first = b""
        self._greeting: list[tuple[bytes, int]] = []
        self._ended_first = -1
        self.pieces = 0
        self.unread = ""
        self._may_resume = False
        #: the last call of gRPC before copies were lost; None if none were
        self._last_call: int | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether no request is under way, as far as the capture can tell."""
        return not self.unread and (self._reader.is_idle if self._reader is not None else not self._first)

    def take(self, record: Record) -> None:
        """Take a record of the connection."""
        kind = record.kind
        if kind in (RecordKind.FROM_CLIENT, RecordKind.FROM_SERVER):
            self.pieces += 1
        if kind == RecordKind.RESUMED and self._may_resume:
            self.unread = ""
            self.pieces = int.from_bytes(record.data)
            self._reader = TappedHttp(self._sink, self._address)
        if self.unread:
            if kind == RecordKind.CLOSED and record.data and self._last_call is not None:
                calls = (int.from_bytes(record.data) - self._last_call) // 2  # a client's are odd
                self._leave_out(_LOST_CALLS, calls)
            return
        try:
            self._take(kind, record.data, record.at)
        except NotReadable as error:
            self.stop(str(error), record.at)
        except Exception as error:  # which must not end the capture of other connections; its text may quote a request
            self.stop(f"a fault of the tap, {type(error).__name__}", record.at)

    def stop(self, reason: str, at: int) -> None:
        """Read the connection no longer. Its requests under way are lost."""
        self.unread = reason
        self._sink.unread[reason] += 1
        lost, self._reader = self._reader, None
        self._may_resume = reason == _NO_ROOM and isinstance(lost, TappedHttp) and not lost.is_pipelined
        if reason == _NO_ROOM:
            self._last_call = lost.last_call if isinstance(lost, TappedGrpc) else -1
        if lost is not None:
            self._leave_out("on a connection that could not be read", lost.open_count)

    def _leave_out(self, reason: str, count: int) -> None:
        if count > 0:
            self._sink.writer.leave_out(reason, count)

    def _take(self, kind: int, data: bytes, at: int) -> None:
        reader = self._reader
        if kind == RecordKind.LOST:
            if _NO_ROOM not in self._sink.unread:
                print(f"tritonlab tap: requests are lost: {_NO_ROOM}", file=sys.stderr, flush=True)
            raise NotReadable(_NO_ROOM)
        if kind in (RecordKind.CLIENT_ENDED, RecordKind.SERVER_ENDED) and self._ended_first < 0:
            self._ended_first = kind
        if reader is None:
            if kind == RecordKind.FROM_SERVER:
                self._greeting.append((data, at))
            elif kind == RecordKind.FROM_CLIENT:
                self._begin(self._first + data, at)
        elif kind == RecordKind.FROM_CLIENT:
            reader.from_client(data, at)
        elif kind == RecordKind.FROM_SERVER:
            reader.from_server(data, at)
        elif kind == RecordKind.SERVER_ENDED and not data:
            reader.end_server(at)
        elif kind == RecordKind.CLOSED:
            reader.close(at, _ENDED_BY.get(self._ended_first, "tap"))

    def _begin(self, data: bytes, at: int) -> None:
        """Find the protocol by the client's first bytes, once there are enough of them."""
        self._first = data
        if len(data) < len(PREFACE) and PREFACE.startswith(data):
            return
        if data[:1] == _TLS:
            raise NotReadable("it is encrypted (TLS)")
        kind = TappedGrpc if data.startswith(PREFACE) else TappedHttp
        self._reader = kind(self._sink, self._address)
        self._reader.from_client(data, at)
        self._first = b""
        for piece, came in self._greeting:  # a server of gRPC speaks first
            self._reader.from_server(piece, came)
        self._greeting.clear()


def serve_copies(
    link: socket.socket, path: Path, facts: Mapping[str, Any], rules: Mapping[str, Any], most_bytes: int
) -> int:
    """Write the capture of all copies that come over `link`, print the report and return the exit status.

    Args:
        link: the link to the forwarding process, which first gets an error's text, or an empty line.
        path: the file to write.
        facts: the facts of the file.
        rules: the options of the command, as of `tritonlab capture`.
        most_bytes: the limit of waiting copies.

    It goes on until the link ends, also if the forwarding process was killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(_NICENESS)
    try:
        writer = CaptureWriter(path, {**facts, "began": time.time()}, rules_of(**rules))
    except (OSError, TritonError, ValueError, TypeError) as error:
        link.sendall(f"{error}\n".encode())
        return 1
    sink = CaptureSink(writer, time.monotonic_ns())
    link.sendall(b"\n")
    _read_copies(CopyReader(link), sink, most_bytes // 2)
    report = writer.close()
    lines = report.lines()
    lines += [f"not read: {count:,} connections, {reason}" for reason, count in sink.unread.items()]
    print("\n".join(lines), flush=True)
    return 0


def _read_copies(copies: CopyReader, sink: CaptureSink, most_lag: int) -> None:
    connections: dict[int, TappedConnection] = {}
    is_draining = False
    for record in copies:
        sink.is_behind = record.lag > most_lag
        number = record.connection
        if record.kind == RecordKind.OPENED:
            connections[number] = TappedConnection(sink, record.data.decode())
        elif record.kind == RecordKind.DRAINING:
            is_draining = True
            for each, one in connections.items():
                if one.is_idle:
                    copies.tell_idle(each, one.pieces)
        elif (connection := connections.get(number)) is not None:
            connection.take(record)
            if record.kind == RecordKind.CLOSED:
                del connections[number]
            elif is_draining and connection.is_idle:
                copies.tell_idle(number, connection.pieces)
    now = time.monotonic_ns()
    for connection in connections.values():  # the forwarding process was killed
        connection.take(Record(RecordKind.CLOSED, 0, now, 0, b""))
