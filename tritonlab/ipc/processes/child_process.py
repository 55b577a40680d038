"""A process that leads its own session, signalled through a descriptor that cannot come to mean another process. After
its end it reports how and, as far as that can be known, why it ended, and how much memory it used."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .out_of_memory import (
    bus_words,
    kill_words,
    memory_limit,
    memory_words,
    oom_kills,
    own_peak,
    peak_memory,
    shared_memory,
)


class _Process(subprocess.Popen[bytes]):
    """A process that also reports the most memory that it used."""

    peak = 0
    #: the least that the operating system reports, in bytes: until its exec the child was a copy of this process
    _inherited = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inherited = peak_memory()

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        # This overrides Popen's method to call wait4: no public interface gives the usage of one ended child.
        try:
            pid, status, usage = os.wait4(self.pid, wait_flags)
        except ChildProcessError:
            return self.pid, 0
        if pid == self.pid:
            self.peak = own_peak(usage.ru_maxrss * 1024, self._inherited)
        return pid, status


class Process(Protocol):
    """A process whose end can be waited for, such as one of `subprocess`."""

    pid: int
    returncode: int | None
    peak: int

    def wait(self) -> int: ...


class ChildProcess:
    """A process that leads its own session, so that an interrupt of this process does not reach it.

    `exit_fd` becomes readable when it ends. Raises OSError if the process cannot be watched; then it is ended, too.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid
        self._lock = threading.Lock()  # guards _closed
        self._closed = False
        try:
            self.exit_fd = os.pidfd_open(self.pid)
        except OSError:
            self.kill()
            raise

    @staticmethod
    def start(
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        inherited: Sequence[int],
    ) -> ChildProcess:
        """Start a process. Raises OSError if that fails, with nothing left behind."""
        return ChildProcess(
            _Process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                pass_fds=inherited,
                start_new_session=True,
            )
        )

    @property
    def returncode(self) -> int | None:
        """The exit status, or minus the signal that ended it; None until `wait` or `kill` has seen its end."""
        return self._process.returncode

    @property
    def peak(self) -> int:
        """The most bytes that it used, once it has ended; 0 if unknown."""
        return self._process.peak

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended. Returns False if it has not after that many seconds."""
        ended = select.poll()  # Popen.wait(timeout) would look only every 50 ms
        ended.register(self.exit_fd, select.POLLIN)
        if not ended.poll(seconds * 1000):
            return False
        self._process.wait()
        return True

    def send_signal(self, number: int) -> None:
        """Send a signal to this process alone, not to its forks; does nothing if it has ended."""
        # while the lock is held the descriptor stays open, so its number cannot become another process's
        with self._lock:
            if not self._closed:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self.exit_fd, number)

    def terminate(self) -> None:
        """Ask the whole session to end."""
        self._signal_session(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole session, with all forks of the process, and wait for the process."""
        self._signal_session(signal.SIGKILL)
        self._process.wait()

    def _signal_session(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
            return
        if self.returncode is None:  # it was forked just now and leads no session yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def exit_signal(self) -> str:
        """Return the name of the signal that ended it; empty if no signal did."""
        code = self.returncode
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name if code is not None and code < 0 else ""
        return f"signal {-(code or 0)}"

    def exit_reason(self) -> str:
        """Return how it ended: `signal SIGSEGV (Segmentation fault)` or `exit status 3`."""
        code = self.returncode
        if code is None:
            return "no exit yet"
        if code < 0:
            with contextlib.suppress(ValueError):
                number = signal.Signals(-code)
                return f"signal {number.name} ({signal.strsignal(number)})"
            return f"signal {-code}"
        return f"exit status {code}"

    def close(self) -> None:
        """Close the descriptor of the process after its end."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self.exit_fd)


#: Signals that end a stub from outside; signals of a crash (SIGSEGV, SIGABRT) come from within.
_KILLS = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})


class DeathCause:
    """The probable cause of the end of a stub's process: memory, a kill from outside, a full /dev/shm. Made when the
    process starts, and valid once it has ended. `like`: the cause of another process that has just been started."""

    def __init__(self, child: ChildProcess, like: DeathCause | None = None) -> None:
        self._child = child
        # counting takes 0.2 ms (2026-11-26), and a load starts two processes at once
        self._oom_kills: int = oom_kills() if like is None else like._oom_kills
        #: why this server killed it, in a sentence; empty if it did not
        self.requested = ""

    def is_kill(self) -> bool:
        """Return whether it was killed from outside, and not for lack of memory."""
        return self._is_killed() and not self._memory_words()

    def words(self) -> str:
        """Return a sentence with the facts besides the signal; "" if there are none."""
        if self.requested:
            return self.requested
        if self._child.exit_signal() == "SIGBUS":
            return bus_words(*shared_memory())
        return self._memory_words() or (kill_words(self._child.peak, memory_limit()) if self._is_killed() else "")

    def _is_killed(self) -> bool:
        return self._child.exit_signal() in _KILLS

    def _memory_words(self) -> str:
        if self._child.exit_signal() != "SIGKILL":
            return ""
        return memory_words(self._child.peak, memory_limit(), oom_kills() - self._oom_kills)
