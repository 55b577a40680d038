"""This module gives memory that requests needed back to the system once there are no requests: pages of the shared
regions, and what the allocators of the kernel and of the stubs keep. Otherwise a few large requests would hold
gigabytes for ever.

Nothing of this runs while requests are in flight, and a process is left alone until it has grown.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from ...ipc.gpu_buffers import GpuBuffers
from ...ipc.zygotes import WarmMemory
from ...stub._pb_stub.wire.shm_manager import trim_heap

#: Bytes by which a process must have grown before it is asked again.
_WORTH = 16 << 20
#: Seconds that a stub has to answer. A stub that is busy by itself gives back later.
_PATIENCE = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ModelProcess(Protocol):
    """Names what is needed of a stub to return its memory."""

    @property
    def pid(self) -> int: ...

    def give_back(self, timeout: float) -> None:
        """Has the stub return what it does not use, and returns to the system what the kernel does not use of its
        region. Blocks for `timeout` seconds at most.
        """


class MemoryUse(NamedTuple):
    """Holds the bytes in memory now, with pages that processes share counted once, and what was given back last when
    the server was idle: bytes, and when (wall clock seconds, 0 for never). `warm`: the processes that models are forked
    from, which have made `imports`.
    """

    kernel: int
    models: int
    processes: int
    given_back: int = 0
    given_back_at: float = 0.0
    warm: int = 0
    warm_limit: int = 0
    imports: tuple[str, ...] = ()


class IdleMemory:
    """Gives memory back. `processes` gives the stubs of all models, `warm` the processes they are forked from,
    `gpu_buffers` the GPU memory of the server. Whoever notices that there is nothing to do calls `look`.
    """

    def __init__(
        self,
        processes: Callable[[], Iterable[ModelProcess]],
        warm: Callable[[], WarmMemory | None] = lambda: None,
        gpu_buffers: GpuBuffers | None = None,
    ) -> None:
        self._processes = processes
        self._warm = warm
        self._gpu_buffers = gpu_buffers or GpuBuffers()
        self._lock = threading.Lock()  # held by the one thread that gives back
        #: process id -> its resident bytes when it last gave back
        self._settled: dict[int, int] = {}
        self._last = (0, 0.0)

    def look(self) -> None:
        """Returns at once; the work is done on a thread of its own."""
        stubs = list(self._processes())
        if self._gpu_buffers.grown or any(self._has_grown(pid) for pid in (os.getpid(), *(s.pid for s in stubs))):
            threading.Thread(target=self.give_back, args=(stubs,), name="idle memory", daemon=True).start()

    def give_back(self, stubs: Iterable[ModelProcess]) -> None:
        """Gives memory back and blocks meanwhile; does nothing if another thread does it already."""
        if not self._lock.acquire(False):
            return
        try:
            before = self.use()
            for stub in stubs:
                if self._gpu_buffers.grown or self._has_grown(stub.pid):
                    stub.give_back(_PATIENCE)
            self._gpu_buffers.give_back()
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
        """Returns the memory in use now, read from /proc, which takes milliseconds."""
        pids = [stub.pid for stub in self._processes()]
        models = sum(map(_share, pids))
        warm = self._warm() or WarmMemory(0, 0, {})
        imports = tuple(sorted(filter(None, warm.imports.values())))
        return MemoryUse(_share(os.getpid()), models, len(pids), *self._last, warm.used, warm.limit, imports)


def resident(pid: int) -> int:
    """Returns the bytes in memory of a process, whoever else uses them; 0 for a process that has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0


def _share(pid: int) -> int:
    """Returns the bytes in memory of a process, counting only its share of shared pages."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # ended, another user's, or an old kernel
        return resident(pid)
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)
