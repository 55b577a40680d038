"""The servers that can judge an export: a release from its wheel, the tritonserver on PATH, a container, and ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ...ipc.processes.own_stub import NAME as STUB
from ...ipc.processes.own_stub import is_compiled
from ..releases import IMAGES
from .hiding import Hiding, find_hiding
from .judge_python import JudgePython
from .judge_server import Ports, Start
from .wheels import TritonFiles

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENGINE_SECONDS = 20.0


@dataclass(frozen=True)
class WheelJudge:
    """A release from its wheel, with the stub of the judge's Python beside the backend."""

    release: str
    files: TritonFiles
    python: JudgePython
    hide: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"Triton {self.release} from its wheel, stub for Python {self.python.version}, {self.python}"

    def hiding(self) -> Hiding:
        return find_hiding(self.hide, keep=self.python.fixed)

    def start(self, models: Path, scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        backends = scratch / "backends"
        if not backends.exists():
            shutil.copytree(self.files.server / "backends", backends, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy2(self.files.stub(self.python.version), backends / "python" / STUB)
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
    hide: tuple[Path, ...]
    release: str = "path"

    @property
    def name(self) -> str:
        return f"{self.program}, with its own backends and Python"

    def hiding(self) -> Hiding:
        return find_hiding(self.hide, keep=[Path(self.program)])

    def start(self, models: Path, scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        places = {"models": models}
        command = [self.program, f"--model-repository={hiding.place('models', models)}", *ports.flags()]
        command.append(f"--backend-config=python,shm-region-prefix-name={ports.region_prefix}")
        inherited = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        env = {**_scrubbed(scratch, hiding), **inherited}
        return Start(hiding.command(command, places, _temporary(scratch)), env)


@dataclass(frozen=True)
class DockerJudge:
    """A release in its container, where the engine has the image. Nothing of the author's machine is in it."""

    release: str
    engine: str
    image: str

    @property
    def name(self) -> str:
        return f"{self.image} in {self.engine}"

    def hiding(self) -> Hiding:
        return Hiding((self.engine,), "/", ("everything outside the container",))

    def start(self, models: Path, scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        name = f"tritonlab-verify-{os.getpid()}-{ports.http}"
        published = [f"--publish=127.0.0.1:{host}:{port}" for host, port in zip(ports, (8000, 8001, 8002), strict=True)]
        command = [
            *(self.engine, "run", "--rm", "--init", f"--name={name}", "--shm-size=1g", *published),
            *(f"--volume={models}:/models", self.image, "tritonserver", "--model-repository=/models"),
            *("--model-control-mode=explicit", "--exit-on-error=false"),
        ]
        return Start(command, dict(os.environ), (self.engine, "rm", "--force", name))


@dataclass(frozen=True)
class OwnServer:
    """Our server, on a copy of the export with this process's Python: what the author has seen so far."""

    release: str = "here"
    name: str = "tritonlab serve"

    def hiding(self) -> Hiding:
        return Hiding((), "", ())

    def start(self, models: Path, scratch: Path, hiding: Hiding, ports: Ports) -> Start:
        for stub in models.glob(f"*/{STUB}"):
            if is_compiled(stub):  # it speaks only with NVIDIA's server; the environment's own Python runs the model
                stub.unlink()
        command = [sys.executable, "-m", "tritonlab", "serve", f"--model-repository={models}", *ports.flags()]
        return Start(command, {**os.environ, "TMPDIR": str(_temporary(scratch))})


Judge = WheelJudge | PathJudge | DockerJudge | OwnServer


def find_docker_judge(release: str, container: str) -> DockerJudge | str:
    """Return the container of a release, or why it cannot be run here. Nothing is pulled."""
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


def _temporary(scratch: Path) -> Path:
    path = scratch / "tmp"
    path.mkdir(exist_ok=True)
    path.chmod(0o1777)
    return path


def _scrubbed(scratch: Path, hiding: Hiding) -> dict[str, str]:
    """Return the variables of a server that must not see the author's: none but what machines have."""
    inherited = {
        name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ", "CUDA_VISIBLE_DEVICES") if name in os.environ
    }
    temporary = "/tmp" if hiding.unshare else str(_temporary(scratch))
    return {**inherited, "HOME": temporary, "TMPDIR": temporary, "PYTHONNOUSERSITE": "1", "PATH": _SYSTEM_PATH}
