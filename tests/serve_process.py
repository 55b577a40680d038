"""`tritonlab serve` as a process of its own, on free ports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.serving import alive, eventually, stub_processes

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class ServeProcess:
    """A process that the constructor starts; a `with` kills what is left of it. `scratch` gets stdout and stderr;
    `program` begins the command."""

    def __init__(
        self,
        repository: Path | None,
        scratch: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "tritonlab"),
    ) -> None:
        command = [*program, "serve", "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
        if repository is not None:
            command.append(f"--model-repository={repository}")
        self._stdout, self._stderr = scratch / "stdout", scratch / "stderr"
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *arguments],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.pid = self.process.pid

    def serving(self) -> ServeProcess:
        """Wait until its ports are open."""
        eventually(lambda: "Started Metrics Service" in self.stderr or self.process.poll() is not None, START_SECONDS)
        assert self.process.poll() is None, self.stderr
        return self

    def place(self, service: str) -> str:
        """Return `address:port` of `GRPCInferenceService`, `HTTPService` or `Metrics Service`."""
        found = re.search(rf'"Started {service} at (.*)"', self.stderr)
        assert found is not None, self.stderr
        return found[1]

    @property
    def http(self) -> str:
        return self.place("HTTPService")

    @property
    def grpc(self) -> str:
        return self.place("GRPCInferenceService")

    @property
    def metrics(self) -> str:
        return self.place("Metrics Service")

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def stubs(self) -> list[psutil.Process]:
        return stub_processes(self.pid)

    def call(self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Return status and text of one HTTP request; POST if there is a body."""
        request = urllib.request.Request(f"http://{self.http}{path}", body, dict(headers or {}))
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def post(self, path: str, document: Any) -> tuple[int, Any]:
        status, text = self.call(path, json.dumps(document).encode())
        return status, json.loads(text) if text else None

    def end(self, number: int) -> int:
        """Send the signal and return the exit status. No stub may outlive it."""
        stubs = [process.pid for process in self.stubs()]
        self.process.send_signal(number)
        status = self.process.wait(STOP_SECONDS)
        eventually(lambda: not any(alive(pid) for pid in stubs))
        return status

    def ended(self) -> int:
        """Wait until it has ended by itself and return its exit status."""
        return self.process.wait(START_SECONDS)

    def __enter__(self) -> ServeProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def failures(arguments: Sequence[str]) -> tuple[int, str]:
    """Return exit status and stderr of `tritonlab serve` with a command line that cannot serve."""
    command = [sys.executable, "-m", "tritonlab", "serve", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_SECONDS)
    return done.returncode, done.stderr
