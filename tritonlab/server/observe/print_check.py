"""A warning for models that print what Triton's stubs cannot: their standard output is ASCII (rule 2.1.8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.observe.instrument import Instrument
from ...ipc.processes.stub_log import UNPRINTABLE, LogBook

#: How many characters of a line are shown.
_SHOWN = 40


class PrintCheck(Instrument):
    """A listener for printed lines. The first one of a process that is not ASCII gets a warning after it in the log,
    which begins with UNPRINTABLE.
    """

    def __init__(self, log: LogBook) -> None:
        self._log = log
        self._warned: set[int] = set()

    def log(self, record: Any) -> None:
        if record.stream != "stdout" or record.text.isascii() or record.pid in self._warned:
            return
        self._warned.add(record.pid)
        line = record.text if len(record.text) <= _SHOWN else f"{record.text[: _SHOWN - 1]}…"
        text = (
            f"{UNPRINTABLE}print() of '{line}' raises UnicodeEncodeError in its stubs for Python 3.11 to 3.13, and in "
            "older ones unless LANG is UTF-8; after sys.stdout.reconfigure(encoding='utf-8') in model.py it does not."
        )
        self._log.add(replace(record, stream="server", level="WARNING", text=text, file="", line=0))
