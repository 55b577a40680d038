"""A cgroup that limits the memory of a server under test, of version 1 or 2, whichever has the controller here."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.serving import eventually

T = TypeVar("T")
_ROOT = Path("/sys/fs/cgroup")
#: Version 1, which has the controller in a directory of its own, or 2.
_IS_OLD = (_ROOT / "memory").is_dir()
_GROUPS = _ROOT / "memory" if _IS_OLD else _ROOT
_LIMIT, _PEAK, _EVENTS = (
    ("limit_in_bytes", "max_usage_in_bytes", "oom_control") if _IS_OLD else ("max", "peak", "events")
)


class MemoryGroup:
    """A group whose processes may use `limit` bytes together. Raises OSError where memory cannot be limited. A context
    manager; what is left in the group is killed at its end."""

    def __init__(self, limit: int) -> None:
        self._path = _GROUPS / f"tritonlab-test-{os.getpid()}"
        self._path.mkdir()
        try:
            self._file(_LIMIT).write_text(str(limit))
        except OSError:
            self._path.rmdir()
            raise

    def start(self, begin: Callable[[], T]) -> T:
        """Call what starts a process, which is in the group from its beginning, and return what it returns."""
        here = _group_of_this_process()
        (self._path / "cgroup.procs").write_text(str(os.getpid()))
        try:
            return begin()
        finally:
            (here / "cgroup.procs").write_text(str(os.getpid()))

    def reset_peak(self) -> None:
        """Let `peak` begin with what is in use now; kernels before 6.12 cannot in version 2."""
        with contextlib.suppress(OSError):
            self._file(_PEAK).write_text("0")

    def peak(self) -> int:
        """Return how many bytes the group has used at most."""
        return int(self._file(_PEAK).read_text())

    def kills(self) -> int:
        """Return how many processes the operating system has killed for memory."""
        found = re.search(r"^oom_kill (\d+)$", self._file(_EVENTS).read_text(), re.MULTILINE)
        return int(found[1]) if found else 0

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self._path / "cgroup.procs").read_text().split()]

    def _file(self, name: str) -> Path:
        return self._path / f"memory.{name}"

    def __enter__(self) -> MemoryGroup:
        return self

    def __exit__(self, *exc: object) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.pids())
        self._path.rmdir()


def _group_of_this_process() -> Path:
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    path = next(path for _, controllers, path in lines if controllers == ("memory" if _IS_OLD else ""))
    return _GROUPS / path.strip("/")
