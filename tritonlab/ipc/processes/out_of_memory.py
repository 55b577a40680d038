"""The operating system's counters for a process that it killed for lack of memory, without a message."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
from pathlib import Path

_GB = 1 << 30
_MB = 1 << 20
#: A killed process that had used this share of all memory was probably killed for it.
_SUSPICIOUS = 0.5
#: The counters of a process are exact to some pages per processor only.
_INEXACT = 16 * _MB
_ULIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
#: A file system with less than this left is full.
_FULL = _MB
#: cgroup v1 writes a number like this where there is no limit.
_NO_LIMIT = 1 << 62
#: By version of cgroups: the files of limit and use, and the start of the names of the counters that include
#: children.
_COUNTERS = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    2: ("memory.max", "memory.current", ""),
}


def oom_kills(root: Path = Path("/")) -> int:
    """Return how many processes were killed for memory so far, in our cgroup and on this machine; 0 if unknown."""
    groups = [group / ("memory.events" if version == 2 else "memory.oom_control") for group, version in _groups(root)]
    return sum(_numbers([root / "proc/vmstat", *groups], "oom_kill"))


def memory_limit(root: Path = Path("/")) -> int:
    """Return how many bytes a process here can use: the lowest limit of machine, cgroups and `ulimit`; 0 if unknown."""
    limits = [limit for kind in _ULIMITS if (limit := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY]
    limits += [total * 1024 for total in _numbers([root / "proc/meminfo"], "MemTotal:")]
    for group, version in _groups(root):
        text = _read(group / _COUNTERS[version][0]).strip()
        if text.isdecimal() and int(text) < _NO_LIMIT:
            limits.append(int(text))
    return min(limits, default=0)


def memory_left(root: Path = Path("/")) -> int:
    """Return how many bytes can be allocated before the operating system kills a process of ours: the lowest number of
    the machine and our cgroups, including memory that only caches files. `sys.maxsize` if unknown."""
    left = [available * 1024 for available in _numbers([root / "proc/meminfo"], "MemAvailable:")]
    for group, version in _groups(root):
        limit, usage, prefix = _COUNTERS[version]
        most = _read(group / limit).strip()
        if most.isdecimal() and int(most) < _NO_LIMIT:
            cached = re.findall(rf"^{prefix}(?:in)?active_file (\d+)$", _read(group / "memory.stat"), re.MULTILINE)
            left.append(int(most) - int(_read(group / usage).strip() or 0) + sum(map(int, cached)))
    return min(left, default=sys.maxsize)


def shared_memory(root: Path = Path("/")) -> tuple[int, int]:
    """Return how many bytes are left in /dev/shm, and how many it has; 0 of 0 if unknown."""
    try:
        found = os.statvfs(root / "dev/shm")
    except OSError:
        return 0, 0
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def peak_memory(root: Path = Path("/")) -> int:
    """Return how many bytes this process has used at most; 0 if unknown."""
    return sum(_numbers([root / "proc/self/status"], "VmHWM:")) * 1024


def own_peak(reported: int, inherited: int) -> int:
    """Return the most bytes that an ended process used; 0 if that cannot be known. The `reported` number includes its
    parent's bytes at the start (`inherited`), so only a higher number is certainly its own."""
    return reported if reported > inherited + _INEXACT else 0


def memory_words(peak: int, limit: int, kills: int) -> str:
    """Return a sentence about a process that SIGKILL ended; "" if memory is not a likely cause. The process used at
    most `peak` bytes (0: unknown) of `limit`; `kills` processes were killed for memory meanwhile, perhaps this one."""
    used = f", which had used up to {_share(peak, limit)}" if peak else ""
    if kills:
        return f"The operating system has killed a process for lack of memory since the model took this one{used}."
    if limit and peak > limit * _SUSPICIOUS:
        return f"Memory probably ran out: it had used up to {_share(peak, limit)}."
    return ""


def kill_words(peak: int, limit: int) -> str:
    """Return a sentence about a process that was killed, but not for lack of memory (`memory_words`)."""
    used = f" (it had used up to {_share(peak, limit)})" if peak else ""
    return (
        f"Nothing shows that memory ran out{used}: somebody has probably killed it, with `kill` or a supervisor, "
        "or the model itself has."
    )


def bus_words(left: int, size: int) -> str:
    """Return a sentence about a process that SIGBUS ended while /dev/shm had `left` of `size` bytes."""
    if size and left < _FULL:
        return (
            f"/dev/shm is full ({_size(size)}), so a page of shared memory could not be allocated: give it more, "
            "in Docker with --shm-size, or remove what is left in it."
        )
    return (
        "A page of mapped memory could not be read or allocated: its file was cut short, or the file system or memory "
        "is full."
    )


def _share(used: int, limit: int) -> str:
    return f"{_size(used)} of {_size(limit)}" if limit else _size(used)


def _size(number: int) -> str:
    return f"{number / _GB:.1f} GB" if number >= _GB else f"{number / _MB:.0f} MB"


def _groups(root: Path) -> list[tuple[Path, int]]:
    """Return our memory cgroups and their parents, as (directory, version)."""
    found = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        base = root / "sys/fs/cgroup"
        if number == "0":
            version = 2
        elif "memory" in controllers.split(","):
            base, version = base / "memory", 1
        else:
            continue
        # In a container the path may be the outer one, while our own group is mounted.
        inner = base / path.strip("/")
        group = inner if inner.is_dir() else base
        while True:
            found.append((group, version))
            if group in (base, group.parent):
                break
            group = group.parent
    return found


def _numbers(paths: list[Path], name: str) -> list[int]:
    """Return the number after `name` of each file that has one."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            if counter := re.search(rf"^{name}\s+(\d+)\b", path.read_text(), re.MULTILINE):
                found.append(int(counter[1]))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
