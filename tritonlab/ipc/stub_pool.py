"""Warm stubs: processes that have already imported numpy and the author-facing module, so that a cell does not pay
for an interpreter start."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping

from .interpreter import Interpreter
from .link_reader import LinkReader
from .stub_launcher import DEFAULT_SHM, KERNEL, ShmSettings, StubProcess, StubStartError

_log = logging.getLogger(__name__)

#: Read by the dynamic loader, the interpreter or numpy's libraries when a process starts; everything else a warm
#: stub takes over at import.
_START_PREFIXES = (
    "LD_",
    "PYTHON",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "NUMEXPR_",
    "BLIS_",
    "GOTO_",
    "MALLOC_",
    "GLIBC_",
    "NPY_",
)

#: Seconds after the last use before the pool fills up again: a model that has just loaded gets the cores first.
_REFILL_AFTER = 0.25


class StubPool:
    """Keeps up to `size` warm stubs of the running interpreter.

    Guarantees: `acquire` and `close` may be called from any thread. A stub is handed out once.
    """

    def __init__(self, link_reader: LinkReader, *, size: int = 2, shm: ShmSettings = DEFAULT_SHM) -> None:
        self._link_reader = link_reader
        self._size = size
        self._shm = shm
        self._changed = threading.Condition()  # guards everything below
        self._warm: deque[StubProcess] = deque()
        self._last_use = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    def prewarm(self) -> None:
        """Starts filling the pool in the background."""
        with self._changed:
            self._start_filling()

    def acquire(self, interpreter: Interpreter = KERNEL) -> StubProcess:
        """A stub, warm if one fits, else started now: the caller may send, and waits with `await_hello`. Raises
        StubStartError."""
        stub = self._take() if interpreter == KERNEL else None
        return stub or StubProcess(self._link_reader, interpreter=interpreter, shm=self._shm)

    def _take(self) -> StubProcess | None:
        with self._changed:
            self._last_use = time.monotonic()
            found = None
            while self._warm and found is None:
                candidate = self._warm.popleft()
                if candidate.link.lost or _start_environment(candidate.environment) != _start_environment(os.environ):
                    threading.Thread(target=candidate.kill, daemon=True).start()
                else:
                    found = candidate
            self._start_filling()
            return found

    def _start_filling(self) -> None:
        if self._size and self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._fill, name="tritonlab stub pool", daemon=True)
            self._thread.start()

    def _fill(self) -> None:
        """Fills up once, then ends; the next use starts it again."""
        while True:
            with self._changed:
                wait = self._last_use + _REFILL_AFTER - time.monotonic()
                if self._closed or (wait <= 0 and len(self._warm) >= self._size):
                    self._thread = None
                    self._changed.notify_all()
                    return
                if wait > 0:
                    self._changed.wait(wait)
                    continue
            try:
                stub = StubProcess(self._link_reader, shm=self._shm)
                stub.await_hello()
            except (StubStartError, OSError) as error:
                _log.warning("no warm stub: %s", error)
                with self._changed:
                    self._thread = None
                    self._changed.notify_all()
                return
            with self._changed:
                if not self._closed:
                    self._warm.append(stub)
                    continue
            stub.kill()

    def wait_warm(self, timeout: float = 30.0) -> bool:
        """Waits until the pool is full; for benchmarks and tests."""
        end = time.monotonic() + timeout
        with self._changed:
            while len(self._warm) < self._size:
                self._start_filling()
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.05))
            return True

    def close(self) -> None:
        """Ends the warm stubs; none is started afterwards."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            stubs = list(self._warm)
            self._warm.clear()
        for stub in stubs:
            stub.kill()

    def __repr__(self) -> str:
        return f"<StubPool [{len(self._warm)} of {self._size} warm]>"


def _start_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith(_START_PREFIXES)}
