"""`tritonlab serve` from outside: its process, its ports, its exit status."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
import tempfile
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

from tests.conformance.rules import rule
from tests.damaged import CORPUS, GOOD
from tests.damaged import write as write_damaged
from tests.interpreters import pack_environment
from tests.models import initializes
from tests.serve_process import ServeProcess, failures
from tests.serving import alive, config, eventually, write_model
from tritonlab.frontends.shared.listener import listen

#: Prints at each step, and answers what its environment holds.
TELLER = """
import os, sys, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        print("printed by the model", flush=True)
        print("warned by the model", file=sys.stderr, flush=True)
        pb_utils.Logger.log_info("logged by the model")

    def execute(self, requests):
        answers = []
        for request in requests:
            seconds = pb_utils.get_input_tensor_by_name(request, "SECONDS").as_numpy().item()
            print("began", flush=True)
            time.sleep(seconds)
            text = os.environ.get("TELL", "")
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array([text], dtype=object))]))
        return answers

    def finalize(self):
        print("finalized", flush=True)
"""
TELLER_CONFIG = config("SECONDS FP32 1", "TEXT STRING 1")
BROKEN = initializes("raise RuntimeError('no weights')")
SLOW_TO_LOAD = "import time\n" + initializes("print('loading', flush=True)\ntime.sleep(60)")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("models")
    write_model(found, "teller", TELLER, TELLER_CONFIG)
    return found


@pytest.fixture(scope="module")
def served(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Run a server in explicit mode that has the model loaded; no test changes it."""
    arguments = ("--model-control-mode=explicit", "--load-model=teller", "--allow-client-shm=true")
    scratch = tmp_path_factory.mktemp("served")
    with ServeProcess(repository, scratch, *arguments, environment={"TELL": "passed through"}) as process:
        yield process.serving()


def tell(seconds: float = 0) -> dict[str, Any]:
    return {"inputs": [{"name": "SECONDS", "datatype": "FP32", "shape": [1], "data": [seconds]}]}


@pytest.mark.parametrize("protocol", [tritonclient.http, tritonclient.grpc])
def test_tritonclient_drives_it(served: ServeProcess, protocol: Any) -> None:
    place = served.http if protocol is tritonclient.http else served.grpc
    with protocol.InferenceServerClient(place) as client:
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("teller")
        seconds = protocol.InferInput("SECONDS", [1], "FP32")
        seconds.set_data_from_numpy(np.zeros(1, np.float32))
        assert client.infer("teller", [seconds]).as_numpy("TEXT").tolist() == [b"passed through"]


def test_the_metrics_port(served: ServeProcess) -> None:

    with urllib.request.urlopen(f"http://{served.metrics}/metrics", timeout=10) as answer:
        assert 'nv_inference_request_success{model="teller",version="1"}' in answer.read().decode()


def test_it_listens_on_loopback(served: ServeProcess) -> None:
    assert {place.rpartition(":")[0] for place in (served.http, served.grpc, served.metrics)} == {"127.0.0.1"}


def test_model_processes_are_its_children(served: ServeProcess) -> None:
    stubs = served.stubs()
    assert stubs and {process.ppid() for process in stubs} == {served.pid}


def test_what_models_print_and_log_is_in_its_log(served: ServeProcess) -> None:
    assert "printed by the model\n" in served.stdout
    assert "\nwarned by the model\n" in served.stderr
    assert 'model.py:11] "logged by the model"' in served.stderr


def test_the_tables_of_the_start(served: ServeProcess) -> None:
    assert "| Model  | Version | Status |\n" in served.stderr
    assert "| teller | 1       | READY  |\n" in served.stderr
    assert "| model_control_mode " in served.stderr and "| MODE_EXPLICIT " in served.stderr


# -- who may ask for what


@rule("6.15.9")
def test_it_says_what_is_open_to_whom(served: ServeProcess) -> None:
    printed = served.stderr
    for service in ("HTTP", "GRPC", "Metrics"):
        assert re.search(rf'{service} at 127.0.0.1:\d+ is open to every user of this machine"', printed)
    assert "Model control: everyone who reaches GRPC or HTTP may load any model, which is to run any code" in printed
    assert "--allow-model-control=false" in printed and "--token-file" in printed
    assert "Trace and log settings: clients may change them" in printed
    assert "Shared memory: clients may" in printed


@rule("6.15.9")
def test_a_token_from_a_file(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "token").chmod(0o600)
    with ServeProcess(repository, tmp_path, f"--token-file={tmp_path / 'token'}").serving() as process:
        assert process.call("/v2")[0] == 401
        assert process.call("/v2", headers={"Authorization": "Bearer s3cret"})[0] == 200
        assert "is open to every user of this machine, with the token" in process.stderr
        assert "Model control" not in process.stderr  # in this mode nobody loads anything
        assert "s3cret" not in process.stderr + process.stdout


