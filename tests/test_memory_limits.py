"""A server whose memory a cgroup limits: no size of request, and no four clients at once, end it, and what fits is
answered. The operating system kills processes for memory only there."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from tests.memory_group import MemoryGroup
from tests.models import answers
from tests.serve_process import ServeProcess
from tests.serving import config, eventually, write_model

MB = 1 << 20
NO_MEMORY = "There is no memory for a re"


@pytest.fixture(params=[512])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServeProcess]:
    """A server with so many MB, and a model that answers as many bytes as it gets."""
    write_model(tmp_path / "models", "xor", answers("x ^ 0x5A"), config("IN UINT8 -1", "OUT UINT8 -1"))
    with contextlib.ExitStack() as stack:
        try:
            group = stack.enter_context(MemoryGroup(request.param * MB))
            process = group.start(lambda: ServeProcess(tmp_path / "models", tmp_path))
        except OSError as error:
            pytest.skip(f"memory cannot be limited here: {error}")
        yield stack.enter_context(process).serving()


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
            out = client.infer("xor", [sent], client_timeout=60).as_numpy("OUT")
            return "" if out.nbytes == size else "it has another size"
        except InferenceServerException as error:
            return f"{error.status()} {error.message()}"


def post_words(server: ServeProcess) -> str:
    """Send 60 MB of JSON over HTTP that are many times as much as Python objects; return the answer."""
    words = b'"ab",' * (60 * MB // 5)
    head = b'{"inputs":[{"name":"IN","datatype":"BYTES","shape":[%d],"data":[' % (len(words) // 5)
    connection = http.client.HTTPConnection(server.http, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v2/models/xor/infer", b"".join((head, words[:-1], b"]}]}")))
        answer = connection.getresponse()
        return f"{answer.status} {answer.read().decode()}"


@pytest.mark.timeout(120)
def test_json_that_would_take_all_memory_is_refused(server: ServeProcess) -> None:
    assert "503" in (found := post_words(server)) and "as binary data, which takes less" in found, found
    assert server.process.poll() is None, server.stderr
    assert post(server, MB) == ""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("send", "most"), [(post, 120 * MB), (call, 60 * MB)], ids=["post", "call"])
def test_no_request_and_no_four_clients_end_a_server_with_little_memory(
    server: ServeProcess, send: Callable[[ServeProcess, int], str], most: int
) -> None:
    assert send(server, 40 * MB) == ""
    assert send(server, 40 * MB) == ""  # what the first has left is no reason to refuse the second
    send(server, most)
    assert server.process.poll() is None, server.stderr
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: send(server, most), range(4)))
    assert server.process.poll() is None, server.stderr
    assert any(NO_MEMORY in one for one in found), found
    eventually(lambda: send(server, 40 * MB) == "")  # "later" comes
