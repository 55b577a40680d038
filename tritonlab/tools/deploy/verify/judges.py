"""The servers that can judge an export: a release from its wheel, the tritonserver on PATH, a container, and ours.

A wheel's stub embeds a Python for models that bring no environment, with numpy 1 and the export's lock. That
environment is made once and kept in the cache. It is relocatable if a Python of that version can be copied, otherwise a
virtual environment, whose base cannot be hidden.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....core.scratch_directory import ScratchDirectory
from ....ipc.processes.own_stub import NAME as STUB
from ....ipc.processes.own_stub import is_compiled
from ....server.models.backends import DEFAULT_DIRECTORY
from ..child_command import Say, run_command
from ..environment.built_environment import build_environment
from ..environment.lock import Pin, pins, resolved
from ..environment.python_prefix import Python, find_python, own_python
from ..releases import IMAGES, find
from .hiding import NOT_HIDDEN, Hiding, common_entries, find_hiding, folders_of_the_machine
from .judge_server import Ports, Start
from .wheels import TritonFiles, Wheel, cache_directory, locked

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENGINE_SECONDS = 20.0
#: A comment of a lock; in an address `#` begins the hash.
_COMMENT = re.compile(r"(^|\s+)#.*")


@dataclass(frozen=True)
class WheelJudge:
    """A release from its wheel, with the stub of the judge's Python next to the backend."""

    release: str
    files: TritonFiles
    python: JudgePython
    hide: Mapping[Path, str]

    @property
    def name(self) -> str:
        return f"Triton {self.release} from its wheel, stub for Python {self.python.version}, {self.python}"

    def hiding(self) -> Hiding:
        hide = {**folders_of_the_machine(), **self.hide}
        return find_hiding(hide, keep=self.python.fixed, common=common_entries())

    def start(self, models: Path, brought: Sequence[Path], scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        backends = scratch / "backends"
        shutil.copytree(self.files.server / "backends", backends, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(self.files.stub(self.python.version), backends / "python" / STUB)
        for backend in brought:
            shutil.copytree(backend, backends / backend.name, symlinks=True, dirs_exist_ok=True)
        places = {"triton": self.files.root, "backends": backends, "models": models, "python": self.python.prefix}
        seen = {name: hiding.place(name, path) for name, path in places.items()}
        server = f"{seen['triton']}/pytriton/tritonserver"
        command = [
            f"{server}/bin/tritonserver",
            f"--model-repository={seen['models']}",
            f"--backend-directory={seen['backends']}",
            f"--backend-config=python,shm-region-prefix-name={ports.region_prefix}",
            f"--cache-directory={server}/caches",
            *ports.flags(),
        ]
        libdir = str(self.python.libdir) if self.python.fixed else f"{seen['python']}/lib"
        env = {
            **_scrubbed(scratch, hiding),
            "PATH": f"{seen['python']}/bin:{_SYSTEM_PATH}",
            "LD_LIBRARY_PATH": f"{seen['triton']}/nvidia_pytriton.libs:{libdir}",
        }
        return Start(hiding.command(command, places, _temporary(scratch)), env)


@dataclass(frozen=True)
class PathJudge:
    """The tritonserver on PATH, with its own backends and its own Python."""

    program: str
    hide: Mapping[Path, str]
    release: str = "path"

    @property
    def name(self) -> str:
        return f"{self.program}, with its own backends and Python"

    def hiding(self) -> Hiding:
        return find_hiding(self.hide, program=Path(self.program))

    def start(self, models: Path, brought: Sequence[Path], scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        places = {"models": models}
        command = [self.program, f"--model-repository={hiding.place('models', models)}", *ports.flags()]
        command.append(f"--backend-config=python,shm-region-prefix-name={ports.region_prefix}")
        if brought:
            places["backends"] = backends = _add_own_backends(brought[0].parent)
            command.append(f"--backend-directory={hiding.place('backends', backends)}")
        inherited = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        env = {**_scrubbed(scratch, hiding), **inherited}
        return Start(hiding.command(command, places, _temporary(scratch)), env)


@dataclass(frozen=True)
class DockerJudge:
    """A release in its container, if the engine has the image. Nothing of the author's machine is in it."""

    release: str
    engine: str
    image: str

    @property
    def name(self) -> str:
        return f"{self.image} in {self.engine}"

    def hiding(self) -> Hiding:
        everything = "everything outside the container"
        return Hiding((self.engine,), root="", hidden={everything: everything})

    def start(self, models: Path, brought: Sequence[Path], scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        name = f"tritonlab-verify-{os.getpid()}-{ports.http}"
        published = [f"--publish=127.0.0.1:{host}:{port}" for host, port in zip(ports, (8000, 8001, 8002), strict=True)]
        command = [
            *(self.engine, "run", "--rm", "--init", f"--name={name}", "--shm-size=1g", *published),
            *(f"--volume={backend}:{DEFAULT_DIRECTORY / backend.name}" for backend in brought),
            *(f"--volume={models}:/models", self.image, "tritonserver", "--model-repository=/models"),
            *("--model-control-mode=explicit", "--exit-on-error=false"),
        ]
        return Start(command, dict(os.environ), (self.engine, "rm", "--force", name))


@dataclass(frozen=True)
class OwnServer:
    """Our server, on a copy of the export with this process's Python, as the author has used it so far."""

    release: str = "here"
    name: str = "tritonlab serve"

    def hiding(self) -> Hiding:
        return NOT_HIDDEN

    def start(self, models: Path, brought: Sequence[Path], scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        for stub in models.glob(f"*/{STUB}"):
            if is_compiled(stub):  # it works only with NVIDIA's server
                stub.unlink()
        command = [sys.executable, "-m", "tritonlab", "serve", f"--model-repository={models}", *ports.flags()]
        command += [f"--backend-directory={backend.parent}" for backend in brought[:1]]
        return Start(command, {**os.environ, "TMPDIR": str(_temporary(scratch))})


Judge = WheelJudge | PathJudge | DockerJudge | OwnServer


def find_docker_judge(release: str, container: str) -> DockerJudge | str:
    """Return the container of a release, or why it cannot be run here. No image is pulled."""
    engine = next((found for name in ("docker", "podman") if (found := shutil.which(name))), None)
    if engine is None:
        return "no docker or podman here"
    if not container:
        return f"the container of Triton {release} is not in tritonlab's table"
    image = f"{IMAGES}:{container}-py3"
    try:
        done = subprocess.run([engine, "image", "inspect", image], capture_output=True, timeout=_ENGINE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return f"{engine} does not answer"
    if done.returncode:
        return f"{engine} does not have {image}; `{Path(engine).name} pull` it to verify on it"
    return DockerJudge(release, engine, image)


def _add_own_backends(directory: Path) -> Path:
    """Link the server's own backends into a directory with the export's, and return it."""
    for backend in DEFAULT_DIRECTORY.iterdir() if DEFAULT_DIRECTORY.is_dir() else ():
        if not (directory / backend.name).exists():
            (directory / backend.name).symlink_to(backend)
    return directory


def _temporary(scratch: Path) -> Path:
    path = scratch / "tmp"
    path.mkdir(exist_ok=True)
    path.chmod(0o1777)
    return path


def _scrubbed(scratch: Path, hiding: Hiding) -> dict[str, str]:
    """Return the variables for a server that must not see the author's: only variables of the machine."""
    inherited = {
        name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ", "CUDA_VISIBLE_DEVICES") if name in os.environ
    }
    temporary = "/tmp" if hiding.unshare else str(_temporary(scratch))
    return {**inherited, "HOME": temporary, "TMPDIR": temporary, "PYTHONNOUSERSITE": "1", "PATH": _SYSTEM_PATH}


@dataclass(frozen=True)
class JudgePython:
    """A Python for a stub. `fixed`: directories that must stay at their places; none for a relocatable Python."""

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
    """Return a Python for the stubs of `wheel`. Its version is `version`; otherwise the release container's if this
    machine has that, or else this process's. `lock`: the text of the export's requirements.lock, empty if there is
    none."""
    python = _choose(wheel, version)
    wanted = list(pinned(lock)) or [Pin("numpy", pin.version) for pin in pins([], wheel.triton, python.version)]
    packages = [(pin.name, pin.version or pin.url) for pin in wanted]
    key = hashlib.sha256(repr((python.full_version, str(python.prefix), packages)).encode())
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


def pinned(lock: str) -> Iterator[Pin]:
    """Yield the pins in the text of a requirements.lock."""
    for line in lock.splitlines():
        name, _, url = _COMMENT.sub("", line).partition(" @ ")
        name, _, version = name.partition("==")
        if version or url:
            yield Pin(name, version, url=url)


def _make(python: Python, wanted: list[Pin], place: Path, say: Say, cancel: threading.Event) -> None:
    with ScratchDirectory("python-", place.parent) as scratch:
        if not python.why_not_relocatable:
            found = resolved(wanted, python, cancel, say)
            made = build_environment(python, found=found, directory=scratch / "env", say=say, cancel=cancel)
            made.rename(place)
            return
    say(f"{python.why_not_relocatable}: a virtual environment is made instead, and its base is not hidden")
    run_command([str(python.executable), "-m", "venv", str(place)], cancel=cancel)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    try:
        run_command([*pip, *(pin.requirement for pin in wanted)], cancel=cancel)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
