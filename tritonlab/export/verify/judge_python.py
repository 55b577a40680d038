"""The Python that a wheel's stub embeds for models that bring no environment: with numpy 1 and the export's lock.

It is made once and kept in the cache: a relocatable environment if a Python of that version can be copied, else a
virtual environment, whose base then cannot be hidden.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

from ...core.scratch_directory import ScratchDirectory
from ..child_command import Say, run_command
from ..environment.built_environment import build_environment
from ..environment.lock import Pin, pins, resolved
from ..environment.python_prefix import Python, find_python, own_python
from ..releases import find
from .wheels import Wheel, cache_directory, locked


@dataclass(frozen=True)
class JudgePython:
    """A Python for a stub. `fixed`: directories that have to stay where they are; none for a relocatable one."""

    version: str
    prefix: Path
    libdir: Path
    image_python: str
    fixed: tuple[Path, ...] = ()

    def __str__(self) -> str:
        text = "a virtual environment" if self.fixed else "an environment of its own"
        if self.version != self.image_python:
            text += f"; the container's stub is for Python {self.image_python}"
        return text


def judge_python(wheel: Wheel, version: str, lock: str, say: Say, cancel: threading.Event) -> JudgePython:
    """Return a Python for the stubs of `wheel`: of `version`, else of that of the release's container if this machine
    has one, else this process's. `lock`: the text of the export's requirements.lock, empty if there is none."""
    python = _choose(wheel, version)
    wanted = _pinned(lock) or [Pin("numpy", pin.version) for pin in pins([], wheel.triton, python.version)]
    key = hashlib.sha256(repr((python.full_version, str(python.prefix), [pin[:2] for pin in wanted])).encode())
    place = cache_directory() / "pythons" / f"{python.version}-{key.hexdigest()[:16]}"
    relocatable = not python.why_not_relocatable
    with locked(place):
        if not place.exists():
            say(f"Python {python.version} for the stub, with {', '.join(pin.line for pin in wanted)}, into {place}")
            _make(python, wanted, place=place, say=say, cancel=cancel)
    fixed = () if relocatable else (place, python.prefix, python.libpython.parent)
    libdir = place / "lib" if relocatable else python.libpython.parent
    image_python = find(wheel.triton).python.value
    return JudgePython(python.version, prefix=place, libdir=libdir, image_python=image_python, fixed=fixed)


def _choose(wheel: Wheel, version: str) -> Python:
    own = own_python().version
    for each in [version] if version else [find(wheel.triton).python.value, own, *reversed(wheel.stubs)]:
        found = find_python(each) if each in wheel.stubs else None
        if found is not None and found.libpython.is_file():
            return found
    text = f"the wheel of Triton {wheel.triton} has stubs for Python {', '.join(wheel.stubs)}"
    raise LookupError(f"{text}, and this machine has none of these with a libpython")


def _pinned(lock: str) -> list[Pin]:
    rows = [line.partition("#")[0].strip() for line in lock.splitlines()]
    return [Pin(name.strip(), version.strip()) for name, equals, version in (r.partition("==") for r in rows) if equals]


def _make(python: Python, wanted: list[Pin], place: Path, say: Say, cancel: threading.Event) -> None:
    scratch = ScratchDirectory("python-", place.parent)
    made = scratch.path / "env"
    try:
        if not python.why_not_relocatable:
            build_environment(python, found=resolved(wanted, python, cancel), directory=made, say=say, cancel=cancel)
            made.rename(place)
            return
        say(f"{python.why_not_relocatable}: a virtual environment is made instead, and its base is not hidden")
        run_command([str(python.executable), "-m", "venv", str(place)], cancel=cancel)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        try:
            run_command([*pip, *(f"{pin.name}=={pin.version}" for pin in wanted)], cancel=cancel)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
    finally:
        scratch.remove()
