"""`%triton serve`: the notebook's server, used by clients that know nothing of notebooks."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

import tritonlab
from tests.models import IDENTITY
from tests.notebook.conftest import IDENTITY_OPTIONS, Notebook
from tritonlab.core.unknown_option import UnknownOption
from tritonlab.frontends.endpoints import Endpoints
from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.shared.listener import listen
from tritonlab.notebook.authoring.workspace import Workspace

ANY_PORTS = "--http-port 0 --grpc-port=0 --metrics-port=0"


@pytest.fixture
def served(notebook: Notebook, workspace: Workspace) -> Iterator[Endpoints]:
    notebook.run(f"%%triton_model m {IDENTITY_OPTIONS} --quiet\n{IDENTITY}")
    result = notebook.run(f"%triton serve {ANY_PORTS}")
    assert result.success, result.text
    yield result.result
    workspace.ports.close()


def infer(protocol: Any, served: Endpoints) -> list[float]:
    with protocol.InferenceServerClient(served.http if protocol is tritonclient.http else served.grpc) as client:
        tensor = protocol.InferInput("IN", [1, 2], "FP32")
        tensor.set_data_from_numpy(np.array([[1, 2]], np.float32))
        result = client.infer("m", [tensor], headers=served.headers)
        found: list[float] = result.as_numpy("OUT").reshape(-1).tolist()
        return found


def fetch(place: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://{place}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_shows_where_clients_find_it(served: Endpoints) -> None:
    assert repr(served).splitlines() == [
        f"HTTP     http://{served.places['HTTP']}",
        f"gRPC     {served.places['GRPC']}",
        f"metrics  http://{served.places['Metrics']}/metrics",
        "token    needed: `.headers` has it",
    ]


def token_of(endpoints: Endpoints) -> str:
    return endpoints.headers["authorization"].removeprefix("Bearer ")


def test_how_the_token_is_sent_is_visible_and_the_token_is_not(notebook: Notebook, workspace: Workspace) -> None:
    result = notebook.run(f"endpoints = %triton serve {ANY_PORTS}").text
    endpoints = notebook["endpoints"]
    assert f"open('{endpoints.header_file}')" in result and f"curl -H @{endpoints.header_file} http" in result
    assert f'tritonclient.http.InferenceServerClient("{endpoints.http}")' in result
    assert f'tritonclient.grpc.InferenceServerClient("{endpoints.grpc}")' in result
    assert "--no-token" in result and "--allow-model-control=true" in result
    cells = ("%triton serve", "%triton status", "endpoints", "%triton logs", "endpoints.headers", "%whos")
    later = [notebook.run(cell).text for cell in cells]
    assert not [text for text in (result, *later) if token_of(endpoints) in text]
    assert token_of(endpoints) not in notebook.run("%triton status").result.html()
    again = notebook.run(f"%triton serve {ANY_PORTS} --allow-grpc=false").result
    assert token_of(again) != token_of(endpoints)


#: What an attacker on the same machine sends.
EVIL = {
    "parameters": {
        "config": '{"backend": "python"}',
        "file:1/model.py": base64.b64encode(b"import os; os.mkdir(os.environ['OWNED'])").decode(),
    }
}


@pytest.mark.parametrize("line", ["", "--no-token"])
def test_another_user_of_the_machine_runs_no_code(
    notebook: Notebook, workspace: Workspace, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNED", str(tmp_path / "owned"))
    served = notebook.run(f"%triton serve {ANY_PORTS} {line}").result
    status, text = fetch(served.http, "/v2/repository/models/evil/load", json.dumps(EVIL).encode())
    assert (status, "--allow-model-control=true" in text) == ((501, True) if line else (401, False))
    assert not (tmp_path / "owned").exists()
    assert "evil" not in {entry["name"] for entry in workspace.server.index()}
    # to the owner's own clients it is off as well, until it is requested
    assert fetch(served.http, "/v2/repository/models/evil/load", b"{}", **served.headers)[0] == 501
    served = notebook.run(f"%triton serve {ANY_PORTS} {line} --allow-model-control=true").result
    assert fetch(served.http, "/v2/repository/models/m/load", b"{}", **served.headers)[0] != 501


def test_a_notebook_may_serve_without_a_token(notebook: Notebook, workspace: Workspace) -> None:
    result = notebook.run(f"%triton serve {ANY_PORTS} --no-token")
    assert "Bearer" not in result.text and result.text.rstrip().endswith("token    none")
    assert result.result.headers == {}
    assert fetch(result.result.http, "/v2")[0] == fetch(result.result.metrics, "/metrics")[0] == 200


@pytest.mark.parametrize(
    ("arguments", "options", "cancels"),
    [
        ([], {}, True),
        (["--http-cancel-on-disconnect=false"], {}, False),
        ([], {"http_cancel_on_disconnect": False}, False),
    ],
)
def test_an_http_client_that_leaves_cancels_its_request_unless_that_is_off(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace, arguments: list[str], options: dict[str, Any], cancels: bool
) -> None:
    opened: list[HTTPOptions] = []

    def noted(*arguments: Any) -> HTTPServer:
        opened.append(arguments[2])
        return HTTPServer(*arguments)

    monkeypatch.setattr("tritonlab.frontends.endpoints.HTTPServer", noted)
    workspace.ports.open(arguments, http_port=0, grpc=False, metrics=False, token="", **options)
    workspace.ports.close()
    assert [each.cancel_on_disconnect for each in opened] == [cancels]


def test_a_token_of_one_s_own_is_not_printed(capsys: pytest.CaptureFixture[str], workspace: Workspace) -> None:
    rules = {"token": "mine", "model_control": True, "settings": True}
    served = workspace.ports.open(http_port=0, grpc=False, metrics=False, **rules)
    assert served.headers == {"authorization": "Bearer mine"}
    assert capsys.readouterr().out == ""
    assert fetch(served.http, "/v2/logging", **served.headers)[0] == 200
    with pytest.raises(TypeError, match="tokn"):
        workspace.ports.open(http_port=0, tokn="mine")


def test_a_token_is_in_one_file_that_nobody_else_can_read(notebook: Notebook, workspace: Workspace) -> None:
    scratch = workspace.repository.parent
    before = {path for path in scratch.rglob("*") if path.is_file()}
    served = notebook.run(f"%triton serve {ANY_PORTS}").result
    file = Path(served.header_file)
    assert file.read_text() == f"authorization: {served.headers['authorization']}\n"
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    token = token_of(served)
    written = {path for path in scratch.rglob("*") if path.is_file()} - before - {file}
    assert not [path for path in written if token.encode() in path.read_bytes()]
    assert token not in "".join(os.environ.values())
    notebook.run("%triton stop")
    assert not file.parent.exists()
    assert notebook.run(f"%triton serve {ANY_PORTS} --no-token").result.header_file == ""


def test_any_client_asks_the_cell_s_model(served: Endpoints) -> None:
    assert infer(tritonclient.http, served) == [1, 2]
    assert infer(tritonclient.grpc, served) == [1, 2]
    assert 'nv_inference_count{model="m",version="1"} 2' in fetch(served.metrics, "/metrics", **served.headers)[1]


def test_a_cell_that_runs_again_changes_what_clients_get(served: Endpoints, notebook: Notebook) -> None:
    notebook.run(f"%%triton_model m --quiet {IDENTITY_OPTIONS}\n{IDENTITY.replace('as_numpy()', 'as_numpy() * 2')}")
    assert infer(tritonclient.http, served) == [2, 4]


def test_the_status_shows_it_while_it_is_open(served: Endpoints, notebook: Notebook) -> None:
    assert f"gRPC     {served.places['GRPC']}" in notebook.run("%triton status").text
    assert served.grpc in notebook.run("%triton status").result.html()
    notebook.run("%triton stop")
    assert "gRPC" not in notebook.run("%triton status").text


def test_stop_closes_the_ports_and_keeps_the_models(served: Endpoints, notebook: Notebook) -> None:
    place = served.http
    notebook.run("%triton stop")
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"http://{place}/v2/health/live", timeout=10)
    assert repr(served) == "no endpoints"
    assert notebook["m"].ready()
    assert notebook.run("%triton stop").success


def test_once_open_it_stays_until_other_ports_are_requested(served: Endpoints, notebook: Notebook) -> None:
    assert notebook.run("%triton serve").result is served
    again = notebook.run(f"%triton serve {ANY_PORTS} --allow-grpc=false").result
    assert list(again.places) == ["HTTP", "Metrics"]
    assert served.places == {}


def test_a_busy_cell_does_not_stop_it(served: Endpoints) -> None:
    """The cell holds the interpreter lock in Python code, and gives it away a few times per second only."""
    over = threading.Event()

    def cell() -> None:
        number = 0
        while not over.is_set():
            number += 1

    busy = threading.Thread(target=cell)
    busy.start()
    try:
        assert infer(tritonclient.http, served) == [1, 2]
        assert infer(tritonclient.grpc, served) == [1, 2]
    finally:
        over.set()
        busy.join()


def test_a_flag_that_does_not_exist_is_one_text(notebook: Notebook) -> None:
    text = notebook.run("%triton serve --htp-port=1").text
    assert "unrecognized option '--htp-port=1'; did you mean '--http-port'?" in text
    assert "frontends/endpoints.py" not in text


def test_a_wrong_flag_closes_no_ports(served: Endpoints, notebook: Notebook, workspace: Workspace) -> None:
    assert not notebook.run("%triton serve --htp-port=1").success
    with pytest.raises(UnknownOption, match="did you mean 'http_port'"):
        workspace.ports.open(http_prot=1)
    assert workspace.ports.endpoints is served
    assert fetch(served.http, "/v2/health/live")[0] == 200


def test_a_port_in_use_says_what_to_do(notebook: Notebook, workspace: Workspace) -> None:
    with listen("127.0.0.1", 0) as taken:
        text = notebook.run(f"%triton serve --http-port={taken.getsockname()[1]} --grpc-port=0 --metrics-port=0").text
    assert "already in use by process" in text and "--http-port" in text
    assert "frontends/endpoints.py" not in text
    assert workspace.ports.endpoints is None


def test_closing_the_workspace_closes_the_ports(served: Endpoints, workspace: Workspace) -> None:
    workspace.close()
    assert served.places == {}


def test_a_server_of_one_s_own_can_be_served(server: tritonlab.Server) -> None:
    with (
        tritonlab.serve(server, http_port=0, grpc=False, metrics=False) as endpoints,
        tritonclient.http.InferenceServerClient(endpoints.http) as client,
    ):
        assert client.is_server_live(headers=endpoints.headers)  # ready or not: other tests fail loads in it
        with pytest.raises(InferenceServerException, match="a token is required"):
            client.get_server_metadata()


SCRIPT = """
import http.client
import tritonlab

tritonlab.load("m", SOURCE, inputs=["IN:FP32[-1]"], outputs=["OUT:FP32[-1]"])
endpoints = tritonlab.serve(http_port=0, grpc_port=0, metrics_port=0, token="")
connection = http.client.HTTPConnection(endpoints.http)  # stays open
connection.request("GET", "/v2/models/m/ready")
print(connection.getresponse().status)
"""


def test_the_end_of_the_process_closes_the_ports(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"SOURCE = {IDENTITY!r}\n{SCRIPT}")
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "200\n", "")


def test_it_is_a_function_too() -> None:
    endpoints = tritonlab.serve(http_port=0, grpc=False, metrics=False)
    try:
        with tritonclient.http.InferenceServerClient(endpoints.http) as client:
            assert client.is_server_ready(headers=endpoints.headers)
    finally:
        tritonlab.reset()
    assert repr(endpoints) == "no endpoints"
