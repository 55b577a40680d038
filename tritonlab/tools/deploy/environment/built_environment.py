"""A relocatable environment: a whole CPython prefix with the pinned packages, as a directory or an archive.

Measured on Triton 2.36, 2.41 and 2.51 with the author's folders hidden: both forms give the notebook's answers; the
directory is up in 2 s, the archive in 10 s.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..child_command import Say, raise_if_cancelled, run_command
from .lock import Distribution, EnvironmentRefused, Pin, pip_of
from .python_prefix import Python

#: Parts of `lib/python3.x` that no model needs.
_STANDARD_LEFT_OUT = {"site-packages", "test", "idlelib", "turtledemo", "ensurepip", "tkinter", "__pycache__"}
_CACHES = ("__pycache__",)
#: Programs that pip --target installs; they name the interpreter that ran pip.
_PROGRAMS = "bin"
_ACTIVATE = """\
export VIRTUAL_ENV="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PATH="$VIRTUAL_ENV/bin:$PATH"
export LD_LIBRARY_PATH="$VIRTUAL_ENV/lib:$LD_LIBRARY_PATH"
export PYTHONNOUSERSITE=1
"""
#: The time of files in an archive, so that equal environments make equal archives.
_NO_TIME = 0


def check_relocatable(python: Python) -> None:
    """Raise EnvironmentRefused for a Python that cannot be copied."""
    if why := python.why_not_relocatable:
        raise EnvironmentRefused(why, "use a Python of pyenv or uv, a conda prefix, or --env requirements")


def check_budget(python: Python, distributions: Iterable[Distribution], budget: int | None, say: Say) -> int:
    """Report the future size of the environment and return its bytes. Raises EnvironmentRefused if they exceed
    `budget`. The sizes are taken from the packages installed here."""
    base = sum(path.stat().st_size for path, _ in _prefix_files(python) if not path.is_symlink())
    parts = sorted(distributions, key=lambda each: -each.bytes)
    total = base + sum(each.bytes for each in parts)
    largest = ", ".join(f"{each.name} {each.bytes / 1e6:.0f} MB" for each in parts[:5] if each.bytes)
    text = f"about {total / 1e6:.0f} MB: Python {python.full_version} {base / 1e6:.0f} MB" + (
        f", {largest}" if largest else ""
    )
    say(f"environment: {text}")
    if budget is not None and total > budget:
        raise EnvironmentRefused(
            f"the environment would be {text}; the budget is {budget / 1e6:.0f} MB",
            "set a larger budget, or export a requirements.lock (--env requirements) and install it in the image",
        )
    return total


def build_environment(python: Python, found: Sequence[Pin], directory: Path, say: Say, cancel: threading.Event) -> Path:
    """Make the environment in `directory`, which must not exist. Raises EnvironmentRefused for a Python that cannot be
    copied."""
    check_relocatable(python)
    say(f"environment: copy Python {python.full_version}")
    for path, relative in _prefix_files(python):
        raise_if_cancelled(cancel)
        target = directory / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)
    for path in _elf_files(directory):
        _forget_prefix(path, directory, str(python.prefix))
    (directory / "bin" / "activate").write_text(_ACTIVATE)
    site = directory / "lib" / f"python{python.version}" / "site-packages"
    site.mkdir(parents=True)
    if found:
        say(f"environment: install {', '.join(f'{pin.name} {pin.version}' for pin in found)}")
        install(python, [pin.requirement for pin in found], site, cancel)
    return directory


def install(python: Python, requirements: Sequence[str], site: Path, cancel: threading.Event) -> None:
    """Install the requirements into a directory of packages, without their tests and caches."""
    command = [*pip_of(python), "install", "-q", "--no-compile", "--no-deps", "--only-binary=:all:"]
    run_command([*command, "--target", str(site), "--no-warn-conflicts", *requirements], cancel=cancel)
    shutil.rmtree(site / _PROGRAMS, ignore_errors=True)
    for folder, folders, _ in os.walk(site):
        for name in [each for each in folders if each in ("tests", *_CACHES)]:
            folders.remove(name)
            shutil.rmtree(os.path.join(folder, name))


def pack(directory: Path, archive: Path, cancel: threading.Event) -> Path:
    """Pack an environment as a `.tar.gz` that Triton unpacks; equal environments give equal archives."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=_NO_TIME) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in sorted(directory.rglob("*")):
            raise_if_cancelled(cancel)
            tar.add(path, path.relative_to(directory).as_posix(), recursive=False, filter=_anonymous)
    return archive


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = _NO_TIME
    return info


def _prefix_files(python: Python) -> Iterator[tuple[Path, str]]:
    """Yield the files of a prefix that an environment needs, with their relative paths."""
    version, prefix = python.version, python.prefix
    for name in ("python", "python3", f"python{version}"):
        path = prefix / "bin" / name
        if path.exists() and not (path.is_symlink() and "/" in os.readlink(path)):
            yield path, f"bin/{name}"
    for path in sorted((prefix / "lib").glob(f"libpython{version}.so*")):
        yield path, f"lib/{path.name}"
    for folder, folders, names in os.walk(python.standard_library):
        inside = os.path.relpath(folder, python.standard_library)
        folders[:] = sorted(each for each in folders if not _left_out(each, inside))
        for name in sorted(names):
            if not name.endswith((".pyc", ".a", ".o")):
                path = Path(folder, name)
                yield path, path.relative_to(prefix).as_posix()


def _left_out(folder: str, inside: str) -> bool:
    top = inside == "." and (folder in _STANDARD_LEFT_OUT or folder.startswith("config-"))
    return top or folder in ("tests", "test", *_CACHES)


def _elf_files(directory: Path) -> Iterator[Path]:
    for path in [*(directory / "bin").iterdir(), *(directory / "lib").rglob("*.so*")]:
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _forget_prefix(path: Path, root: Path, prefix: str) -> None:
    """Overwrite the RUNPATH of the build machine with a relative one, which is shorter and so fits."""
    old = f"{prefix}/lib".encode()
    new = ("$ORIGIN/" + os.path.relpath(root / "lib", path.parent)).encode()
    content = path.read_bytes()
    if b"\0" + old + b"\0" in content and len(new) <= len(old):
        path.write_bytes(content.replace(b"\0" + old + b"\0", b"\0" + new.ljust(len(old), b"\0") + b"\0"))
