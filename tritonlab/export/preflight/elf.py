"""What a shared library or a program needs of the machine that loads it, read from its ELF headers."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SHT_DYNAMIC, _SHT_VERNEED = 6, 0x6FFFFFFE
_DT_RPATH, _DT_RUNPATH = 15, 29


@dataclass(frozen=True)
class LibraryNeeds:
    """The symbol versions that a file needs, such as GLIBC_2.34, and the directories where it looks for libraries."""

    versions: frozenset[str]
    paths: tuple[str, ...]

    def newest(self, family: str) -> tuple[int, ...]:
        """Return the newest version of a family, such as GLIBC, that is needed; empty if none is."""
        found = [each.removeprefix(f"{family}_") for each in self.versions if each.startswith(f"{family}_")]
        numbers = [tuple(int(part) for part in text.split(".")) for text in found if text.replace(".", "").isdecimal()]
        return max(numbers, default=())


NOTHING = LibraryNeeds(frozenset(), ())


def needs_of(path: Path) -> LibraryNeeds:
    """Return the needs of a file; nothing of one that is not a 64-bit little-endian ELF file."""
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x7fELF\x02\x01":
                return NOTHING
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _read(data)
    except (OSError, ValueError, struct.error, IndexError):
        return NOTHING


def _read(data: mmap.mmap) -> LibraryNeeds:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQII", data, start + n * size) for n in range(count)]
    versions, paths = set(), []
    for _, kind, _, _, offset, length, link, info in sections:
        strings = sections[link][4] if link < count else 0
        if kind == _SHT_VERNEED:
            versions |= set(_versions(data, offset, info, strings))
        elif kind == _SHT_DYNAMIC:
            for place in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<QQ", data, place)
                if tag in (_DT_RPATH, _DT_RUNPATH):
                    paths += _string(data, strings + value).split(":")
    return LibraryNeeds(frozenset(versions), tuple(path for path in paths if path))


def _versions(data: mmap.mmap, offset: int, count: int, strings: int) -> Iterator[str]:
    for _ in range(count):
        _, number, _, first, following = struct.unpack_from("<HHIII", data, offset)
        entry = offset + first
        for _ in range(number):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, entry)
            yield _string(data, strings + name)
            entry += step
        offset += following


def _string(data: mmap.mmap, offset: int) -> str:
    return data[offset : data.find(b"\0", offset)].decode("ascii", "replace")
