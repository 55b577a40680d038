"""An alarm for a thread that waits, and a little later for the main thread, unless the first one has answered it.

The main thread answers in a signal handler, which Python calls as soon as that thread executes Python code again. While
it is in a call that has released the interpreter's lock, the waiting thread gets the lock.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import select
import signal
import socket
from signal import ITIMER_REAL, setitimer
from typing import Any, Callable, Deque, Optional

from ..api import signal_gate

#: Seconds that the main thread leaves to the waiting one.
_LATE = 2e-5
_CLOCK_MONOTONIC = 1
_PR_SET_TIMERSLACK = 29


class _TimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("s", ctypes.c_long),
        ("ns", ctypes.c_long),
    )


class LookAlarm:
    """An alarm that any thread sets, for a thread that calls `wait`, and for `ring` on the main thread, with the frame
    that it executes. Raises OSError if the system has no such timer.

    The second needs SIGALRM: if the author's code uses that, and until the main thread has executed Python code,
    `rings` is False.
    """

    def __init__(self, ring: Callable[[Any], None]) -> None:
        self._ring = ring
        self._timer = _library.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._after, self._never = _TimerSpec(), _TimerSpec()
        self._wakes = False
        self._installs = 0
        self._is_closed = False
        self.rings = False
        _call_on_main_thread(self._set_up)  # the only thread that may set a handler

    def _set_up(self) -> None:
        if not self._is_closed and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            signal.signal(signal.SIGALRM, self._handle)
            signal.siginterrupt(signal.SIGALRM, False)
            self._installs = signal_gate.installed.count
            self.rings = True

    def _handle(self, signum: int, frame: Any) -> None:
        self._ring(frame)

    def arm(self, nanoseconds: int, wakes: bool = True) -> None:
        """Set the alarm to so many nanoseconds from now, less than 1e9. Without `wakes` only the main thread gets it,
        if it can: the other timer takes longer to set.
        """
        if self._may_ring():
            setitimer(ITIMER_REAL, nanoseconds / 1e9 + _LATE)
            if not wakes:
                return
        self._wakes = True
        self._after.ns = nanoseconds
        _library.timerfd_settime(self._timer, 0, ctypes.byref(self._after), None)

    def disarm(self) -> None:
        """Cancel the alarm."""
        if self._may_ring():
            setitimer(ITIMER_REAL, 0)
        if self._wakes:
            self._wakes = False
            _library.timerfd_settime(self._timer, 0, ctypes.byref(self._never), None)

    def _may_ring(self) -> bool:
        if self.rings and self._installs != signal_gate.installed.count:
            self._installs = signal_gate.installed.count
            self.rings = signal.getsignal(signal.SIGALRM) == self._handle
        return self.rings

    def wake(self) -> None:
        """Wake the waiting thread now."""
        with contextlib.suppress(BlockingIOError):  # it has not read yet what is to wake it
            self._writer.send(b"\0")

    def wait(self, seconds: Optional[float]) -> None:
        """Wait for the alarm or for `wake`, at most so many seconds; None: for ever."""
        for ready in select.select([self._timer, self._reader], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):  # it was disarmed since
                os.read(self._timer, 8) if ready == self._timer else self._reader.recv(512)

    def close(self) -> None:
        """Release the timers. Does not wait for the main thread, which may be in a long call."""
        self.disarm()
        self._is_closed = True
        _call_on_main_thread(self._tear_down)

    def _tear_down(self) -> None:
        if self._may_ring():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self.rings = False
        os.close(self._timer)
        self._reader.close()
        self._writer.close()


def wake_on_time() -> None:
    """Wake this thread when its wait ends, not up to 50 us later."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


#: The C library. Its calls do not release the interpreter's lock, which would take longer than they do.
_library = ctypes.PyDLL(None, use_errno=True)
_pending: Deque[Callable[[], None]] = collections.deque()


def _run_pending(_: Any) -> int:
    while _pending:
        _pending.popleft()()
    return 0


_call_pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_run_pending)  # never freed: C may call it at any time


def _call_on_main_thread(function: Callable[[], None]) -> None:
    """Call a function on the main thread as soon as it executes Python code."""
    _pending.append(function)
    ctypes.pythonapi.Py_AddPendingCall(_call_pending, None)
