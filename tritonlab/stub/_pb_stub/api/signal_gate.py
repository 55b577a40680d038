"""The gate of the author's signal handlers: they run only within the author's code, and wait while the stub's code
runs.

Python calls handlers between any two instructions of the main thread. One that raises there, such as a time-out by
SIGALRM, would leave half a message or a lock behind; one that logs would wait for a lock that its own thread holds. In
Triton all of that is C++, where Python calls no handler: it runs when `exec` has returned (rule 4.1.6), and between two
requests only at the next one (rule 3.5.7). So `signal.signal` is replaced by a function that installs the author's
handler within a `_Handler`, which checks a flag.

Measured next to a request of 60 us: 0.08 us to run the author's code, 0.26 us for each of its calls into the stub.
Blocking signals in Linux would not help: Python calls handlers later, and for signals of other threads.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Callable, Dict, Optional, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_get_ident = threading.get_ident
_install_handler = signal.signal
_installed_handler = signal.getsignal


class _Gate:
    """The flag that makes handlers wait. Only the main thread changes it."""

    __slots__ = ("closed", "late", "main")

    def __init__(self) -> None:
        self.closed = False
        self.late: Dict[int, None] = {}  # the numbers of the signals whose handlers wait, in order, each once
        self.main = threading.main_thread().ident


_gate = _Gate()


class _Installed:
    """How often a handler was installed: if `count` is as before, none was replaced."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


installed = _Installed()


class _Handler:
    """The wrapper of an author's handler that is installed in Python."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[int, Optional[FrameType]], Any]) -> None:
        self.function = function

    def __call__(self, number: int, frame: Optional[FrameType]) -> None:
        if _gate.closed or _in_destructor(frame):
            _gate.late[number] = None
        else:
            self.function(number, frame)


def _in_destructor(frame: Optional[FrameType]) -> bool:
    """Return whether a destructor of the stub runs, which a handler would cut short, as Python does not report its
    error.
    """
    while frame is not None and frame.f_code.co_filename.startswith(_DIRECTORY):
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def install() -> None:
    """Replace `signal.signal` and `signal.getsignal`, before the author's modules are imported. Both show only the
    author's handlers.
    """
    signal.signal = _signal
    signal.getsignal = _getsignal
    if _installed_handler(signal.SIGINT) is signal.default_int_handler:
        _signal(signal.SIGINT, signal.default_int_handler)  # its KeyboardInterrupt waits, too


@functools.wraps(_install_handler)
def _signal(signalnum: int, handler: Any) -> Any:
    installed.count += 1
    return _authors(_install_handler(signalnum, _Handler(handler) if callable(handler) else handler))


@functools.wraps(_installed_handler)
def _getsignal(signalnum: int) -> Any:
    return _authors(_installed_handler(signalnum))


def _authors(handler: Any) -> Any:
    return handler.function if type(handler) is _Handler else handler


def close() -> None:
    """Make handlers wait from now on. Called on the main thread, where the stub begins."""
    _gate.closed = True


def open() -> None:
    """Run handlers at once again, where the stub ends; waiting ones are dropped."""
    _gate.closed = False
    _gate.late.clear()


def run_authors(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the author on the main thread, after the waiting handlers. Returns its result; raises its
    error, or a handler's.
    """
    before = _gate.closed
    try:
        _gate.closed = False
        if _gate.late:
            _run_late()
        return function(*args)
    finally:
        _gate.closed = before


def uninterrupted(function: F) -> F:
    """Decorate a function that the author calls, on any thread. Handlers wait until it has returned; the error of a
    handler replaces its result.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        gate = _gate
        if gate.closed or _get_ident() != gate.main:
            return function(*args, **kwargs)
        gate.closed = True
        try:
            return function(*args, **kwargs)
        finally:
            gate.closed = False
            if gate.late:
                _run_late()

    return cast(F, called)


def _run_late() -> None:
    """Run the waiting handlers, as Python would: with the frame of the author's code, if it already runs."""
    outer = frame = sys._getframe(1)
    while outer.f_back is not None and outer.f_code.co_filename.startswith(_DIRECTORY):
        outer = outer.f_back
    _run_each(frame if outer.f_back is None else outer)


def _run_each(frame: FrameType) -> None:
    late = _gate.late
    if not late:
        return
    number = next(iter(late))
    del late[number]
    handler = _installed_handler(number)
    try:
        if type(handler) is _Handler:
            handler.function(number, frame)
    finally:  # the others, too, if this one raised
        _run_each(frame)


def _forked() -> None:
    _gate.main = _get_ident()
    open()


os.register_at_fork(after_in_child=_forked)
