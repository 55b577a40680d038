"""P9: whether the model's environment works on another machine, judged also by the ELF headers of its libraries."""

from __future__ import annotations

import mmap
import os
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..environment.python_prefix import kind_of_prefix, venv_refusal, why_refused
from ..releases import Release
from .finding import Finding, Prediction
from .subject import Subject, version_text

_ITS_ENVIRONMENT = "its environment"
_FIX = "pack a whole Python with conda-pack, or an interpreter's own prefix, not a venv"
#: The directories in which the target also has files.
_EVERYWHERE = ("/bin/", "/usr/bin/", "/lib", "/usr/lib")
#: The beginning of the sentence about an environment outside of the model's directory.
_MACHINE_PATH = "EXECUTION_ENV_PATH is "
#: The numbers of sections and of entries in a dynamic section: elf.h.
_SHT_DYNAMIC, _SHT_VERNEED = 6, 0x6FFFFFFE
_DT_RPATH, _DT_RUNPATH = 15, 29


def is_machine_path(finding: Finding) -> bool:
    """Return whether the finding is about an environment outside of the model's directory."""
    return finding.sentence.startswith(_MACHINE_PATH)


def relocatable(subject: Subject, release: Release) -> Iterator[Finding]:
    """Yield the ties of the environment to this machine, one finding of each kind."""
    if subject.exported is not None:
        return  # an environment that cannot be moved is refused when it is made
    value = subject.environment_value
    if value and not subject.environment:
        yield _finding(
            f"{_MACHINE_PATH}{value}, a path of this machine",
            "put the environment into the model's directory and write $$TRITON_MODEL_DIRECTORY in front of its name",
        )
        return
    place = subject.directory / subject.environment
    if not subject.environment:
        return
    if place.is_dir():
        yield from _of_directory(place, release)
    elif place.is_file():
        yield from _of_archive(place)
    else:  # a pipe is no environment, either, and to open it would take for ever
        text = f"{_ITS_ENVIRONMENT}, {subject.environment}, is not in its directory"
        yield _finding(text, "put it there, or take the parameter out")


def _of_directory(place: Path, release: Release) -> Iterator[Finding]:
    is_venv = kind_of_prefix(place) == "venv"
    if why := why_refused(place, _ITS_ENVIRONMENT):
        # the target decides whether a directory that is not a whole prefix runs
        yield _finding(why, _FIX, Prediction.LOAD if is_venv else Prediction.ATTENTION)
    python = place / "bin" / "python"
    leads_to = os.path.realpath(python)
    if not is_venv and python.is_symlink() and not leads_to.startswith(os.path.realpath(place) + os.sep):
        yield _finding(_linked(leads_to), _FIX)
    activate = place / "bin" / "activate"
    if activate.is_file() and (prefix := _foreign_prefix(activate.read_text("utf-8", "replace"), place)):
        yield _finding(
            f"bin/activate of its environment names {prefix}, a path of this machine",
            "write the prefix relative to the script, as conda-pack does",
            Prediction.ATTENTION,  # newer releases do not execute it
        )
    scripts = [path.name for path in sorted((place / "bin").glob("*")) if _has_foreign_shebang(path)]
    if scripts:
        more = f" and {len(scripts) - 1} more" if len(scripts) > 1 else ""
        yield _finding(
            f"the script bin/{scripts[0]}{more} of its environment starts a Python of this machine",
            "start it as `python -m`, or pack the environment with conda-pack, which rewrites the first lines",
            Prediction.ATTENTION,
        )
    yield from _of_libraries(place, release)


