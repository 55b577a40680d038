"""The operating system kills processes for lack of memory without a word; this module reads its counters to tell."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

_GB = 1 << 30
_MB = 1 << 20
#: A killed process that had used this share of all memory was probably killed for it.
_SUSPICIOUS = 0.5
#: The counters of a process are exact to some pages per processor only.
_INEXACT = 16 * _MB
_ULIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
#: cgroup v1 writes a number like this where there is no limit.
_NO_LIMIT = 1 << 62


def oom_kills(root: Path = Path("/")) -> int:
    """Returns how many processes were killed for memory so far, in our cgroup and on this machine; 0 if unknown."""
    found = [_number(root / "proc/vmstat", "oom_kill")]
    for group, version in _groups(root):
        found.append(_number(group / ("memory.events" if version == 2 else "memory.oom_control"), "oom_kill"))
    return sum(number for number in found if number is not None)


def memory_limit(root: Path = Path("/")) -> int:
    """Return how many bytes a process here can use: the least limit of machine, cgroups and `ulimit`; 0 if unknown."""
    limits = [limit for kind in _ULIMITS if (limit := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY]
    total = _number(root / "proc/meminfo", "MemTotal:")
    if total is not None:
        limits.append(total * 1024)
    for group, version in _groups(root):
        text = _read(group / ("memory.max" if version == 2 else "memory.limit_in_bytes")).strip()
        if text.isdecimal() and int(text) < _NO_LIMIT:
            limits.append(int(text))
    return min(limits, default=0)


def peak_memory(root: Path = Path("/")) -> int:
    """Returns how many bytes this process has used at most; 0 if unknown."""
    return (_number(root / "proc/self/status", "VmHWM:") or 0) * 1024


def own_peak(reported: int, inherited: int) -> int:
    """Returns how many bytes an ended process used at most, 0 if that cannot be told. What is `reported` includes what
    its parent had used when it started the process (`inherited`), so only a higher number is certainly its own."""
    return reported if reported > inherited + _INEXACT else 0


def memory_words(peak: int, limit: int, kills: int) -> str:
    """Returns what to say of a process that SIGKILL ended; empty if memory is no likely cause. It used `peak` bytes at
    most (0: unknown) of `limit`, and meanwhile `kills` processes were killed for memory, perhaps this one."""
    used = f", which had used up to {_size(peak)}" if peak else ""
    if kills:
        return f"The operating system has killed a process for lack of memory since the model took this one{used}."
    if limit and peak > limit * _SUSPICIOUS:
        return f"Memory probably ran out: it had used up to {_size(peak)} of {_size(limit)}."
    return ""


def _size(number: int) -> str:
    return f"{number / _GB:.1f} GB" if number >= _GB else f"{number / _MB:.0f} MB"


def _groups(root: Path) -> Iterator[tuple[Path, int]]:
    """Yields our memory cgroups and their parents, as (directory, version)."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        base = root / "sys/fs/cgroup"
        if number == "0":
            version = 2
        elif "memory" in controllers.split(","):
            base, version = base / "memory", 1
        else:
            continue
        # In a container the path may be the outer one, while our own group is what is mounted.
        inner = base / path.strip("/")
        group = inner if inner.is_dir() else base
        while True:
            yield group, version
            if group in (base, group.parent):
                break
            group = group.parent


def _number(path: Path, name: str) -> int | None:
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
