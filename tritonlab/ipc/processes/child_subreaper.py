"""The adoption of descendants' orphans by this process, for moments (`inheriting`; `man 2 prctl`, child subreaper). It
makes this process the parent of stubs that a zygote forks, so that it learns how they end."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator

try:
    import ctypes
except ImportError:  # a Python built without it
    ctypes = None  # type: ignore[assignment]

_SET, _GET = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER

_lock = threading.Lock()  # guards what follows
_users = 0
_before = 0


def _forget() -> None:
    """Reset the state in a forked child, which is not a subreaper."""
    global _lock, _users
    _lock, _users = threading.Lock(), 0  # another thread may have held it


os.register_at_fork(after_in_child=_forget)


def can_inherit() -> bool:
    """Return whether this system has child subreapers; the call inherits nothing."""
    try:
        _is_subreaper()
    except (OSError, AttributeError):
        return False
    return True


@contextlib.contextmanager
def inheriting() -> Iterator[None]:
    """Make orphaned children of descendants children of this process, within the `with` block. Raises OSError."""
    global _users, _before
    with _lock:
        if _users == 0:
            _before = _is_subreaper()
            _prctl(_SET, 1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _prctl(_SET, _before)


def _is_subreaper() -> int:
    value = ctypes.c_int()
    _prctl(_GET, ctypes.byref(value))
    return value.value


@functools.cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: object) -> None:
    if _c_library().prctl(option, argument, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
