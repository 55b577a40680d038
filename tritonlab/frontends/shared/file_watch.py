"""A watch on the open files of this process: without a file a port accepts nobody, and does not say why.

libuv closes the connections that come meanwhile, gRPC lets them wait and tries again once a second. Both go on when
files are closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from ...core.os_limits import explained

#: Seconds between two looks.
_PAUSE = 1.0


class FileWatch:
    """The watch, which reports once each time that this process can open no more files, from `start` to `stop`."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._short = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="open files", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def look(self) -> None:
        """Open a file, and report if that fails for the first time."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
            self._short = False
        except OSError as error:
            if not self._short:
                self._short = True
                self._report(f"no connection can be accepted: {explained(error) or error.strerror}")

    def _watch(self) -> None:
        while not self._stopped.wait(_PAUSE):
            self.look()
