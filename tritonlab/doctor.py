"""`tritonlab doctor`: the obstacles of this machine and environment to a notebook's models, and their fixes."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import Requirement

from .core.quoting import without_colours
from .core.status import TritonError
from .core.version import VERSION
from .frontends.shared.listener import GRPC_PORT, HTTP_PORT, METRICS_PORT
from .server.api.server import Server

_CONFIG = {
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}],
}
_MODEL = b"""
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor)]) for tensor in tensors]
"""


class State(enum.Enum):
    """The severity of a finding."""

    GOOD = "ok"
    NOTE = "note"  # something is missing that not every user needs
    BAD = "MISSING"


@dataclass(frozen=True)
class Diagnosis:
    """A finding about one thing. `fix`: the fix, "" if none is needed."""

    about: str
    state: State
    text: str
    fix: str = ""


def run(*, as_json: bool = False) -> int:
    """Check everything and print the findings. Return the exit status: 1 if something is missing that a notebook
    needs.
    """
    found = list(examine())
    if as_json:
        print(json.dumps([asdict(each) | {"state": each.state.value} for each in found], indent=1))
    else:
        width = max(len(each.about) for each in found)
        for each in found:
            print(f"{each.state.value:<8} {each.about:<{width}}  {each.text}")
            if each.fix:
                print(f"{'':<8} {'':<{width}}  -> {each.fix}")
    return int(any(each.state is State.BAD for each in found))


def examine() -> Iterator[Diagnosis]:
    """Yield the findings, one by one. A check that fails itself is a finding."""
    for look in LOOKS:
        try:
            yield from look()
        except Exception as error:  # the other checks continue on any odd machine
            yield Diagnosis(look.__name__.strip("_"), State.NOTE, f"could not be looked at: {error!r}")


def _system() -> Iterator[Diagnosis]:
    name = f"{platform.system()} {platform.release()}"
    if hasattr(select, "epoll") and hasattr(os, "memfd_create"):
        yield Diagnosis("system", State.GOOD, name)
    else:
        fix = "use a container or a virtual machine with Linux; the repository has a .devcontainer"
        yield Diagnosis("system", State.BAD, f"{name} has no epoll or memfd_create", fix)


def _python() -> Iterator[Diagnosis]:
    yield Diagnosis("Python", State.GOOD, f"{platform.python_version()}, {sys.executable}")


def _packages() -> Iterator[Diagnosis]:
    """Compare the installed packages with the requirements of the package and its notebook half."""
    try:
        wanted = importlib.metadata.requires("tritonlab") or ()
    except importlib.metadata.PackageNotFoundError:
        text = "tritonlab is on Python's path, but not installed: the versions it needs are not known"
        yield Diagnosis("packages", State.NOTE, text, "pip install 'tritonlab[lab]'")
        return
    seen = set()
    for text in wanted:
        requirement = Requirement(text)
        is_core = requirement.marker is None
        if not (is_core or requirement.marker.evaluate({"extra": "lab"})):  # type: ignore[union-attr]
            continue
        if requirement.name in seen:  # with another extra of its own
            continue
        seen.add(requirement.name)
        extra = "" if is_core else "[lab]"
        needed_for = "" if is_core else ", which notebooks need"
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            text = f"not installed{needed_for}"
            yield Diagnosis(
                requirement.name, State.BAD if is_core else State.NOTE, text, f"pip install 'tritonlab{extra}'"
            )
            continue
        if requirement.specifier.contains(version, prereleases=True):
            yield Diagnosis(requirement.name, State.GOOD, version)
        elif is_core or importlib.util.find_spec("jupyterlab") is not None:
            fix = f"pip install '{requirement.name}{requirement.specifier}'"
            yield Diagnosis(requirement.name, State.BAD, f"{version}; wanted is {requirement.specifier}", fix)
        else:  # a hosted notebook, which may need its version
            others = "in other notebooks cards and views are pictures"
            text = f"{version}; JupyterLab wants {requirement.specifier}; {others}"
            yield Diagnosis(requirement.name, State.NOTE, text)


def _extension() -> Iterator[Diagnosis]:
    """Check whether JupyterLab finds the extension, in this version, and whether it is enabled."""
    if importlib.util.find_spec("jupyterlab") is None:
        return
    command = [sys.executable, "-m", "jupyter", "labextension", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    listed = without_colours(done.stdout + done.stderr).splitlines()
    lines = [line for line in listed if line.strip().startswith("tritonlab v")]
    if not lines:
        fix = "install tritonlab into the environment of JupyterLab, too, and restart it"
        yield Diagnosis("extension", State.BAD, "JupyterLab of this environment does not list tritonlab", fix)
        return
    line = lines[0].strip()
    if "disabled" in line:
        yield Diagnosis("extension", State.BAD, line, "jupyter labextension enable tritonlab")
    elif f"v{VERSION} " not in f"{line} ":
        fix = f"pip install --force-reinstall --no-deps tritonlab=={VERSION}"
        yield Diagnosis("extension", State.BAD, f"{line}; the package is {VERSION}", fix)
    else:
        yield Diagnosis("extension", State.GOOD, line)


def _kernel() -> Iterator[Diagnosis]:
    """Check whether the kernel that notebooks start by default runs this Python."""
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        program = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        fix = f"{sys.executable} -m ipykernel install --sys-prefix"
        yield Diagnosis("kernel", State.BAD, "there is no kernel python3", fix)
        return
    # a bare name is replaced by the Python that starts the kernel
    if os.path.isabs(program) and Path(program).parent != Path(sys.executable).parent:
        fix = f"{sys.executable} -m ipykernel install --sys-prefix, or install tritonlab there"
        yield Diagnosis("kernel", State.BAD, f"notebooks run {program}, which is another environment", fix)
    else:
        yield Diagnosis("kernel", State.GOOD, "notebooks run this Python by default")


def _memory() -> Iterator[Diagnosis]:
    """Check the memory for regions of tensors, and /dev/shm, which real Triton servers need."""
    size = shutil.disk_usage("/dev/shm").total >> 20
    text = f"/dev/shm has {size} MB"
    if size < 256:
        fix = "docker run --shm-size=1g for a real Triton server here; tritonlab does not need it"
        yield Diagnosis("memory", State.NOTE, f"{text}, too little for a Triton server with Python models", fix)
    else:
        yield Diagnosis("memory", State.GOOD, text)


def _files() -> Iterator[Diagnosis]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1024:
        yield Diagnosis("open files", State.NOTE, f"a process may open {soft} only", "ulimit -n 4096")
    free = shutil.disk_usage(tempfile.gettempdir()).free >> 20
    state, fix = (State.BAD, "free some, or set TMPDIR") if free < 100 else (State.GOOD, "")
    yield Diagnosis("scratch", state, f"{free} MB are free in {tempfile.gettempdir()}", fix)


def _ports() -> Iterator[Diagnosis]:
    """Name the standard ports that are in use."""
    taken = [port for port in (HTTP_PORT, GRPC_PORT, METRICS_PORT) if _is_taken(port)]
    if taken:
        fix = "%triton serve takes free ones; for tritonlab serve set --http-port, --grpc-port, --metrics-port"
        yield Diagnosis("ports", State.NOTE, f"in use: {', '.join(map(str, taken))}", fix)
    else:
        yield Diagnosis("ports", State.GOOD, f"{HTTP_PORT}, {GRPC_PORT} and {METRICS_PORT} are free")


def _is_taken(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _model() -> Iterator[Diagnosis]:
    """Load a model in its own process, and call it: checks forking, sockets, shared memory and numpy at once."""
    import numpy as np

    with tempfile.TemporaryDirectory(prefix="tritonlab-doctor-") as directory:
        try:
            with Server(directory, model_control_mode="explicit") as server:
                gpus = server.gpus()
                start = time.monotonic()
                model = server.load("doctor", _CONFIG, {"file:1/model.py": _MODEL})
                ready = time.monotonic() - start
                answer = model(IN=np.arange(4, dtype=np.float32))["OUT"]
        except (TritonError, OSError) as error:
            yield Diagnosis("model", State.BAD, f"a model could not be loaded and called: {error}")
            return
    if list(answer) != [0, 1, 2, 3]:
        yield Diagnosis("model", State.BAD, f"a model that returns its input answered {list(answer)} to [0, 1, 2, 3]")
    else:
        yield Diagnosis("model", State.GOOD, f"one was READY after {ready * 1000:.0f} ms, and answered")
    if gpus:
        yield Diagnosis("GPUs", State.GOOD, ", ".join(f"{gpu['name']} ({gpu['ordinal']})" for gpu in gpus))
    else:
        fix = "tritonlab.reset(simulated_gpus=1) shows what a model would do with one"
        yield Diagnosis("GPUs", State.NOTE, "none; models run on the CPU", fix)


LOOKS: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
    _system,
    _python,
    _packages,
    _extension,
    _kernel,
    _memory,
    _files,
    _ports,
    _model,
)
