"""Memory that requests needed goes back to the system once there are none: pages of the shared regions, and what the
allocators of the kernel and of the stubs keep. A few large requests would hold gigabytes for ever otherwise.

Nothing of this runs while requests are in flight, and a process is left alone until it has grown.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from ...ipc.zygotes import WarmMemory
from ...stub._pb_stub.wire.shm_manager import trim_heap

#: Bytes that a process has to have grown by before it is worth asking it again.
_WORTH = 16 << 20
#: Seconds that a stub has to answer. One that is busy by itself gives back later, when it comes to it.
_PATIENCE = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ModelProcess(Protocol):
    """A stub, as far as its memory goes."""

    @property
    def pid(self) -> int: ...

    def give_back(self, timeout: float) -> None:
        """Has it return what it does not use, and returns what of its region the kernel does not; blocking."""


class MemoryUse(NamedTuple):
    """Bytes now, pages that processes share counted once, and what idleness gave back last: bytes, and when (wall clock
    seconds, 0 for never). `warm`: what models are forked from, which has made `imports`."""

    kernel: int
    models: int
    processes: int
    given_back: int = 0
    given_back_at: float = 0.0
    warm: int = 0
    warm_limit: int = 0
    imports: tuple[str, ...] = ()


class IdleMemory:
    """`processes` gives the stubs of all models, `warm` what they are forked from. `look` is for whoever notices that
    there is nothing to do."""

    def __init__(
        self, processes: Callable[[], Iterable[ModelProcess]], warm: Callable[[], WarmMemory | None] = lambda: None
    ) -> None:
        self._processes = processes
        self._warm = warm
        self._lock = threading.Lock()  # held by the one thread that gives back
        #: process id -> its resident bytes when it last gave back
        self._settled: dict[int, int] = {}
        self._last = (0, 0.0)

    def look(self) -> None:
        """Returns at once; what is to be done runs on a thread of its own."""
        stubs = list(self._processes())
        if any(self._has_grown(pid) for pid in (os.getpid(), *(stub.pid for stub in stubs))):
            threading.Thread(target=self.give_back, args=(stubs,), name="idle memory", daemon=True).start()

    def give_back(self, stubs: Iterable[ModelProcess]) -> None:
        """Blocking; nothing if another thread does it already."""
        if not self._lock.acquire(False):
            return
        try:
            before = self.use()
            for stub in stubs:
                if self._has_grown(stub.pid):
                    stub.give_back(_PATIENCE)
            trim_heap()
            pids = [os.getpid(), *(stub.pid for stub in self._processes())]
            self._settled = {pid: resident(pid) for pid in pids}
            after = self.use()
            gone = before.kernel + before.models - after.kernel - after.models
            if gone >= _WORTH:
                self._last = (gone, time.time())
        finally:
            self._lock.release()

    def _has_grown(self, pid: int) -> bool:
        return resident(pid) - self._settled.get(pid, 0) >= _WORTH

    def use(self) -> MemoryUse:
        """Reads /proc; takes milliseconds."""
        pids = [stub.pid for stub in self._processes()]
        models = sum(map(_share, pids))
        warm = self._warm() or WarmMemory(0, 0, {})
        imports = tuple(sorted(filter(None, warm.imports.values())))
        return MemoryUse(_share(os.getpid()), models, len(pids), *self._last, warm.used, warm.limit, imports)


def resident(pid: int) -> int:
    """Bytes in memory, whoever else uses them; 0 for a process that has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0


def _share(pid: int) -> int:
    """The same, of shared pages its share only."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # ended, another user's, or an old kernel
        return resident(pid)
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)
