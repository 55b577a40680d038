"""A server whose memory a cgroup limits: no size of request, and no four clients at once, end it, and what fits is
answered. The operating system kills processes for memory only there."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from tests.models import answers
from tests.serve_process import ServeProcess
from tests.serving import config, eventually, write_model

MB = 1 << 20
ROOT = Path("/sys/fs/cgroup")
#: Version 1, which has the controller in a directory of its own, or 2.
GROUPS, LIMIT = (ROOT / "memory", "limit_in_bytes") if (ROOT / "memory").is_dir() else (ROOT, "max")
NO_MEMORY = "There is no memory for a re"


@pytest.fixture(params=[512])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServeProcess]:
    """A server with so many MB, and a model that answers as many bytes as it gets."""
    group = GROUPS / f"tritonlab-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / f"memory.{LIMIT}").write_text(str(request.param * MB))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"memory cannot be limited here: {error}")
    write_model(tmp_path / "models", "xor", answers("x ^ 0x5A"), config("IN UINT8 -1", "OUT UINT8 -1"))
    here = _group_of_this_process()
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()))  # what it starts is in the group from the beginning
        try:
            process = ServeProcess(tmp_path / "models", tmp_path)
        finally:
            (here / "cgroup.procs").write_text(str(os.getpid()))
        with process:
            yield process.serving()
    finally:
        eventually(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def _group_of_this_process() -> Path:
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    path = next(path for _, controllers, path in lines if controllers == "memory" or GROUPS == ROOT)
    return GROUPS / path.strip("/")


def post(server: ServeProcess, size: int) -> str:
    """Send so many bytes over HTTP; return what is wrong with the answer, "" for nothing."""
    tensor = {"name": "IN", "shape": [size], "datatype": "UINT8", "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    connection = http.client.HTTPConnection(server.http, timeout=60)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/v2/models/xor/infer")
        connection.putheader("Content-Length", str(len(head) + size))
        connection.putheader("Inference-Header-Content-Length", str(len(head)))
        connection.endheaders(head)
        with contextlib.suppress(OSError):  # it was refused meanwhile
            for start in range(0, size, MB):
                connection.send(b"\0" * min(MB, size - start))
        answer = connection.getresponse()
        if answer.status != 200:
            return f"{answer.status} {answer.read().decode()}"
        found = 0
        while piece := answer.read(MB):
            found += len(piece)
        return "" if found > size else f"{found} bytes"


def call(server: ServeProcess, size: int) -> str:
    """Do the same over gRPC."""
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        sent = tritonclient.grpc.InferInput("IN", [size], "UINT8")
        sent.set_data_from_numpy(np.zeros(size, np.uint8))
        try:
            return "" if client.infer("xor", [sent], client_timeout=60).as_numpy("OUT").nbytes == size else "it has another size"
        except InferenceServerException as error:
            return f"{error.status()} {error.message()}"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("send", [post, call])
def test_no_request_and_no_four_clients_end_a_server_with_little_memory(
    server: ServeProcess, send: Callable[[ServeProcess, int], str]
) -> None:
    assert send(server, 40 * MB) == ""
    assert send(server, 40 * MB) == ""  # what the first has left is no reason to refuse the second
    send(server, 120 * MB)  # it may be refused, over gRPC
    assert server.process.poll() is None, server.stderr
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: send(server, 120 * MB), range(4)))
    assert server.process.poll() is None, server.stderr
    assert any(NO_MEMORY in one for one in found), found
    eventually(lambda: send(server, 40 * MB) == "")  # "later" comes
