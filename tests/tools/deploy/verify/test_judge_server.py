from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tritonlab.tools.deploy.verify.judge_server import JudgeServer


class Handler(BaseHTTPRequestHandler):
    """A server that answers with the path of each request, as an error unless the path is a question about health."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.endswith(("live", "ready")) else 400)
        self.end_headers()

    def do_POST(self) -> None:
        self.send_response(400)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        judge: Any = JudgeServer.__new__(JudgeServer)
        judge.http = f"127.0.0.1:{listening.server_port}"
        yield judge
        listening.shutdown()


@pytest.mark.parametrize("name", ["plain", "with space", "a#b?c", "ü/x"])
def test_any_name_of_a_model_is_sent(server: JudgeServer, name: str) -> None:
    quoted = {"plain": "plain", "with space": "with%20space", "a#b?c": "a%23b%3Fc", "ü/x": "%C3%BC%2Fx"}[name]
    assert server.load(name, 5.0) == f"/v2/repository/models/{quoted}/load"
    assert server.is_ready(name)
