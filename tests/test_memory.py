"""Memory comes back after load: requests of 1 byte to 32 MB, in the kernel, over HTTP and gRPC, then nothing to do; and
large answers that a slow client reads long after their requests have ended. And a server without memory for a message
goes on."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.models import answers
from tests.serve_process import ServeProcess
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

ECHO = answers("x.copy()")


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
        return memory(self.process.pid)


def memory(pid: int) -> tuple[int, int]:
    """Return the bytes of a process, and of it and all processes below it; what they share counts once."""
    below = psutil.Process(pid).children(recursive=True)
    return pss(pid), sum(map(pss, [pid, *(process.pid for process in below)]))


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
    """Send all sizes, in all ways at once, several requests at a time."""
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

    def is_returned() -> bool:
        now = kernel.memory()
        return all(bytes_now - bytes_before < MORE for bytes_now, bytes_before in zip(now, before, strict=True))

    assert not is_returned()  # else there was nothing to give back
    eventually(is_returned, DEADLINE)


#: Bytes of an answer, and how many of them a slow client reads in a second: it is still reading when the server gives
#: memory back for the first time, 3 to 6 s after the request has ended.
ANSWER, PER_SECOND = 192 * MB, 16 * MB

ZEROS = answers("np.ones(x[0], np.uint8)", reads="SIZE")


class SlowLink:
    """A port whose clients hear from `address` no more than PER_SECOND bytes a second; `address` hears all at once."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread(self._accept)

    def __enter__(self) -> SlowLink:
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()

    @staticmethod
    def _thread(function: Any, *arguments: Any) -> None:
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.socket()
                server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                server.connect(self._target)
                self._thread(self._pass, client, server, 0.0)
                self._thread(self._pass, server, client, 1 / PER_SECOND)

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket, pause: float) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
                time.sleep(pause * len(data))
            other.shutdown(socket.SHUT_WR)


def request_zeros(module: Any, address: str, size: int) -> int:
    """Request so many bytes of the model `zeros`, and return how many it answered."""
    timeouts = {"network_timeout": 120.0} if module is tritonclient.http else {}
    with module.InferenceServerClient(address, **timeouts) as client:
        sent = module.InferInput("SIZE", [1], "INT64")
        sent.set_data_from_numpy(np.array([size]))
        return client.infer("zeros", [sent]).as_numpy("OUT").nbytes


@pytest.mark.timeout(180)
def test_memory_of_answers_to_slow_clients_comes_back(tmp_path: Path) -> None:
    """Over both protocols at the same time, each with a server of its own."""
    with ThreadPoolExecutor() as threads:
        modules = {"http": tritonclient.http, "grpc": tritonclient.grpc}
        for _ in threads.map(answer_slowly, modules, modules.values(), [tmp_path / name for name in modules]):
            pass


def answer_slowly(protocol: str, module: Any, place: Path) -> None:
    place.mkdir()
    write_model(place / "models", "zeros", ZEROS, config("SIZE INT64 1", "OUT UINT8 -1"))
    with ServeProcess(place / "models", place).serving() as server:
        address = getattr(server, protocol)
        request_zeros(module, address, 1)
        before = memory(server.pid)

        def is_returned() -> bool:
            pairs = zip(memory(server.pid), before, strict=True)
            return all(bytes_now - bytes_before < ANSWER // 4 for bytes_now, bytes_before in pairs)

        with SlowLink(address) as link, ThreadPoolExecutor() as thread:
            answer = thread.submit(request_zeros, module, link.address, ANSWER)
            eventually(lambda: not is_returned())  # it takes memory
            assert answer.result() == ANSWER
        eventually(is_returned, 4 * DEADLINE)


@pytest.mark.timeout(180)
def test_a_server_without_memory_for_a_message_refuses_it_and_goes_on(tmp_path: Path) -> None:
    """grpcio ends the process where it cannot copy a message."""
    write_model(tmp_path / "models", "zeros", ZEROS, config("SIZE INT64 1", "OUT UINT8 -1"))
    with ServeProcess(tmp_path / "models", tmp_path).serving() as server:
        assert request_zeros(tritonclient.grpc, server.grpc, 1) == request_zeros(tritonclient.http, server.http, 1) == 1
        process = psutil.Process(server.pid)
        # from here on it can map so much more: two answers, if the first is still there, but not one and its two copies
        limit = process.memory_info().vms + 850 * MB
        process.rlimit(psutil.RLIMIT_AS, (limit, limit))
        with pytest.raises(InferenceServerException, match="There is no memory for a response of 3145") as raised:
            request_zeros(tritonclient.grpc, server.grpc, 300 * MB)
        assert raised.value.status() == "StatusCode.UNAVAILABLE"
        assert request_zeros(tritonclient.http, server.http, 300 * MB) == 300 * MB  # needs no copy

        sent = tritonclient.http.InferInput("SIZE", [900 * MB // 8], "INT64")
        sent.set_data_from_numpy(np.zeros(900 * MB // 8, np.int64))
        refused = pytest.raises(InferenceServerException, match="There is no memory for a request of")
        with tritonclient.http.InferenceServerClient(server.http) as client, refused:
            client.infer("zeros", [sent])
        assert request_zeros(tritonclient.grpc, server.grpc, 1) == request_zeros(tritonclient.http, server.http, 1) == 1
