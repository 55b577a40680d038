"""The time that `/v2/health/live` takes while other clients give the HTTP endpoint much work."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing

import numpy as np

COUNT = 5_000_000
#: Seconds between two questions.
PAUSE = 0.005
_LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def large_document(count: int = COUNT) -> bytes:
    """Return an infer request of `count` numbers for the identity model, answered as JSON, too."""
    numbers = b"[" + b",".join([b"%d.%d" % (number % 100, number % 10) for number in range(count)]) + b"]"
    return b'{"inputs":[{"name":"IN","shape":[%d],"datatype":"FP32","data":%b}]}' % (count, numbers)


def post(address: str, path: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send the request over a connection of its own, and return how many bytes its answer has."""
    with closing(http.client.HTTPConnection(address, timeout=300)) as connection:
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        size = 0
        while piece := answer.read(1 << 20):  # not kept: this process shares the machine with the server
            size += len(piece)
        assert answer.status == 200, piece
        return size


def live_times(address: str, work: Callable[[], object]) -> list[float]:
    """Return the seconds that each request for liveness took while `work()` ran in a thread."""
    found: list[float] = []
    over = threading.Event()

    def run() -> None:
        try:
            work()
        finally:
            over.set()

    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=run)
        thread.start()
        while not over.is_set():
            started = time.perf_counter()
            connection.sendall(_LIVE)
            answer = connection.recv(4096)
            found.append(time.perf_counter() - started)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            time.sleep(PAUSE)
        thread.join()
    return found


def p99(times: list[float]) -> float:
    return float(np.quantile(times, 0.99))


def works(address: str) -> dict[str, Callable[[], object]]:
    """Return what keeps a server busy."""
    path = "/v2/models/identity/infer"
    plain = large_document()
    packed = gzip.compress(plain, 1)
    count = 16_000_000
    head = json.dumps(
        {
            "inputs": [
                {"name": "IN", "shape": [count], "datatype": "FP32", "parameters": {"binary_data_size": 4 * count}}
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    binary = head + np.random.default_rng(0).random(count, np.float32).tobytes()
    size = {"Inference-Header-Content-Length": str(len(head))}
    return {
        "5 million numbers as JSON": lambda: post(address, path, plain, {}),
        "the same compressed": lambda: post(
            address, path, packed, {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
        ),
        "64 MB binary": lambda: [post(address, path, binary, size) for _ in range(5)],
        "64 MB answered compressed": lambda: post(address, path, binary, {**size, "Accept-Encoding": "gzip"}),
        "generate with 5 million": lambda: post(
            address, "/v2/models/identity/generate", b'{"IN":' + plain[plain.index(b'"data":') + 7 : -3] + b"}", {}
        ),
    }