def _of_libraries(place: Path, release: Release) -> Iterator[Finding]:
    """Check every library: where it looks for others, and which glibc and libstdc++ it needs."""
    brings = {path.name for path in place.rglob("libstdc++.so.6")}
    glibc, newer = release.glibc.value, release.libstdcxx.value
    worst: dict[str, tuple[tuple[int, ...], Path]] = {}
    foreign: list[tuple[Path, str]] = []
    for path in sorted(place.rglob("*.so*")):
        needs = needs_of(path) if path.is_file() and not path.is_symlink() else None
        if needs is None:
            continue
        foreign += [(path, each) for each in needs.paths if each.startswith("/") and not each.startswith(_EVERYWHERE)]
        for family, limit in (("GLIBC", glibc), ("GLIBCXX", newer)):
            found = needs.newest(family)
            if limit and found > tuple(map(int, limit.split("."))) and found > worst.get(family, ((),))[0]:
                worst[family] = (found, path)
    if foreign:
        path, each = foreign[0]
        yield _finding(f"{path.relative_to(place)} of its environment looks for libraries in {each}", _FIX)
    if "GLIBC" in worst:
        found, path = worst["GLIBC"]
        needed = f"{path.relative_to(place)} of its environment needs glibc {version_text(found)}"
        yield _finding(
            f"{needed}, and Triton {release} has {glibc}",
            "build the environment on a system that is as old as the target's, or from manylinux wheels",
        )
    if "GLIBCXX" in worst and not brings:
        found, path = worst["GLIBCXX"]
        needed = f"{path.relative_to(place)} of its environment needs GLIBCXX_{version_text(found)}"
        yield _finding(
            f"{needed}, and Triton {release} has {newer}",
            "install libstdcxx-ng into the environment, or build it on an older system",
        )


def _of_archive(place: Path) -> Iterator[Finding]:
    try:
        with tarfile.open(place) as archive:
            members = {os.path.normpath(member.name): member for member in archive}
            venv = archive.extractfile(members["pyvenv.cfg"]) if "pyvenv.cfg" in members else None
            config = venv.read().decode("utf-8", "replace") if venv is not None else None
    except (OSError, EOFError, zlib.error, tarfile.TarError):
        yield _finding(f"its environment {place.name} is not a tar archive", "pack it again, as a tar.gz")
        return
    if config is not None:
        yield _finding(venv_refusal(config, _ITS_ENVIRONMENT), _FIX)
        return
    python = members.get("bin/python")
    if python is not None and python.issym() and python.linkname.startswith("/"):
        yield _finding(_linked(python.linkname), _FIX)


def _linked(path: str) -> str:
    return f"bin/python of its environment is a link to {path}, a path of this machine"


def _foreign_prefix(script: str, place: Path) -> str:
    """Return the path of an environment on this machine that the script names."""
    for line in script.splitlines():
        if "VIRTUAL_ENV=" in line or "CONDA_PREFIX=" in line:
            value = line.partition("=")[2].strip().strip("\"'")
            if value.startswith("/"):
                return value
    return ""


def _has_foreign_shebang(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        first = file.readline(300)
    return first.startswith(b"#!/") and b"python" in first and not first.startswith((b"#!/usr/bin/", b"#!/bin/"))


def _finding(sentence: str, remedy: str, outcome: Prediction = Prediction.LOAD) -> Finding:
    return Finding("P9", sentence, remedy, outcome=outcome)


@dataclass(frozen=True)
class LibraryNeeds:
    """The symbol versions that a file needs, such as GLIBC_2.34, and its search directories for libraries."""

    versions: frozenset[str]
    paths: tuple[str, ...]

    def newest(self, family: str) -> tuple[int, ...]:
        """Return the newest needed version of a family, such as GLIBC; empty if none is needed."""
        found = [each.removeprefix(f"{family}_") for each in self.versions if each.startswith(f"{family}_")]
        numbers = [tuple(int(part) for part in text.split(".")) for text in found if text.replace(".", "").isdecimal()]
        return max(numbers, default=())


NOTHING = LibraryNeeds(frozenset(), ())


def needs_of(path: Path) -> LibraryNeeds:
    """Return the needs of a file; empty for a file that is not 64-bit little-endian ELF."""
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
