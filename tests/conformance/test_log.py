"""Lines of the log (rules 1.13, 5.14.3): what a model logs, as each server writes it, under the same settings."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.server.observe.log_writer import LogWriter

from .clients import Client
from .lab_client import LabClient
from .models import CPU, config, model
from .observed import log_settings, serving
from .raw_http import RawHTTP, read_reply
from .real_client import RealClient
from .rules import rule
from .scripts import eventually

LOGS = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        log = pb_utils.Logger
        log.log_info('say "hi"\\n\\ttwice, ü \\\\')
        log.log_warn("careful")
        log.log_error("wrong")
        log.log_verbose("details")
        log.log("done", log.WARNING)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("IN", r.inputs()[0].as_numpy())]) for r in requests]
"""

MODELS = {"logs": model(LOGS, config("IN INT32 1", "IN INT32 1", CPU))}

#: What the model logs: letter, line, text.
INFO = 'I model.py:8] "say \\"hi\\"\\n\\ttwice, ü \\\\"'
WARNINGS = ['W model.py:9] "careful"', 'W model.py:12] "done"']
ERROR = 'E model.py:10] "wrong"'
VERBOSE = 'I model.py:11] "details"'


@pytest.fixture(scope="module", params=["real", "lab"])
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def written(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Callable[[], str]]]:
    """Return a server, and what reads everything that it has written so far."""
    with serving(program, tmp_path_factory.mktemp("log"), MODELS, []) as client:
        if isinstance(client, LabClient):
            stderr = io.StringIO()
            client.server.instruments.add(LogWriter(client.server.log_settings, io.StringIO(), stderr))
            yield client, stderr.getvalue
        else:
            yield client, client.log


_DEFAULT = re.compile(r"([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ (model\.py:.*)")
_BEGIN = re.compile(r"(?=[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ )")
_ISO8601 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ([IWE]) \d+ (model\.py:.*)")


@rule("1.13.1", "1.13.2", "1.13.3", "5.14.3")
@pytest.mark.parametrize(
    ("settings", "shape", "expected"),
    [
        ({}, _DEFAULT, [INFO, WARNINGS[0], ERROR, WARNINGS[1]]),
        ({"log_format": "ISO8601"}, _ISO8601, [INFO, WARNINGS[0], ERROR, WARNINGS[1]]),
        ({"log_verbose_level": 1}, _DEFAULT, [INFO, WARNINGS[0], ERROR, VERBOSE, WARNINGS[1]]),
        ({"log_info": False}, _DEFAULT, [*WARNINGS[:1], ERROR, *WARNINGS[1:]]),
        ({"log_info": False, "log_verbose_level": 1}, _DEFAULT, [WARNINGS[0], ERROR, VERBOSE, WARNINGS[1]]),
        ({"log_warning": False}, _DEFAULT, [INFO, ERROR]),
        ({"log_error": False}, _DEFAULT, [INFO, *WARNINGS]),
    ],
)
def test_what_a_model_logs(
    written: tuple[Client, Callable[[], str]], settings: dict[str, Any], shape: re.Pattern[str], expected: list[str]
) -> None:
    client, log = written
    start = {"log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0, "log_format": "default"}
    log_settings(client, {**start, **settings})
    before = len(log())
    assert client.infer("logs", {"IN": np.array([1], np.int32)}).error == ""

    def lines() -> list[str]:
        whole = log()[before:].rpartition("\n")[0]  # the last line may be half written
        # Triton writes a line and its end apart, and another thread's line comes between
        whole = _BEGIN.sub("\n", whole)
        return [line for line in whole.splitlines() if "model.py:" in line and "] " in line]

    eventually(lambda: len(lines()) >= len(expected))
    found = [shape.fullmatch(line) for line in lines()]
    assert [f"{each[1]} {each[2]}" for each in found if each is not None] == expected
    assert None not in found


def test_each_http_request_is_a_line_of_the_verbose_log(written: tuple[Client, Callable[[], str]]) -> None:
    """Rule 5.14.3. The second of two requests with the same head is answered without being parsed on our side."""
    client, log = written
    if isinstance(client, RealClient):
        assert_lines(client, RawHTTP("real", client.server.http), log)
        return
    assert isinstance(client, LabClient)
    frontend = HTTPServer(client.server.core, SharedMemoryManager(), HTTPOptions())
    assert_lines(client, RawHTTP("lab", f"127.0.0.1:{frontend.start('127.0.0.1', 0)}"), log)
    frontend.stop()


def assert_lines(client: Client, http: RawHTTP, log: Callable[[], str]) -> None:
    body = b'{"inputs":[{"name":"IN","shape":[1],"datatype":"INT32","data":[1]}]}'
    head = f"POST /v2/models/logs/infer HTTP/1.1\r\nHost: {http.address}\r\nContent-Length: {len(body)}\r\n\r\n"
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:

        def infer() -> None:
            connection.sendall(head.encode() + body)
            assert read_reply(stream).status == 200

        infer()
        before = len(log())
        log_settings(client, {"log_verbose_level": 1})
        infer()
        infer()
        http.request("GET", "/v2/models/logs?a=1#b")
        http.request("PUT", "/v2/logs")
        http.request("DELETE", "/logs/")
        http.request("OPTIONS", "/v2/models/logs/ready")
        http.request("PATCH", "/v2/models/logs%20/ready")
        log_settings(client, {"log_verbose_level": 0})
        infer()

    def lines() -> list[str]:
        return [line for line in re.findall(r'"(HTTP \w+: .*)"', log()[before:]) if "logs" in line]

    expected = [
        *["HTTP request: 2 /v2/models/logs/infer"] * 2,
        "HTTP request: 0 /v2/models/logs",
        "HTTP request: 3 /v2/logs",
        "HTTP error: 3 /v2/logs - 404",
        "HTTP request: 4 /logs/",
        "HTTP error: 4 /logs/ - 404",
        "HTTP request: 8 /v2/models/logs/ready",
        "HTTP request: 15 /v2/models/logs%20/ready",
    ]
    eventually(lambda: len(lines()) >= len(expected))
    assert lines() == expected
