"""The last exception of `execute` stays alive for a while, so that a debugger can look at its frames and objects.

All that the frames hold stays in memory with it, the batch's tensors and what is on a GPU among them: of one exception
at most, until the next one or until its time is up. It is kept only where a server asks for that, as notebooks do.
"""

from __future__ import annotations

import bdb
import sys
import threading
import time
from typing import Any, Optional

from ..api import own_threads
from .link_pdb import LinkPdb


class LastError:
    """The last exception, kept alive; any thread may call."""

    def __init__(self) -> None:
        #: how long it is kept; 0: not at all
        self.seconds = 0.0
        self._lock = threading.Lock()  # guards the rest
        self._error: Optional[BaseException] = None
        self._since = 0.0
        self._dropped = threading.Event()  # set by `_drop_in_time` when it ends
        self._dropped.set()

    def keep(self, error: BaseException) -> None:
        """Keep this exception and drop the one before."""
        if not self.seconds or isinstance(error, bdb.BdbQuit):  # that the author has seen
            return
        with self._lock:
            self._error, self._since = error, time.monotonic()
            if self._dropped.is_set():
                self._dropped.clear()
                own_threads.start("last error", self._drop_in_time)

    def _drop_in_time(self) -> None:
        while True:
            with self._lock:
                left = self._since + self.seconds - time.monotonic()
                if left <= 0:
                    self._error = None
                    self._dropped.set()
                    return
            time.sleep(left)

    def look(self, begin: bool) -> Optional[float]:
        """Return how many seconds ago it was raised, None if there is none. `begin`: a debugger looks at it, on a
        thread of its own; the model goes on serving."""
        with self._lock:
            error, age = self._error, time.monotonic() - self._since
        if error is None:
            return None
        if begin:
            own_threads.start("postmortem", _examine, error, runs_authors=True)
        return age


def _examine(error: Any) -> None:
    debugger = LinkPdb()
    debugger.message("%s: %s" % (type(error).__name__, error))
    # since Python 3.13 it takes the exception, whose causes can be looked at too
    debugger.examine(error if sys.version_info >= (3, 13) else error.__traceback__)
