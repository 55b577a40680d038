"""An interrupt (Ctrl-C, the notebook's stop button) must not tear a message or a hand-over in two.

Python raises KeyboardInterrupt between any two steps of the main thread. A caller that is interrupted while it waits
loses nothing; one that has just taken an idle instance, or a message from the socket, would take it to its grave, and
the model would hang. Such steps run shielded; waiting does not.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

#: What `signal` is made of. `signal.signal` itself converts its arguments and result to enums, and serves where this
#: private module is missing: a shielded call takes 13 us with it, 2 us without (Python 3.11).
_signal: ModuleType
try:
    import _signal  # type: ignore[import-not-found,no-redef]
except ImportError:
    _signal = signal

P = ParamSpec("P")
R = TypeVar("R")

_MAIN = threading.main_thread().ident


def shielded(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls `function`; an interrupt that comes meanwhile is raised when it has returned."""
    if threading.get_ident() != _MAIN:
        return function(*args, **kwargs)
    handler = _signal.getsignal(_signal.SIGINT)
    if not callable(handler):
        return function(*args, **kwargs)
    came: list[tuple[int, Any]] = []
    _signal.signal(_signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        return function(*args, **kwargs)
    finally:
        _signal.signal(_signal.SIGINT, handler)
        if came:
            handler(*came[0])
