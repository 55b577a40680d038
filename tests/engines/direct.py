"""A server of ours without an engine in front of it, for comparison, and HTTP without a client of Triton's."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tritonclient.http as httpclient

from tests.conformance.reference import free_ports
from tests.engines.environment import ROOT

#: Seconds that it may take to be ready, on a busy machine.
START = 60.0


class Direct(NamedTuple):
    """The addresses of its ports."""

    http: str
    grpc: str


@contextlib.contextmanager
def direct_server(repository: Path) -> Iterator[Direct]:
    """Run `tritonlab serve`, ready with all models of the repository."""
    http_port, grpc_port = free_ports(2)
    server = subprocess.Popen(
        [sys.executable, "-m", "tritonlab", "serve", f"--model-repository={repository}", f"--http-port={http_port}",
         f"--grpc-port={grpc_port}", "--allow-metrics=false"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        client, end = httpclient.InferenceServerClient(f"127.0.0.1:{http_port}"), time.monotonic() + START
        while True:
            with contextlib.suppress(OSError):
                if client.is_server_ready():
                    break
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server for comparison did not start: {server.poll()}")
            time.sleep(0.1)
        yield Direct(f"127.0.0.1:{http_port}", f"127.0.0.1:{grpc_port}")
    finally:
        server.terminate()
        server.wait()


def post(port: int, path: str, document: Any) -> tuple[int, str]:
    """Return the status and the text of the answer to a document."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(document))
    response = connection.getresponse()
    return response.status, response.read().decode()
