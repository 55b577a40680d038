"""The releases of Triton that are available as a wheel, and the cache of their unpacked files.

`nvidia-pytriton`'s wheels contain a tritonserver, its Python backend and the backend's stubs for several Pythons. They
run after unpacking, without an installation. `wheels.json` pins one wheel for each release, by version and SHA-256.
"""

from __future__ import annotations

import fcntl
import filecmp
import functools
import json
import os
import platform
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ....core.explained import Explained
from ....core.scratch_directory import ScratchDirectory
from ....core.status import Code
from ....ipc.processes.own_stub import NAME as STUB
from ..child_command import CommandFailed, Say, run_command

#: Overrides the directory of downloads.
CACHE_VARIABLE = "TRITONLAB_CACHE"
#: The needed parts of a wheel.
_PARTS = ("pytriton/tritonserver/", "nvidia_pytriton.libs/")


class NoWheel(Explained, LookupError):
    """A release without a wheel from which a server can be started."""

    code = Code.NOT_FOUND


class Wheel(NamedTuple):
    """One pinned wheel. `stubs`: the Pythons for which it has a stub."""

    triton: str
    package: str
    version: str
    file: str
    sha256: str
    bytes: int
    unpacked_bytes: int
    stubs: tuple[str, ...]

    @property
    def size(self) -> str:
        return f"{self.bytes / 1e6:.0f} MB to fetch, {self.unpacked_bytes / 1e6:.0f} MB unpacked"

    @property
    def place(self) -> Path:
        """The directory of the cache for its unpacked files."""
        return cache_directory() / "triton" / self.triton

    @property
    def is_cached(self) -> bool:
        return (self.place / self.sha256).exists()


class TritonFiles(NamedTuple):
    """An unpacked wheel."""

    root: Path

    @property
    def server(self) -> Path:
        return self.root / "pytriton" / "tritonserver"

    def stub(self, python: str) -> Path:
        """Return the stub that was compiled for that Python, `3.11`."""
        return self.server / "python_backend_stubs" / python / STUB

    def compiled(self, stub: Path) -> bool:
        """Return whether the stub is one of this release."""
        own = self.server.glob(f"python_backend_stubs/*/{STUB}")
        return any(filecmp.cmp(stub, each, shallow=False) for each in own)


@functools.cache
def wheels() -> dict[str, Wheel]:
    """Return the pinned wheels by release of Triton, newest first."""
    text = Path(__file__).with_name("wheels.json").read_text(encoding="utf-8")
    rows = [Wheel(**{**row, "stubs": tuple(row["stubs"])}) for row in json.loads(text)["wheels"]]
    return {wheel.triton: wheel for wheel in rows}


def find_wheel(release: str) -> Wheel:
    """Return the wheel of a release. Raises NoWheel with the reason if there is none."""
    found = wheels().get(release)
    if found is None:
        newest = next(iter(wheels()))
        raise NoWheel(f"no wheel has Triton {release}; there are {', '.join(wheels())}, and none after {newest}")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NoWheel(f"the wheel of Triton {release} is for Linux on x86-64, and this is {platform.machine()}")
    return found


def cache_directory() -> Path:
    """Return the directory of downloads and builds: $TRITONLAB_CACHE, or tritonlab in the user's cache directory."""
    named = os.environ.get(CACHE_VARIABLE)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(named).expanduser().absolute() if named else Path(base) / "tritonlab"


def unpacked(wheel: Wheel, say: Say, cancel: threading.Event) -> TritonFiles:
    """Return the unpacked wheel from the cache; fetch and unpack it first if it is missing."""
    place = wheel.place
    if wheel.is_cached:
        return TritonFiles(place)
    with locked(place):
        if not wheel.is_cached:
            say(f"Triton {wheel.triton}: fetch {wheel.package} {wheel.version} into {place} ({wheel.size})")
            with ScratchDirectory("wheel-", place.parent) as scratch:
                _fetch(wheel, scratch, cancel)
                _unpack(scratch / wheel.file, scratch / "files")
                (scratch / "files" / wheel.sha256).touch()
                shutil.rmtree(place, ignore_errors=True)
                (scratch / "files").rename(place)
    return TritonFiles(place)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Allow only one process at a time to make `place`, whose parent is made."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(wheel: Wheel, directory: Path, cancel: threading.Event) -> None:
    pinned = directory / "requirements.txt"
    pinned.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    try:
        run_command(
            [*command, "--only-binary=:all:", "--require-hashes", "-r", str(pinned), "-d", str(directory)],
            cancel=cancel,
        )
    except CommandFailed as error:
        raise CommandFailed(
            f"{wheel.package} {wheel.version}, which has Triton {wheel.triton}, cannot be fetched: {error}",
            f"make pip reach an index that has it, or unpack it on another machine and copy {cache_directory()}",
        ) from error


def _unpack(file: Path, directory: Path) -> None:
    """Unpack the needed parts. Paths are checked even though the wheel's checksum was verified."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if not member.filename.startswith(_PARTS) or ".." in path.parts:
                continue
            target = Path(archive.extract(member, directory))
            if target.is_file():
                target.chmod(0o755 if _is_program(target) else 0o644)


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
