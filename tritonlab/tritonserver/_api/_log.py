"""The log of a server for a program that handles its records, `Options.log_callback`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import TypeAlias

from ...core.observe.log_settings import LogSettings
from ...server.observe.log_writer import LogWriter
from .._c.triton_bindings import TRITONSERVER_LogLevel as LogLevel

#: Called with the level, the file and line of the log call, milliseconds since 1970, and the text.
LogCallback: TypeAlias = Callable[[LogLevel, str, int, int, str], object]

_LEVELS = {
    "INFO": LogLevel.INFO,
    "WARNING": LogLevel.WARN,
    "ERROR": LogLevel.ERROR,
    "VERBOSE": LogLevel.VERBOSE,
}


class LogForwarder(LogWriter):
    """The log of a server that goes only to a callback, not to a file or stream. The output of models is not changed.

    If the callback fails for a record, the record is written to stderr with the traceback, so that neither is lost.
    """

    def __init__(self, settings: LogSettings, callback: LogCallback) -> None:
        self._callback: LogCallback | None = None
        super().__init__(settings)
        self._callback = callback

    def write(self, level: str, text: str, place: str = "tritonlab:0", time_ns: int | None = None) -> None:
        if self._callback is None:  # the log file that could not be opened
            super().write(level, text, place, time_ns)
            return
        if not self._settings.setting.shows(level):
            return
        file, _, line = place.rpartition(":")
        milliseconds = (time.time_ns() if time_ns is None else time_ns) // 1_000_000
        try:
            self._callback(_LEVELS[level], file, int(line), milliseconds, text)
        except Exception:
            super().write(level, text, place, time_ns)
            super().write("ERROR", f"log_callback failed: {traceback.format_exc()}")

    def write_table(self, text: str) -> None:
        self.write("INFO", text)
