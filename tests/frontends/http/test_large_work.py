"""Large requests of one client, for which no other waits: the event loop is free while they are decoded, encoded or
compressed.
"""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

from tests.conformance.raw_http import JSON_SIZE, RawHTTP, Reply
from tests.models import IDENTITY
from tests.serving import SOON, Lab, config
from tritonlab.frontends.http import data_compressor, generate_endpoint, json_writer, large_json, large_work
from tritonlab.frontends.http.connection import HttpConnection
from tritonlab.frontends.http.http_app import HTTPOptions
from tritonlab.frontends.http.http_server import HTTPServer
from tritonlab.frontends.http.infer_decoder import InferDecoder
from tritonlab.frontends.http.infer_encoder import InferEncoder
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

COUNT = 50_000
BINARY = {"parameters": {"binary_data_output": True}}


@pytest.fixture(scope="module")
def http(lab: Lab) -> Iterator[RawHTTP]:
    lab.load("identity", IDENTITY, config("IN FP32 -1", "OUT FP32 -1"))
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions())
    yield RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    server.stop()


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[threading.Event]:
    """Hold calls of a function until the end of the block; yield an event that is set once one waits."""
    call: Callable[..., Any] = getattr(owner, name)
    begun, go_on = threading.Event(), threading.Event()

    def wait(*args: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return call(*args, **options)

    monkeypatch.setattr(owner, name, wait)
    try:
        yield begun
    finally:
        go_on.set()
        monkeypatch.setattr(owner, name, call)


def document(count: int, **more: Any) -> bytes:
    entry = {"name": "IN", "shape": [count], "datatype": "FP32", "data": [0.5] * count}
    return json.dumps({"inputs": [entry], **more}).encode()


def binary(count: int, **more: Any) -> tuple[bytes, dict[str, str]]:
    entry = {"name": "IN", "shape": [count], "datatype": "FP32", "parameters": {"binary_data_size": 4 * count}}
    text = json.dumps({"inputs": [entry], **more}).encode()
    return text + bytes(4 * count), {JSON_SIZE: str(len(text))}


INFER, GENERATE, STREAM = (f"/v2/models/identity/{name}" for name in ("infer", "generate", "generate_stream"))
PACKED = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("owner", "name", "path", "body", "headers"),
    [
        (InferDecoder, "decode", INFER, document(COUNT, **BINARY), {}),
        (InferDecoder, "decode", INFER, *binary(1 << 20, **BINARY)),
        (
            data_compressor,
            "decompress",
            INFER,
            gzip.compress(document(COUNT, id=os.urandom(999).hex(), **BINARY)),
            PACKED,
        ),
        (InferEncoder, "encode", INFER, *binary(COUNT)),
        (InferEncoder, "encode", INFER, document(COUNT), {}),
        (data_compressor, "compress", INFER, document(COUNT), {"Accept-Encoding": "gzip"}),
        (data_compressor, "compress", INFER, document(COUNT, **BINARY), {"Accept-Encoding": "deflate"}),
        (generate_endpoint, "decode_request", GENERATE, json.dumps({"IN": [0.5] * COUNT}).encode(), {}),
        (generate_endpoint, "decode_request", STREAM, json.dumps({"IN": [0.5] * COUNT}).encode(), {}),
    ],
    ids=["json", "copies", "packed", "binary to json", "json to json", "gzip", "deflate", "generate", "stream"],
)
def test_others_are_answered_meanwhile(
    http: RawHTTP,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    path: str,
    body: bytes,
    headers: dict[str, str],
) -> None:
    replies: list[Reply] = []
    client = threading.Thread(target=lambda: replies.append(http.request("POST", path, body, headers)), daemon=True)
    with held(monkeypatch, owner, name) as begun:
        client.start()
        assert begun.wait(SOON)
        assert http.get("/v2/health/live").status == 200
        assert http.get("/v2/models/identity").status == 200
        if owner not in (InferDecoder, InferEncoder):  # all of whose requests wait
            assert http.infer("identity", json.loads(document(3))).status == 200
    client.join(SOON)
    (reply,) = replies
    assert reply.status == 200, reply.body


def test_small_requests_stay_on_the_event_loop(http: RawHTTP, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    for owner, name in ((InferDecoder, "decode"), (InferEncoder, "encode")):
        call: Callable[..., Any] = getattr(owner, name)

        def noted(*args: Any, call: Callable[..., Any] = call, **options: Any) -> Any:
            threads.add(threading.current_thread().name)
            return call(*args, **options)

        monkeypatch.setattr(owner, name, noted)
    assert http.infer("identity", json.loads(document(100))).status == 200
    body, headers = binary(100_000, **BINARY)
    assert http.post(INFER, body, **headers).status == 200
    assert threads == {"tritonlab http"}


def test_health_answers_while_loads_have_all_threads(http: RawHTTP, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with held(monkeypatch, lab.server.core.control, "load") as begun:
        clients = [
            threading.Thread(target=http.post, args=("/v2/repository/models/identity/load",), daemon=True)
            for _ in range(70)
        ]
        for client in clients:
            client.start()
        assert begun.wait(SOON)
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/identity/ready"):
            assert http.get(path).status == 200
    for client in clients:
        client.join(60)
        assert not client.is_alive()


def test_large_answers_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for array in (np.arange(20_000, dtype=np.float32) / 3, np.arange(-9000, 9000), np.array([True, False] * 5000)):
        assert json_writer.numbers(array) == json_writer._numbers(array)
    sizes: list[int] = []
    whole = json_writer._numbers
    monkeypatch.setattr(json_writer, "_numbers", lambda flat: (sizes.append(flat.size), whole(flat))[1])
    json_writer.numbers(np.zeros((100, 1000)))
    assert sum(sizes) == 100_000 and max(sizes) <= 1 << 12


def test_a_document_is_not_read_on_when_its_client_goes(http: RawHTTP, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset connection; one that is only shut down still gets its answer."""
    pieces: list[int] = []
    whole = large_json.read
    begun, go_on = threading.Event(), threading.Event()

    def read(text: bytes) -> Any:
        pieces.append(len(text))
        if len(pieces) == 5:
            begun.set()
            assert go_on.wait(60)
        return whole(text)

    monkeypatch.setattr(large_json, "read", read)
    gone = threading.Event()
    lost = HttpConnection.connection_lost
    monkeypatch.setattr(HttpConnection, "connection_lost", lambda *args: (lost(*args), gone.set()))
    body = document(500_000)
    with closing(http.connect()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        head = f"POST {INFER} HTTP/1.1\r\nHost: {http.address}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        assert begun.wait(SOON)
    assert gone.wait(SOON)
    go_on.set()
    assert http.post(INFER, document(COUNT, **BINARY)).status == 200  # by when the other thread, too, is free
    monkeypatch.undo()
    assert len(pieces) < 20  # of 42 and the few of the second document


def test_a_call_has_the_context_of_its_caller() -> None:
    name = contextvars.ContextVar[str]("name")
    work = large_work.LargeWork()

    async def run() -> tuple[str, str]:
        name.set("caller")
        return await work.run(lambda: (name.get(), threading.current_thread().name))

    found, thread = asyncio.run(run())
    work.close()
    assert found == "caller" and thread.startswith("tritonlab http large")
