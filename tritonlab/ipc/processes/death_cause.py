"""What has probably ended a stub's process: memory, a kill from outside, a full /dev/shm."""

from __future__ import annotations

from .child_process import ChildProcess
from .out_of_memory import bus_words, kill_words, memory_limit, memory_words, oom_kills, shared_memory

#: Signals that end a stub from outside; those of a crash (SIGSEGV, SIGABRT) come from within.
_KILLS = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})


class DeathCause:
    """The cause of one process's end, made when that starts. What it says counts once the process has ended. `like`:
    the cause of a process that was started just now."""

    def __init__(self, child: ChildProcess, like: DeathCause | None = None) -> None:
        self._child = child
        # counting takes 0.2 ms (2026-11-26), and a load starts two processes at once
        self._oom_kills: int = oom_kills() if like is None else like._oom_kills
        #: why this server has killed it, in a sentence; empty if it has not
        self.requested = ""

    def is_kill(self) -> bool:
        """Return whether it was killed from outside, and not for lack of memory."""
        return self._child.exit_signal() in _KILLS and not self._memory_words()

    def words(self) -> str:
        """Return what is known besides the signal, in a sentence; empty if nothing is."""
        if self.requested:
            return self.requested
        signal = self._child.exit_signal()
        if signal == "SIGBUS":
            return bus_words(*shared_memory())
        return self._memory_words() or (kill_words(self._child.peak, memory_limit()) if signal in _KILLS else "")

    def _memory_words(self) -> str:
        if self._child.exit_signal() != "SIGKILL":
            return ""
        return memory_words(self._child.peak, memory_limit(), oom_kills() - self._oom_kills)
