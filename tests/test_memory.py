"""Memory comes back after load: requests of 1 byte to 32 MB, in the kernel, over HTTP and gRPC, then nothing to do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.serving import config, eventually, write_model

MB = 1 << 20
#: Seconds after the last request, and bytes more than before the first.
DEADLINE, MORE = 10.0, 100 * MB
SIZES = (1, 1000, 100_000, MB, 8 * MB, 32 * MB)

#: A notebook's server with open ports. For each line it reads it sends requests of its own, many at a time.
KERNEL = """
import sys, threading
import numpy as np
from tritonlab import Server, serve
server = Server(sys.argv[1])
endpoints = serve(server, http_port=0, grpc_port=0, metrics_port=0, token="")
print(endpoints.http, endpoints.grpc, flush=True)
echo, text = server.model("echo"), server.model("text")

def send(size):
    assert echo(IN=np.zeros(size, np.uint8))["OUT"].nbytes == size
    some = np.array([b"x" * min(size, 1000)] * (size // 1000 + 1), dtype=object)
    assert text(IN=some)["OUT"].size == some.size

for line in sys.stdin:
    threads = [threading.Thread(target=send, args=(int(size),)) for size in line.split()]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    del threads
    print("done", flush=True)
"""

ECHO = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        outs = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().copy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]) for out in outs]
"""


class Kernel:
    """The process of `KERNEL`."""

    def __init__(self, repository: Path) -> None:
        command = [sys.executable, "-c", KERNEL, str(repository)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.http, self.grpc = self._read().split()

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, "the kernel has ended"
        return line

    def send(self, sizes: tuple[int, ...]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, sizes)) + "\n")
        self.process.stdin.flush()
        assert self._read() == "done"

    def memory(self) -> tuple[int, int]:
        """Bytes of the kernel, and of it and all processes below it; what they share counts once."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        return pss(self.process.pid), sum(map(pss, [self.process.pid, *(process.pid for process in below)]))


def pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    twice = "instance_group { kind: KIND_CPU count: 2 }"
    write_model(tmp_path, "echo", ECHO, config("IN UINT8 -1", "OUT UINT8 -1", twice))
    write_model(tmp_path, "text", ECHO, config("IN STRING -1", "OUT STRING -1"))
    kernel = Kernel(tmp_path)
    yield kernel
    kernel.process.kill()
    kernel.process.communicate()


def send(module: Any, address: str, size: int) -> None:
    with module.InferenceServerClient(address) as client:
        data = np.zeros(size, np.uint8)
        sent = module.InferInput("IN", [size], "UINT8")
        sent.set_data_from_numpy(data)
        assert client.infer("echo", [sent]).as_numpy("OUT").nbytes == size
        some = np.array([b"x" * min(size, 1000)] * (size // 1000 + 1), dtype=object)
        sent = module.InferInput("IN", [some.size], "BYTES")
        sent.set_data_from_numpy(some)
        assert client.infer("text", [sent]).as_numpy("OUT").size == some.size


def load(kernel: Kernel) -> None:
    """All sizes, in all ways at once, several requests at a time."""
    ways = [(tritonclient.http, kernel.http.removeprefix("http://")), (tritonclient.grpc, kernel.grpc)]
    for size in SIZES:
        threads = [threading.Thread(target=send, args=(*way, size)) for way in ways for _ in range(2)]
        for thread in threads:
            thread.start()
        kernel.send((size,) * 4)
        for thread in threads:
            thread.join()


@pytest.mark.timeout(180)
def test_memory_comes_back_when_there_is_nothing_to_do(kernel: Kernel) -> None:
    kernel.send((1,))
    before = kernel.memory()
    load(kernel)

    def given_back() -> bool:
        now = kernel.memory()
        return all(bytes_now - bytes_before < MORE for bytes_now, bytes_before in zip(now, before, strict=True))

    assert not given_back()  # else there was nothing to give back
    eventually(given_back, DEADLINE)
