"""This module has what stands behind a started `Server`."""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

from ...core.metric_registry import MetricRegistry
from ...server.inference_server import InferenceServer
from ...server.observe.log_writer import LogWriter

#: The metrics that a program adds. As Triton's, they belong to the process and not to a server: every server shows
#: them, and their names are shared with those that models make.
METRICS = MetricRegistry()


class RunningServer:
    """Is what a started `Server`, its models and its requests hold. The server ends with the last of them, as in
    NVIDIA's package: programs leave servers behind without `stop`."""

    def __init__(self, core: InferenceServer, log: LogWriter, exit_timeout: int, metrics: bool) -> None:
        self.core = core
        self._metrics = metrics
        self._finalizer = weakref.finalize(self, _end_forgotten, core, log, exit_timeout)

    def metrics(self) -> str:
        return self.core.facts.metrics_text() if self._metrics else ""

    def stop(self) -> None:
        found = self._finalizer.detach()
        if found is not None:
            _, _, (core, log, timeout), _ = found
            _end(core, log, timeout)


def _end_forgotten(core: InferenceServer, log: LogWriter, timeout: int) -> None:
    """Ends a server that nobody holds any more, in a thread of its own: the last reference may have gone in a thread of
    the server, or under one of its locks. When the interpreter ends it does so in place, as nobody would wait for that
    thread."""
    if threading.main_thread().is_alive():
        threading.Thread(target=_end, args=(core, log, timeout), name="end server").start()
    else:
        _end(core, log, timeout)


def _end(core: InferenceServer, log: LogWriter, timeout: int) -> None:
    core.stop(timeout)
    log.close()


class ModelHandle(Protocol):
    """Names what requests and responses know of a `Model`."""

    name: str
    version: int
    _server: RunningServer

    def _answering(self, version: int) -> ModelHandle:
        """Returns a handle on the version that answered."""
        ...
