"""A server's log in Triton's form: one line per record, to stderr or to a file (rules 1.13.2, 5.14.3)."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

from ...core.observe.instrument import Instrument
from ...core.observe.log_settings import LogSettings
from ...ipc.processes.stub_log import LogRecord

#: Verbose records carry the letter of INFO (measured).
_LETTERS = {"INFO": "I", "WARNING": "W", "ERROR": "E", "VERBOSE": "I"}
#: The place in the server's own records, which have no C++ line.
_OWN = "tritonlab:0"
#: The line for a change of a model version's state, by state; the reason distinguishes an unload from a failure.
_STATES = {
    "LOADING": "loading: {model}:{version}",
    "READY": "successfully loaded '{model}' version {version}",
    "UNAVAILABLE": "successfully unloaded '{model}' version {version}",
}


class LogWriter(Instrument):
    """The writer of the log, once it is added to a server's instruments. Prints of models go to `stdout` and `stderr`
    unchanged; records go to `stderr`, or to the settings' `log_file`, if the settings show their level. A file that
    cannot be opened, or written, causes an error line, and `stderr` is used instead.
    """

    def __init__(self, settings: LogSettings, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        """Write to this process's `stdout` and `stderr` if they are left out."""
        self._settings = settings
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self._lock = threading.Lock()  # lines of several threads must not mix
        self._pid = os.getpid()
        self._file: TextIO | None = None
        name = settings.setting.log_file
        if name:
            try:
                self._file = Path(name).open("a", encoding="utf-8")  # noqa: SIM115 - open until `close`
            except OSError as error:
                self.write("ERROR", f"the log file '{name}' cannot be opened: {error}")

    def log(self, record: LogRecord) -> None:
        if record.stream in ("stdout", "stderr"):
            self._put(self._stdout if record.stream == "stdout" else self._stderr, record.text)
            return
        place = f"{os.path.basename(record.file)}:{record.line}" if record.file else _OWN
        self.write(record.level, record.text, place, record.time_ns)

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        if state in _STATES and (state != "UNAVAILABLE" or reason == "unloaded"):
            self.write("INFO", _STATES[state].format(model=model, version=version))

    def write(self, level: str, text: str, place: str = _OWN, time_ns: int | None = None) -> None:
        """Write a record, if the settings show its level. `place` is `file:line`, `time_ns` wall-clock nanoseconds."""
        setting = self._settings.setting
        if setting.shows(level):
            start = record_prefix(setting.log_format, level, time.time_ns() if time_ns is None else time_ns)
            self._put(
                self._file or self._stderr, f"{start} {self._pid} {place}] {json.dumps(text, ensure_ascii=False)}"
            )

    def write_table(self, text: str) -> None:
        """Write lines of a start-up table as INFO, without prefixes, as Triton prints its own."""
        if self._settings.setting.shows("INFO"):
            self._put(self._file or self._stderr, text)

    def _put(self, stream: TextIO, line: str) -> None:
        try:
            with self._lock:
                try:
                    stream.write(f"{line}\n")
                except UnicodeEncodeError:
                    escaped = line.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
                    stream.write(f"{escaped}\n")
                stream.flush()
        except (OSError, ValueError) as error:  # a full disk, or a stream that its owner has closed
            if stream is self._file:
                name = stream.name
                self.close()
                self.write("ERROR", f"the log file '{name}' cannot be written: {error}")
                self._put(self._stderr, line)

    def close(self) -> None:
        """Close the file; later records go to `stderr`."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def record_prefix(log_format: str, level: str, time_ns: int) -> str:
    """Return the text before the process id, in UTC: `I1121 02:57:16.955856`, or `2026-11-21T02:57:16Z I`."""
    utc = time.gmtime(time_ns // 1_000_000_000)
    letter = _LETTERS[level]
    if log_format == "ISO8601":
        return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', utc)} {letter}"
    return f"{letter}{time.strftime('%m%d %H:%M:%S', utc)}.{time_ns // 1000 % 1_000_000:06d}"
