"""The running server behind a started `Server`."""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

from ...server.inference_server import InferenceServer
from ...server.observe.log_writer import LogWriter


class RunningServer:
    """The running server, held by a started `Server`, its models and its requests. It ends with the last of them, as in
    NVIDIA's package: some programs do not call `stop`.
    """

    def __init__(self, core: InferenceServer, log: LogWriter, exit_timeout: int, metrics: bool) -> None:
        self.core = core
        self._metrics = metrics
        self._finalizer = weakref.finalize(self, _end_forgotten, core, log, exit_timeout)

    def metrics(self) -> str:
        return self.core.metrics_text() if self._metrics else ""

    def stop(self) -> None:
        found = self._finalizer.detach()
        if found is not None:
            _, _, (core, log, timeout), _ = found
            _end(core, log, timeout)


def _end_forgotten(core: InferenceServer, log: LogWriter, timeout: int) -> None:
    """End an unreferenced server, in a separate thread: the last reference may have been dropped in a thread of the
    server, or under one of its locks. At the end of the interpreter, end it in place, as nothing would wait for that
    thread."""
    if threading.main_thread().is_alive():
        threading.Thread(target=_end, args=(core, log, timeout), name="end server").start()
    else:
        _end(core, log, timeout)


def _end(core: InferenceServer, log: LogWriter, timeout: int) -> None:
    core.stop(timeout)
    log.close()


class ModelHandle(Protocol):
    """The part of a `Model` that requests and responses use."""

    name: str
    version: int
    _server: RunningServer

    def _answering(self, version: int) -> ModelHandle:
        """Return a handle on the version that responded."""
        ...
