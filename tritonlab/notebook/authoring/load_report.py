"""The last load of a model, a load that goes on, and what the new processes print meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.status import TritonError

if TYPE_CHECKING:
    from ...ipc.processes.stub_log import LogRecord
    from ...server.api.server import Server


@dataclass(frozen=True)
class LoadReport:
    """The last load of a model, for its card.

    `seconds`: from the call to READY, or to the failure. `log`: what the model printed and logged meanwhile.
    `ready_at`: when the version that serves now became ready, wall clock seconds, 0 if none does. `error`: why the last
    load failed.
    """

    name: str
    seconds: float
    log: tuple[LogRecord, ...]
    ready_at: float
    error: BaseException | None = None
    #: the processes that ran the files as they are on disk now
    pids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class LoadProgress:
    """A load that goes on. `started`: `time.perf_counter()`. `thread`: the one whose interrupt ends the
    load.
    """

    started: float
    thread: threading.Thread
    printed: Callable[[], tuple[LogRecord, ...]]

    def age(self) -> float:
        return time.perf_counter() - self.started


class PrintedSince:
    """What processes of the model that start from now on print and log. It leaves out those that serve
    already, which may print, too.
    """

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name
        self._begin = time.time_ns()
        self._before = pids_of(server, name)

    def records(self) -> tuple[LogRecord, ...]:
        return tuple(
            record
            for record in self._server.logs(self._name)
            if record.time_ns >= self._begin and record.stream != "server" and record.pid not in self._before
        )


def pids_of(server: Server, name: str) -> frozenset[int]:
    """Return the process ids of a model's instances; none if it is not loaded."""
    try:
        return frozenset(instance["pid"] for instance in server.model(name).instances())
    except TritonError:
        return frozenset()
