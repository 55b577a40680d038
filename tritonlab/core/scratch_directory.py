"""`ScratchDirectory`, for temporary files: unpacked archives, files sent with a load or written in a notebook.

All directories of one process are in `tritonlab-…` in the temporary directory. A file in it is locked while the process
lives: Linux always ends the lock with the process, and a reused process id causes no mistake. The remains of a killed
process are removed when the next one starts a server.
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
#: The file in each such directory that is locked while its owner lives. Directories without it are not tritonlab's.
_LOCK_FILE = ".owner"


class ScratchDirectory:
    """An empty directory. `remove`, or the end of a `with` block, deletes it; otherwise it is deleted with the last
    reference or with its process.

    `parent` is an optional place, so that files can be moved in and out; a killed process leaves such a directory
    behind.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent or _own_directory()))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()


def remove_abandoned() -> None:
    """Remove the directories of killed processes of this user, in the background, since an environment is large. Later
    calls in a process do nothing.
    """
    global _looked
    with _lock:
        looked, _looked = _looked, True
    if looked:
        return
    abandoned = [found for path in _candidates() if (found := _seize(path)) is not None]
    if abandoned:
        threading.Thread(target=_remove_all, args=(abandoned,), name="scratch", daemon=True).start()


_lock = threading.Lock()  # guards the fields below
_own: Path | None = None
#: the locked file; a forked child closes it, because the lock would outlive this process there
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
    """Lock the file. Returns False if another process took the directory for abandoned and removes it."""
    with contextlib.suppress(OSError):  # On a file system without locks other processes get none either.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return os.fstat(lock).st_nlink > 0


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child that ends must not remove it
        shutil.rmtree(path, ignore_errors=True)


def _forget() -> None:
    """Drop the directory in a forked child; the parent owns it."""
    global _lock, _own, _own_lock
    _lock = threading.Lock()  # another thread may have held it
    if _own_lock >= 0:
        os.close(_own_lock)
    _own, _own_lock = None, -1


os.register_at_fork(after_in_child=_forget)


class _Abandoned(NamedTuple):
    """A directory whose owner has ended. Its lock is held, so that no other process removes it too."""

    path: str
    directory: int
    lock: int


def _candidates() -> list[str]:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        return [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    return []


def _seize(path: str) -> _Abandoned | None:
    """Lock an abandoned directory. Returns None if it has an owner, belongs to another user, or was not made by this
    module. Links are not followed."""
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
    """Remove a directory, the file of its lock last: after an interruption the next start continues."""
    for name in os.listdir(abandoned.directory):
        if name != _LOCK_FILE:
            if stat.S_ISDIR(os.stat(name, dir_fd=abandoned.directory, follow_symlinks=False).st_mode):
                shutil.rmtree(name, ignore_errors=True, dir_fd=abandoned.directory)
            else:
                os.unlink(name, dir_fd=abandoned.directory)
    if os.listdir(abandoned.directory) == [_LOCK_FILE]:
        os.unlink(_LOCK_FILE, dir_fd=abandoned.directory)
        os.rmdir(abandoned.path)
