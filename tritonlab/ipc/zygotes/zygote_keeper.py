"""`ZygoteKeeper` grows zygotes in the background, forks their standbys, and replaces those that somebody kills."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from ..link.link_reader import LinkReader, Watch
from .zygote_family import Growth
from .zygote_process import ForkRefused, ImportLeftOut, ZygoteError, ZygoteProcess

_log = logging.getLogger(__name__)

#: A zygote that ended sooner, and was of no use, is not grown again by itself.
_LIVED = 5.0
#: Seconds from the growth of a zygote to that of its standby. The stubs that wait for the zygote come first.
_STANDBY_AFTER = 0.5


class ZygoteKeeper:
    """The work on growths, each step on a thread of its own. `lock` guards the growths, and is held when `is_kept` (is
    the growth still wanted?) and `grow_again` (both its processes have ended) are called."""

    def __init__(
        self,
        link_reader: LinkReader,
        lock: threading.Lock,
        closed: threading.Event,
        is_kept: Callable[[Growth], bool],
        grow_again: Callable[[Growth], None],
    ) -> None:
        self._link_reader = link_reader
        self._lock = lock
        self._closed = closed
        self._is_kept = is_kept
        self._grow_again = grow_again

    def begin(
        self, growth: Growth, start: Callable[[], ZygoteProcess], then: Callable[[], None] = lambda: None
    ) -> None:
        """Grow a zygote of the process that `start` starts, and call `then` once it is up."""

        def work() -> None:
            try:
                growth.growing = zygote = start()
                if self._closed.is_set():
                    zygote.end()
                zygote.await_grown()
                self._watch(growth, zygote)
                with self._lock:
                    closed = self._closed.is_set()
                    if not closed:
                        growth.zygote = zygote
                if closed:
                    zygote.end()
            except (ImportLeftOut, ZygoteError, ForkRefused, OSError) as error:
                growth.failure = error
            finally:
                growth.done.set()
            if growth.zygote is not None:
                then()
                self.stand_by(growth)

        threading.Thread(target=work, name="tritonlab zygote", daemon=True).start()

    def stand_by(self, growth: Growth) -> None:
        """Give the growth a standby, if it has none, a little later."""
        self._closed.wait(_STANDBY_AFTER)
        with self._lock:
            zygote = growth.zygote if growth.standby is None and self._is_kept(growth) else None
        if zygote is None:
            return
        try:
            standby = zygote.twin(growth.context.variables, growth.context.directory)
        except (ImportLeftOut, ZygoteError, ForkRefused, OSError) as error:
            _log.debug("no standby of %s: %s", zygote, error)
            return
        self._watch(growth, standby)
        with self._lock:
            is_wanted = growth.standby is None and self._is_kept(growth)
            if is_wanted:
                growth.standby = standby
        if not is_wanted:
            standby.end()

    def _watch(self, growth: Growth, zygote: ZygoteProcess) -> None:
        """Replace the zygote, or the standby, if somebody kills it."""
        born = time.monotonic()

        def ended(events: int) -> None:
            is_again = bool(zygote.used) or time.monotonic() - born > _LIVED
            work = partial(self._replace, growth, zygote, is_again)
            threading.Thread(target=work, name="tritonlab zygote", daemon=True).start()

        zygote.watch = Watch(self._link_reader, zygote.child.exit_fd, ended)
        with contextlib.suppress(OSError):  # raised once the server stops
            zygote.watch.start()

    def _replace(self, growth: Growth, ended: ZygoteProcess, is_again: bool) -> None:
        """Close what has ended of a growth. If `is_again`, what is missing now is grown again."""
        with self._lock:
            if growth.standby is ended:
                growth.standby = None
            if growth.is_over() and is_again:
                self._grow_again(growth)
        ended.end()  # closes its descriptors
        if is_again:
            self.stand_by(growth)