# -- nobody in from outside


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null", "Content-Type": "text/plain"},
        {"Host": "evil.example:8000"},
    ],
)
def test_a_web_page_cannot_load_a_model(served: ServeProcess, headers: dict[str, str]) -> None:
    status, text = served.call("/v2/repository/models/teller/load", b"{}", headers)
    assert (status, "are refused" in text) == (403, True)


def test_a_web_page_cannot_read_the_metrics(served: ServeProcess) -> None:

    request = urllib.request.Request(f"http://{served.metrics}/metrics", headers={"Origin": "https://evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403") as refusal:
        urllib.request.urlopen(request, timeout=10)
    refusal.value.close()


@rule("5.11.4")
@pytest.mark.parametrize("name", ["..", "%2e%2e%2fteller", "..%2F..%2Fetc", "teller%2F..%2Fteller", "a%5Cb"])
def test_a_model_name_cannot_leave_the_repository(served: ServeProcess, name: str) -> None:
    status, text = served.call(f"/v2/repository/models/{name}/load", b"{}")
    assert status in (400, 404, 500), text
    assert "poll from model repository" in text or "path traversal" in text or text == "Not Found"


@pytest.mark.parametrize("path", ["../outside.py", "/tmp/outside.py", "1/../../outside.py", "./../outside.py"])
def test_an_override_cannot_leave_its_directory(served: ServeProcess, path: str) -> None:
    parameters = {"config": '{"backend":"python"}', f"file:{path}": base64.b64encode(b"out").decode()}
    status, answer = served.post("/v2/repository/models/fresh/load", {"parameters": parameters})
    inside = path.startswith("/tmp")  # of the model's directory, where it is not a version
    assert (status, "poll from model repository" in answer["error"]) == ((400, False) if inside else (500, True))
    assert not Path("/tmp/outside.py").exists() and not Path(tempfile.gettempdir(), "outside.py").exists()


@pytest.mark.parametrize("key", ["/../etc/passwd", "../../etc/passwd", "/etc/passwd", "/..", "", "/"])
def test_a_shared_memory_key_is_no_path(served: ServeProcess, key: str) -> None:
    register = {"key": key, "offset": 0, "byte_size": 8}
    status, answer = served.post("/v2/systemsharedmemory/region/tricky/register", register)
    assert (status, answer["error"]) == (500, f"Unable to open shared memory region: '{key}'")
    assert served.call("/v2/systemsharedmemory/status") == (200, "[]")


# -- the end


def test_sigterm_lets_requests_end_and_leaves_with_0(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path).serving() as process:
        answers: list[tuple[int, Any]] = []
        caller = threading.Thread(target=lambda: answers.append(process.post("/v2/models/teller/infer", tell(1))))
        caller.start()
        eventually(lambda: "began" in process.stdout)
        assert process.end(signal.SIGTERM) == 0
        caller.join()
        assert answers[0][0] == 200
        assert "Signal (15) received.\n" in process.stdout and "finalized\n" in process.stdout


def test_sigint_ends_it_too_and_its_time_can_run_out(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path, "--exit-timeout-secs=1").serving() as process:
        client = tritonclient.grpc.InferenceServerClient(process.grpc)
        seconds = tritonclient.grpc.InferInput("SECONDS", [1], "FP32")
        seconds.set_data_from_numpy(np.array([60], np.float32))
        failed = threading.Event()
        client.async_infer("teller", [seconds], lambda result, error: failed.set() if error else None)
        eventually(lambda: "began" in process.stdout)
        assert process.end(signal.SIGINT) == 1
        assert "failed to stop server: Internal - Exit timeout expired. Exiting immediately." in process.stderr
        assert failed.wait(60)
        client.close()


def test_a_signal_while_it_loads(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write_model(repository, "slow", SLOW_TO_LOAD, TELLER_CONFIG)
    with ServeProcess(repository, tmp_path) as process:
        eventually(lambda: "loading\n" in process.stdout, 30)
        assert process.end(signal.SIGTERM) == -signal.SIGTERM
        assert "Started" not in process.stderr and "Traceback" not in process.stderr


def test_killed_it_leaves_no_model_process(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path).serving() as process:
        assert process.stubs()
        assert process.end(signal.SIGKILL) == -signal.SIGKILL


def test_what_a_killed_server_unpacked_goes_with_the_next_start(repository: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    archive = pack_environment(Path(sys.prefix), tmp_path / "env.tar")
    packed = {"backend": "python", "parameters": {"EXECUTION_ENV_PATH": {"string_value": str(archive)}}}
    files = {"file:1/model.py": base64.b64encode(TELLER.encode()).decode()}

    def serving() -> ServeProcess:
        explicit, environment = "--model-control-mode=explicit", {"TMPDIR": str(temporary)}
        return ServeProcess(repository, tmp_path, explicit, environment=environment).serving()

    def load(process: ServeProcess, parameters: dict[str, Any]) -> None:
        body = {"parameters": {"config": json.dumps(parameters), **files}}
        assert process.post("/v2/repository/models/given/load", body)[0] == 200, process.stderr

    with serving() as process:
        load(process, packed)
        left = [path.name[:6] for path in temporary.glob("tritonlab-*/*")]
        assert sorted(left) == [".owner", "model-", "python"]
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    with serving() as process:
        eventually(lambda: list(temporary.glob("tritonlab-*")) == [])
        load(process, {"backend": "python"})
        assert len(list(temporary.glob("tritonlab-*/model-*"))) == 1
        assert process.end(signal.SIGTERM) == 0
    assert list(temporary.iterdir()) == []


def test_two_servers_at_once(served: ServeProcess, repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path, "--id=second").serving() as second:
        assert '"name":"second"' in second.call("/v2")[1] and '"name":"triton"' in served.call("/v2")[1]
        assert second.post("/v2/models/teller/infer", tell())[0] == 200
        assert second.end(signal.SIGTERM) == 0
    assert served.post("/v2/models/teller/infer", tell())[0] == 200


# -- the start


@rule("5.11.9")
def test_a_model_that_cannot_be_loaded_ends_it(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write_model(repository, "broken", BROKEN, TELLER_CONFIG)
    write_model(repository, "teller", TELLER, TELLER_CONFIG)
    with ServeProcess(repository, tmp_path) as process:
        assert process.ended() == 1
        assert "| UNAVAILABLE: Internal: RuntimeError: no weights" in process.stderr
        assert "| teller | 1       | READY" in process.stderr
        assert process.stderr.endswith("error: creating server: Internal - failed to load all models\n")
        assert "Started" not in process.stderr


@rule("5.11.9")
def test_or_does_not_if_the_option_says_so(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write_model(repository, "broken", BROKEN, TELLER_CONFIG)
    write_model(repository, "teller", TELLER, TELLER_CONFIG)
    with ServeProcess(repository, tmp_path, "--exit-on-error=false").serving() as process:
        assert process.call("/v2/health/ready") == (400, "")
        assert process.post("/v2/models/teller/infer", tell())[0] == 200


def test_a_port_in_use_ends_it_before_anything_is_loaded(repository: Path) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        others = ["--grpc-port=0", "--metrics-port=0"]
        status, text = failures([f"--model-repository={repository}", f"--http-port={port}", *others])
    assert status == 1
    assert f"Socket '127.0.0.1:{port}' already in use by process {os.getpid()} (" in text
    assert "--http-port" in text and "loading: teller" not in text


@rule("5.11.1")
def test_it_polls(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    repository.mkdir()
    arguments = ("--model-control-mode=poll", "--repository-poll-secs=1", "--allow-grpc=false")
    with ServeProcess(repository, tmp_path, *arguments).serving() as process:
        assert "Started GRPCInferenceService" not in process.stderr
        write_model(repository, "teller", TELLER, TELLER_CONFIG)
        eventually(lambda: process.call("/v2/models/teller/ready")[0] == 200, 30)
        status, answer = process.post("/v2/repository/models/teller/load", {})
        assert (status, answer["error"]) == (
            503,
            "explicit model load / unload is not allowed if polling is enabled",
        )
        assert alive(process.pid)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_damaged(tmp_path_factory.mktemp("damaged"))


def test_damaged_models_fail_alone(damaged: Path, tmp_path: Path) -> None:
    with ServeProcess(damaged, tmp_path, "--exit-on-error=false") as process:
        process.serving()
        document = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}]}
        assert process.post(f"/v2/models/{GOOD}/infer", document)[0] == 200
        assert [row["name"] for row in process.post("/v2/repository/index", {"ready": True})[1]] == [GOOD]
        log = process.stderr
        assert not [name for name in CORPUS if f"'{name}'" not in log]
        assert process.end(signal.SIGTERM) == 0


def test_damaged_models_end_a_server_that_ends_on_errors(damaged: Path) -> None:
    status, text = failures([f"--model-repository={damaged}", "--http-port=0", "--grpc-port=0", "--metrics-port=0"])
    assert status == 1
    assert text.endswith("error: creating server: Internal - failed to load all models\n")
