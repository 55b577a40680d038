"""The judge: a real tritonserver 2.51 from nvidia-pytriton's wheel, started on a repository of the test's own.

The wheel lives in a virtual environment of its own (`build/reference/venv`, made by `make test`), as its stub needs
numpy < 2. Only subprocesses and files are used; nothing of the wheel is imported.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "build" / "reference"
VENV = REFERENCE / "venv"

START_SECONDS = 60
STOP_SECONDS = 20


def missing() -> str | None:
    """Return why no reference server can be started here, or None if one can."""
    if not (VENV / "bin" / "python").exists():
        return f"{VENV.relative_to(ROOT)} is not there; `make test` builds it"
    if not _server_files().is_dir():
        return f"{VENV.relative_to(ROOT)} holds no tritonserver; its wheel exists for Linux on x86-64 only"
    return None


@functools.cache
def _interpreter() -> tuple[str, str, str]:
    """Return, of the environment's Python, the major.minor version, the folder of its libpython, the folder of its
    packages."""
    code = "import sys, sysconfig as s; print('%d.%d' % sys.version_info[:2]); print(s.get_config_var('LIBDIR'))"
    done = subprocess.run(
        [str(VENV / "bin" / "python"), "-c", code + "; print(s.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    version, libdir, packages = done.stdout.split()
    return version, libdir, packages


def _server_files() -> Path:
    return Path(_interpreter()[2]) / "pytriton" / "tritonserver"


def backend_directory() -> Path:
    """Return a backend directory as tritonserver wants it: library, helper module and the stub of the environment's
    Python."""
    version = _interpreter()[0]
    made = REFERENCE / f"backends-{version}"
    if not made.exists():
        files = _server_files()
        scratch = REFERENCE / f"backends-{version}.{os.getpid()}"
        shutil.copytree(files / "backends", scratch, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(files / "python_backend_stubs" / version / "triton_python_backend_stub", scratch / "python")
        try:
            scratch.rename(made)
        except OSError:  # another test process was first
            shutil.rmtree(scratch)
    return made


def environment() -> dict[str, str]:
    """Return the variables of a server. The stub embeds a Python, which finds libpython by LD_LIBRARY_PATH and its
    packages by the first python3 on PATH."""
    _, libdir, packages = _interpreter()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "COV_", "TRITON"))}
    return {
        **inherited,
        "PATH": f"{VENV / 'bin'}:{os.environ.get('PATH', '')}",
        "LD_LIBRARY_PATH": f"{Path(packages) / 'nvidia_pytriton.libs'}:{libdir}",
    }


def free_ports(count: int) -> list[int]:
    """Return ports nobody listens on now, below those that the system gives to a socket without a port, as others
    open some until a server listens there. All are held open together, so that they differ."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            candidate, port = held.enter_context(socket.socket()), random.SystemRandom().randrange(20_000, 32_000)
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def server_command(*arguments: str) -> list[str]:
    """Return the command of a tritonserver with `arguments` alone, to be run in `environment()`."""
    return [*_dies_with_us(), str(_server_files() / "bin" / "tritonserver"), *arguments]


class ReferenceServer:
    """One tritonserver process on `repository`; explicit model control unless `arguments` say otherwise.

    Started by the constructor, which returns when the server answers. `scratch` gets the log; `within` is a command
    that runs the command which follows it. A context manager.
    """

    def __init__(
        self, repository: Path, scratch: Path, arguments: Sequence[str] = (), within: Sequence[str] = ()
    ) -> None:
        self.repository = repository
        self.log_file = scratch / "tritonserver.log"
        self._arguments = arguments
        self._within = within
        self._ports = free_ports(3)
        self.start()

    def start(self) -> None:
        """Start the server, also after it crashed: on the same repository and ports, with nothing loaded."""
        http_port, grpc_port, metrics_port = self._ports
        self.http = f"127.0.0.1:{http_port}"
        self.grpc = f"127.0.0.1:{grpc_port}"
        self.metrics = f"127.0.0.1:{metrics_port}"
        self.region_prefix = f"tritonlab_judge_{os.getpid()}_{http_port}_"
        command = [
            *_dies_with_us(),
            *self._within,
            str(_server_files() / "bin" / "tritonserver"),
            f"--model-repository={self.repository}",
            f"--backend-directory={backend_directory()}",
            f"--backend-config=python,shm-region-prefix-name={self.region_prefix}",
            f"--cache-directory={_server_files() / 'caches'}",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            f"--http-port={http_port}",
            f"--grpc-port={grpc_port}",
            f"--metrics-port={metrics_port}",
            "--exit-on-error=false",
            "--exit-timeout-secs=4",  # it waits that long for a model with a dead stub
            "--model-control-mode=explicit",
            *self._arguments,  # the last word wins
        ]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = self._process.pid
        try:
            self._wait_until_live()
        except BaseException:
            self.stop()
            raise

    def _wait_until_live(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"tritonserver ended with {self._process.returncode}:\n{self.log()[-4000:]}")
            if self.live():
                return
            time.sleep(0.05)  # not listening yet; there is nothing to wait on
        raise RuntimeError(f"tritonserver was not live within {START_SECONDS} s:\n{self.log()[-4000:]}")

    def live(self) -> bool:
        """Return whether it answers; one that crashed takes a while to end."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/v2/health/live", timeout=5):
                return True
        except OSError:
            return False

    def log(self) -> str:
        """Return what the server and its stubs have printed so far."""
        return self.log_file.read_text(errors="replace")

    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask the server to end, wait, then kill the whole process group (the stubs are in it), and remove its
        shared memory."""
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        for region in Path("/dev/shm").glob(self.region_prefix + "*"):
            region.unlink(missing_ok=True)

    def __enter__(self) -> ReferenceServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _dies_with_us() -> list[str]:
    """Return the words before a command that end it with us. A killed test run must not leave a server behind:
    setpriv (util-linux) sets the parent-death signal and execs."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
