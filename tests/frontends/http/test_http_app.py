"""The trace of an HTTP request, with Triton's names in Triton's order (rule 5.14.4; measured on 2.51)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frontends.traced import CONFIG, TRACED, moments, untraced
from tests.serving import Lab
from tritonlab.core.observe.trace_settings import TraceSetting
from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

__all__ = ["untraced"]


@pytest.fixture(scope="module")
def url(lab: Lab) -> Iterator[str]:
    lab.load("http_traced", TRACED, CONFIG)
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions())
    port = server.start("127.0.0.1", 0)
    yield f"http://127.0.0.1:{port}/v2/models/http_traced/infer"
    server.stop()
    lab.server.unload("http_traced")


def infer(url: str, datatype: str = "INT32", **headers: str) -> str:
    sent = {"inputs": [{"name": "IN", "datatype": datatype, "shape": [1], "data": [1]}]}
    request = urllib.request.Request(url, json.dumps(sent).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return str(json.loads(reply.read())["outputs"][0]["data"][0])


def test_moments_of_http(lab: Lab, url: str, tmp_path: Path) -> None:
    lab.server.trace_settings.start(TraceSetting(("TIMESTAMPS",), 1, log_frequency=1, file=str(tmp_path / "t")))
    with pytest.raises(urllib.error.HTTPError):
        infer(url, "FP32")
    assert infer(url) == "None"
    found = moments(tmp_path / "t.0")
    assert [moment["name"] for moment in found] == [
        "HTTP_RECV_START",
        "HTTP_RECV_END",
        "REQUEST_START",
        "QUEUE_START",
        "COMPUTE_START",
        "COMPUTE_INPUT_END",
        "COMPUTE_OUTPUT_START",
        "COMPUTE_END",
        "REQUEST_END",
        "INFER_RESPONSE_COMPLETE",
        "HTTP_SEND_START",
        "HTTP_SEND_END",
    ]
    times = [moment["ns"] for moment in found]
    assert times[:5] == sorted(times[:5])
    assert times[-4:] == sorted(times[-4:])


def test_a_clients_own_trace_goes_on_whatever_the_rate(lab: Lab, url: str) -> None:
    lab.server.trace_settings.start(TraceSetting(("TIMESTAMPS",), 1000, mode="opentelemetry"))
    assert infer(url) == "None"
    sent = f"00-{'a' * 32}-{'b' * 16}-01"
    context = json.loads(infer(url, traceparent=sent))
    assert context["traceparent"].startswith(f"00-{'a' * 32}-")
    assert context["traceparent"] != sent
