"""The return of memory to the system once no requests are in flight: pages of the shared regions, and memory kept by
the allocators of the server and of the stubs. Otherwise a few large requests would hold gigabytes for ever.

Nothing of this runs while requests are in flight. The memory held counts, not the memory requested:

- A region is checked again as long as it takes much memory: the answer in it may still be on its way to a slow client,
  or be an array in the notebook.
- The private memory of a process is compared with its size after its last return. This counts as settled only if the
  stub has answered, and, for this process, if no endpoint was reading a request or sending an answer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ...ipc.gpu.gpu_buffers import GpuBuffers
from ...ipc.processes.stub_launcher import StubProcess
from ...ipc.zygotes.zygotes import WarmMemory
from ...stub._pb_stub.wire.shm_manager import trim_heap

#: Bytes by which a process must have grown, or that its regions must take, before its next return.
_WORTH = 16 << 20
#: Seconds for a stub's answer. A stub that is busy by itself returns memory later.
_PATIENCE = 1.0
#: The same for all stubs together, if a request waits for the memory.
_IN_A_HURRY = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryUse(NamedTuple):
    """The bytes in memory now, with pages that processes share counted once, and the last return in idle time: bytes,
    and time (wall clock seconds, 0 for never). `warm`: the processes from which models are forked, with their
    `imports`.
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
    """The return of memory. `processes` returns the stubs of all models, `warm` the processes from which they are
    forked; `gpu_buffers` is the GPU memory of the server. `look` is called when the server is idle.
    """

    def __init__(
        self,
        processes: Callable[[], Iterable[StubProcess]],
        warm: Callable[[], WarmMemory | None] = lambda: None,
        gpu_buffers: GpuBuffers | None = None,
    ) -> None:
        #: for each endpoint, a function that returns whether it is reading a request or sending an answer
        self.endpoints: list[Callable[[], bool]] = []
        self._processes = processes
        self._warm = warm
        self._gpu_buffers = gpu_buffers or GpuBuffers()
        self._lock = threading.Lock()  # held by the thread that returns memory
        #: process id -> its least private bytes since its last return
        self._settled: dict[int, int] = {}
        self._last = (0, 0.0)

    def look(self) -> bool:
        """Return memory on a separate thread if it pays off. Returns whether to look again."""
        stubs = list(self._processes())
        pids = [os.getpid(), *(stub.pid for stub in stubs)]
        is_worth = [self._has_grown(pid) for pid in pids] + [stub.region_memory() >= _WORTH for stub in stubs]
        if not self._gpu_buffers.grown and not any(is_worth):
            return False
        threading.Thread(target=self.give_back, args=(stubs,), name="idle memory", daemon=True).start()
        return True

    def give_back_now(self) -> None:
        """Return memory while requests may be in flight: a stub that executes one has little time to answer."""
        stubs = list(self._processes())
        self.give_back(stubs, _IN_A_HURRY / max(len(stubs), 1))

    def give_back(self, stubs: Iterable[StubProcess], patience: float = _PATIENCE) -> None:
        """Return memory; blocks. Does nothing if another thread does it. Each stub has `patience` seconds to answer."""
        if not self._lock.acquire(False):
            return
        try:
            stubs = list(stubs)
            before = _total(stubs)
            settled = {stub.pid for stub in stubs if self._is_settled(stub, patience)}
            self._gpu_buffers.give_back()
            if self._has_grown(os.getpid()):
                is_busy = any(is_busy() for is_busy in list(self.endpoints))
                trim_heap()
                if not is_busy:
                    settled.add(os.getpid())
            pids = [os.getpid(), *(stub.pid for stub in self._processes())]
            known = {pid: self._settled[pid] for pid in pids if pid in self._settled}
            self._settled = known | {pid: private(pid) for pid in settled & {*pids}}
            gone = before - _total(stubs)
            if gone >= _WORTH:
                self._last = (gone, time.time())
        finally:
            self._lock.release()

    def _is_settled(self, stub: StubProcess, patience: float) -> bool:
        """Make a stub return memory if it pays off. Returns whether its present memory is its need."""
        if self._gpu_buffers.grown or self._has_grown(stub.pid) or stub.region_memory() >= _WORTH:
            return stub.give_back(patience)
        return stub.pid not in self._settled

    def _has_grown(self, pid: int) -> bool:
        now, settled = private(pid), self._settled.get(pid, 0)
        if now < settled:
            self._settled[pid] = now  # memory that it released by itself does not count for its next growth
        return now - settled >= _WORTH

    def use(self) -> MemoryUse:
        """Return the memory in use now, read from /proc, which takes milliseconds."""
        pids = [stub.pid for stub in self._processes()]
        models = sum(map(_share, pids))
        warm = self._warm() or WarmMemory(0, 0, {})
        imports = tuple(sorted(filter(None, warm.imports.values())))
        return MemoryUse(_share(os.getpid()), models, len(pids), *self._last, warm.used, warm.limit, imports)


def _total(stubs: Iterable[StubProcess]) -> int:
    """Return the bytes that a return may change."""
    return private(os.getpid()) + sum(private(stub.pid) + stub.region_memory() for stub in stubs)


def private(pid: int) -> int:
    """Return the bytes in memory of a process without files and shared regions; 0 if it has ended."""
    total, shared = _pages(pid)
    return (total - shared) * _PAGE


def resident(pid: int) -> int:
    """Return the bytes in memory of a process, shared ones too; 0 if it has ended."""
    return _pages(pid)[0] * _PAGE


def peak_resident(pid: int) -> int:
    """Return the most bytes in memory that a process has had, shared ones too; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)


def _pages(pid: int) -> tuple[int, int]:
    """Return the pages of a process in memory, and how many of them belong to files or shared regions."""
    try:
        words = Path(f"/proc/{pid}/statm").read_bytes().split()
    except OSError:
        return 0, 0
    return int(words[1]), int(words[2])


def _share(pid: int) -> int:
    """Return the bytes in memory of a process, counting only its share of shared pages."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # ended, another user's, or an old Linux
        return resident(pid)
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)
