"""A server process that answers for an export: a real tritonserver, or ours next to it.

Guarantees: when the constructor raises or `stop` returns, no process and no shared memory is left.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ....exchanges.http_document import model_path
from ....exchanges.remote.http_link import error_text
from ..child_command import CommandFailed, raise_if_cancelled, start_command

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LOOK = 0.05


class Start(NamedTuple):
    """How to start a server: the command, its environment, and a way to stop it in addition to a signal."""

    command: Sequence[str]
    env: Mapping[str, str]
    also_stop: Sequence[str] = ()


class Ports(NamedTuple):
    """The ports of a server on this machine, and the prefix of its shared memory."""

    http: int
    grpc: int
    metrics: int

    @property
    def region_prefix(self) -> str:
        return f"tritonlab_verify_{os.getpid()}_{self.http}_"

    def flags(self) -> list[str]:
        """Return the flags that both servers support."""
        return [
            *("--http-address=127.0.0.1", "--grpc-address=127.0.0.1"),
            *(f"--http-port={self.http}", f"--grpc-port={self.grpc}", f"--metrics-port={self.metrics}"),
            *("--model-control-mode=explicit", "--exit-on-error=false", "--exit-timeout-secs=4"),
        ]


class JudgeServer:
    """One server process, live when the constructor returns. A context manager."""

    def __init__(self, start: Callable[[Ports], Start], scratch: Path, cancel: threading.Event) -> None:
        self.ports = Ports(*_free_ports(3))
        self.http, self.grpc = f"127.0.0.1:{self.ports.http}", f"127.0.0.1:{self.ports.grpc}"
        self._log_file = scratch / f"server-{self.ports.http}.log"
        self._cancel = cancel
        self._start = start(self.ports)
        with self._log_file.open("wb") as log:
            command = [*_dies_with_us(), *self._start.command]
            self._process = start_command(command, stdout=log, stderr=log, env=self._start.env)
        try:
            self._wait_until_live()
        except BaseException:
            self.stop()
            raise

    def _wait_until_live(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_live():
            raise_if_cancelled(self._cancel)
            if not self.running:
                raise CommandFailed(f"the server ended with {self._process.returncode}:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise CommandFailed(f"the server was not live within {_START_SECONDS:g} s:\n{self.last_lines()}")
            time.sleep(_LOOK)

    def _is_live(self) -> bool:
        try:
            return self._ask("GET", "/v2/health/live", 5.0)[0] == 200
        except OSError:
            return False

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def last_lines(self, count: int = 15) -> str:
        """Return the end of the server's log."""
        return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-count:])

    def load(self, model: str, timeout: float) -> str:
        """Load a model and return the reason if that failed; empty if it did not."""
        try:
            status, body = self._ask("POST", f"/v2/repository/models/{quote(model, safe='')}/load", timeout)
        except TimeoutError:
            return f"it was not loaded within {timeout:g} s"
        except OSError as error:
            return f"the server does not answer: {error}"
        return "" if status == 200 else error_text(body, status)

    def is_ready(self, model: str) -> bool:
        """Return whether the model is ready, by the request of a load balancer."""
        with contextlib.suppress(OSError):
            return self._ask("GET", f"{model_path(model, '')}/ready", 30.0)[0] == 200
        return False

    def _ask(self, method: str, path: str, timeout: float) -> tuple[int, bytes]:
        """Return the status and the body of an answer. Raises OSError."""
        connection = http.client.HTTPConnection(self.http, timeout=timeout)
        try:
            connection.request(method, path, b"{}" if method == "POST" else None)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def stop(self) -> None:
        """End the server: signal, wait, then kill its process group; its shared memory is removed as well."""
        with contextlib.suppress(OSError):
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._start.also_stop:
            subprocess.run(self._start.also_stop, capture_output=True, timeout=30)
        for left in Path("/dev/shm").glob(f"{self.ports.region_prefix}*"):
            left.unlink(missing_ok=True)

    def __enter__(self) -> JudgeServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _free_ports(count: int) -> list[int]:
    """Return unused ports below the range that the system gives to clients."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            candidate, port = held.enter_context(socket.socket()), random.SystemRandom().randrange(20_000, 32_000)
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def _dies_with_us() -> list[str]:
    """Return the command that makes its command end with this thread, even if the thread is killed (util-linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
