"""Directories for a while: what is unpacked, handed in with a load or written in a notebook lies in one of them.

All that a process makes lie in one directory, `tritonlab-…` in the temporary directory. A file in it is locked for as
long as the process lives: the kernel ends the lock with the process, however that ends, and no process id can be
mistaken for another's. What a killed process leaves is removed when the next one starts a server.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_PREFIX = "tritonlab-"
#: In each such directory: locked while its owner lives. A directory without it is not ours.
_LOCK_FILE = ".owner"


class ScratchDirectory:
    """An empty directory. It goes with `remove`, else with its last user or the process that made it. `parent`: where
    it has to lie, for what is moved into it and out again; there a killed process leaves it."""

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent or _own_directory()))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def remove_abandoned() -> None:
    """Removes the directories of this user's processes that ended without doing it; in the background, for an
    environment is large. Later calls in a process do nothing."""
    global _looked
    with _lock:
        looked, _looked = _looked, True
    if looked:
        return
    abandoned = [found for path in _candidates() if (found := _seize(path)) is not None]
    if abandoned:
        threading.Thread(target=_remove_all, args=(abandoned,), name="scratch", daemon=True).start()


_lock = threading.Lock()  # guards what follows
_own: Path | None = None
#: holds the lock; closed by a forked child, in which it would outlive us
_own_lock = -1
_looked = False


def _own_directory() -> Path:
    global _own, _own_lock
    with _lock:
        while _own is None or not _own.is_dir():
            path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            if not _own_it(lock):
                os.close(lock)
                continue
            if _own_lock >= 0:
                os.close(_own_lock)
            _own, _own_lock = path, lock
            atexit.register(_remove, path, os.getpid())
        return _own


def _own_it(lock: int) -> bool:
    """False if another process took the directory for abandoned before it was locked, and removes it."""
    with contextlib.suppress(OSError):  # a file system without locks: then nobody else gets one, either
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return os.fstat(lock).st_nlink > 0


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # else this is a forked child that ends
        shutil.rmtree(path, ignore_errors=True)


def _forget() -> None:
    """In a forked child: the directory is its parent's."""
    global _lock, _own, _own_lock
    _lock = threading.Lock()  # another thread may have held it
    if _own_lock >= 0:
        os.close(_own_lock)
    _own, _own_lock = None, -1


os.register_at_fork(after_in_child=_forget)


class _Abandoned(NamedTuple):
    """A directory whose owner has ended. Its lock is held, so that no other process removes it, too."""

    path: str
    directory: int
    lock: int


def _candidates() -> list[str]:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        return [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    return []


def _seize(path: str) -> _Abandoned | None:
    """None if the directory has an owner, is another user's, or was not made here. Links are not followed."""
    with contextlib.ExitStack() as opened:
        try:
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            opened.callback(os.close, directory)
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            lock = os.open(_LOCK_FILE, flags, dir_fd=directory)
            opened.callback(os.close, lock)
            if not (_is_ours(directory, stat.S_ISDIR) and _is_ours(lock, stat.S_ISREG)):
                return None
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None
        if os.fstat(lock).st_nlink == 0:
            return None  # another process has removed it just now
        opened.pop_all()
        return _Abandoned(path, directory, lock)


def _is_ours(file: int, of_kind: Callable[[int], bool]) -> bool:
    status = os.fstat(file)
    return status.st_uid == os.geteuid() and of_kind(status.st_mode)


def _remove_all(abandoned: list[_Abandoned]) -> None:
    for each in abandoned:
        with contextlib.suppress(OSError):
            _remove_one(each)
        os.close(each.directory)
        os.close(each.lock)


def _remove_one(abandoned: _Abandoned) -> None:
    """The lock's file goes last: what is interrupted here goes on at the next start."""
    for name in os.listdir(abandoned.directory):
        if name != _LOCK_FILE:
            _remove_entry(name, abandoned.directory)
    if os.listdir(abandoned.directory) == [_LOCK_FILE]:
        os.unlink(_LOCK_FILE, dir_fd=abandoned.directory)
        os.rmdir(abandoned.path)


def _remove_entry(name: str, directory: int) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        shutil.rmtree(name, ignore_errors=True, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)
