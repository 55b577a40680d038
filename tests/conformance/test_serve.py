"""The same command lines to `tritonserver` and to `tritonlab serve`: what they print, and how they end."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.frontends.cli.test_command_line import REFUSED
from tests.serving import write_model
from tritonlab.frontends.cli.serve import serve
from tritonlab.frontends.shared.listener import listen

from . import reference
from .models import ADD_SUB, ADD_SUB_CONFIG
from .rules import rule

BROKEN = "class TritonPythonModel:\n    def initialize(self, args):\n        raise RuntimeError('no weights')\n"
PORTS = ("--http-port", "--grpc-port", "--metrics-port")
END_SECONDS = 60


class Ended(NamedTuple):
    """The exit status and the output of a server that has ended."""

    status: int
    stdout: str
    stderr: str


class Side:
    """One of the two programs."""

    def __init__(self, program: str) -> None:
        self._real = program == "real"

    def refuse(self, *arguments: str) -> Ended:
        """Run a command line that starts no server."""
        if self._real:
            return self._run(reference.server_command(*arguments))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = serve(arguments)
        return Ended(status, out.getvalue(), err.getvalue())

    def run(self, repository: Path, *arguments: str, term: str = "") -> Ended:
        """Run a server on `repository` until it ends; by SIGTERM, once its stderr has `term`."""
        options = [f"--model-repository={repository}", *arguments]
        if self._real:
            ports = [f"{name}={port}" for name, port in zip(PORTS, reference.free_ports(3), strict=True)]
            backends = f"--backend-directory={reference.backend_directory()}"
            return self._run(reference.server_command(*ports, backends, *options), term)
        ports = [f"{name}=0" for name in PORTS]
        return self._run([sys.executable, "-m", "tritonlab", "serve", *ports, *options], term)

    def _run(self, command: list[str], term: str = "") -> Ended:
        process = subprocess.Popen(
            command,
            cwd=reference.ROOT,
            env=reference.environment() if self._real else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        printed = ""
        try:
            while term and term not in printed:
                line = process.stderr.readline()
                assert line, printed
                printed += line
            if term:
                process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=END_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        return Ended(process.returncode, out, printed + err)


@pytest.fixture(params=["real", "lab"])
def program(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    if found == "real" and (why := reference.missing()) is not None:
        pytest.skip(why)
    return found


@pytest.fixture
def server(program: str) -> Side:
    return Side(program)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write_model(tmp_path, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    return tmp_path


@rule("6.15.2", "6.15.6")
@pytest.mark.parametrize("argument", REFUSED)
def test_a_value_that_cannot_be_read(server: Side, argument: str) -> None:
    ended = server.refuse(argument)
    assert ended.status == 1
    assert REFUSED[argument] in ended.stderr


@rule("6.15.1")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--htp-port=1"], "unrecognized option '--htp-port=1'"),
        (["--http-port"], "option '--http-port' requires an argument"),
        (["--disable-auto-complete-config=1"], "option '--disable-auto-complete-config' doesn't allow an argument"),
        (["--repository"], "option '--repository-poll-secs' requires an argument"),
        (["--http=1"], "option '--http=1' is ambiguous; possibilities: "),
        (["--log-info=1", "x"], "Unexpected argument: x"),
    ],
)
def test_a_line_that_cannot_be_read(server: Side, arguments: list[str], text: str) -> None:
    ended = server.refuse(*arguments)
    assert (ended.status, text in ended.stderr) == (1, True), ended.stderr


@rule("6.15.4", "5.11.1")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--load-model=m"], "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."),
        ([], "error: creating server: Invalid argument - --model-repository must be specified"),
        (["--model-repository=/nowhere"], "error: creating server: Internal - failed to stat file /nowhere"),
        (
            [f"--model-store={__file__}"],
            "error: creating server: Invalid argument - repository path is not a valid directory",
        ),
    ],
)
def test_a_start_that_is_refused(server: Side, arguments: list[str], text: str) -> None:
    ended = server.refuse(*arguments)
    assert (ended.status, text in ended.stderr) == (1, True), ended.stderr


@rule("6.15.4")
@pytest.mark.parametrize(
    ("flags", "services"),
    [
        (["--http-port={}", "--grpc-port={}"], "HTTP requests and GRPC requests"),
        (["--http-port={}", "--metrics-port={}"], "HTTP requests and metrics requests"),
        (["--grpc-port={}", "--metrics-port={}"], "GRPC requests and metrics requests"),
    ],
)
def test_two_services_at_one_port(server: Side, repository: Path, flags: list[str], services: str) -> None:
    (port,) = reference.free_ports(1)
    ended = server.refuse(f"--model-repository={repository}", *(flag.format(port) for flag in flags))
    assert ended.status == 1
    assert f"The server cannot listen to {services} at the same address and port " in ended.stderr
    assert f":{port}\n" in ended.stderr and '"loading' not in ended.stderr


@rule("6.15.3", "5.11.10")
def test_a_repository_that_is_named_twice(server: Side, repository: Path) -> None:
    ended = server.run(repository, f"--model-repository={repository}", term="Started Metrics Service")
    assert ended.status == 0
    assert rows(ended.stderr) == ["| add_sub | 1       | READY  |"]


@rule("6.15.4", "5.11.1")
def test_all_models_are_not_named_beside_others(server: Side, repository: Path) -> None:
    ended = server.run(repository, "--model-control-mode=explicit", "--load-model=*", "--load-model=add_sub")
    text = "Wildcard model name '*' must be the ONLY startup model if specified at all.\n"
    assert ended.status == 1
    assert ended.stderr.endswith(f"error: creating server: Invalid argument - {text}")


@rule("6.15.4", "5.11.9")
def test_a_start_up_model_that_fails(server: Side, repository: Path) -> None:
    write_model(repository, "broken", BROKEN, ADD_SUB_CONFIG)
    ended = server.run(repository)
    assert ended.status == 1
    assert ended.stderr.endswith("error: creating server: Internal - failed to load all models\n")
    assert rows(ended.stderr) == failed_rows(repository)
    assert started(ended.stderr) == []


@rule("6.15.4", "5.11.6")
def test_a_model_without_a_version(server: Side, repository: Path) -> None:
    """As an ensemble is whose empty `1/` git did not keep; another file in it does no harm."""
    step = 'model_name: "add_sub" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } '
    step += 'input_map { key: "INPUT1" value: "INPUT1" } output_map { key: "OUTPUT0" value: "OUTPUT0" }'
    output = 'output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]'
    inputs = next(line for line in ADD_SUB_CONFIG.splitlines() if line.startswith("input"))
    ensemble = f'platform: "ensemble"\n{inputs}\n{output}\nensemble_scheduling {{ step [ {{ {step} }} ] }}\n'
    for name in ("kept", "lost"):
        (repository / name).mkdir()
        (repository / name / "config.pbtxt").write_text(ensemble)
    (repository / "kept" / "1").mkdir()
    (repository / "kept" / "1" / ".gitkeep").touch()
    ended = server.run(repository, "--exit-on-error=false", term="Started Metrics Service")
    assert rows(ended.stderr) == [
        "| add_sub | 1       | READY                                  |",
        "| kept    | 1       | READY                                  |",
        "| lost    | -       | Not loaded: No model version was found |",
    ]
    why = "at least one version must be available under the version policy of model 'lost'"
    assert f"failed to load model 'lost': {why}" in ended.stderr


@rule("6.15.3", "6.15.4", "5.11.1")
def test_a_start_up_model_that_is_not_there(server: Side, repository: Path) -> None:
    ended = server.run(repository, "--model-control-mode=EXPLICIT", "--load-model=gone")
    assert ended.status == 1
    assert ended.stderr.endswith("error: creating server: Internal - failed to load all models\n")
    assert rows(ended.stderr) == []


@rule("6.15.3", "6.15.5")
def test_sigterm_ends_a_server_that_serves(server: Side, repository: Path) -> None:
    write_model(repository, "broken", BROKEN, ADD_SUB_CONFIG)
    ended = server.run(repository, "--exit-on-error=false", term="Started Metrics Service")
    assert (ended.status, ended.stdout) == (0, "Signal (15) received.\n")
    assert rows(ended.stderr) == failed_rows(repository)
    assert started(ended.stderr) == ["GRPCInferenceService", "HTTPService", "Metrics Service"]


@rule("6.15.8", "6.15.4")
@pytest.mark.parametrize(("kind", "service"), [("http", "HTTP"), ("grpc", "GRPC")])
@pytest.mark.parametrize(("other", "flag", "served"), [(True, True, True), (True, False, False), (False, True, False)])
def test_a_port_is_shared_if_both_servers_say_so(
    server: Side, tmp_path: Path, kind: str, service: str, other: bool, flag: bool, served: bool
) -> None:
    with listen("127.0.0.1", 0, shared=other) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        more = [f"--{kind}-address=127.0.0.1", f"--{kind}-port={taken.getsockname()[1]}"]
        more += [f"--reuse-{kind}-port=true"] * flag
        ended = server.run(tmp_path, "--model-control-mode=explicit", *more, term="Started Metrics" if served else "")
    assert ended.status == (0 if served else 1), ended.stderr
    refused = f"failed to start {service} service: Unavailable - Socket '{place}' already in use"
    assert (refused in ended.stderr) is not served


@rule("6.15.5")
def test_sigterm_while_it_loads(server: Side, tmp_path: Path) -> None:
    source = BROKEN.replace("raise RuntimeError('no weights')", "import time; time.sleep(60)")
    write_model(tmp_path, "slow", source, ADD_SUB_CONFIG)
    ended = server.run(tmp_path, term="loading: slow:1")
    assert ended.status == -signal.SIGTERM
    assert started(ended.stderr) == []


def failed_rows(repository: Path) -> list[str]:
    """Return the table of a model that serves and one that does not."""
    place = f"  {repository}/broken/1/model.py(3): initialize"
    cells = ["UNAVAILABLE: Internal: RuntimeError: no weights", "", "At:", place]
    width = max(len(cell) for cell in cells)
    lines = [f"| add_sub | 1       | {'READY':{width}} |"]
    names = ["| broken  | 1       |", *["|         |         |"] * 3]
    return [*lines, *(f"{name} {cell:{width}} |" for name, cell in zip(names, cells, strict=True))]


def rows(log: str) -> list[str]:
    """Return the lines of the table of models, without its head and rules."""
    lines = log.splitlines()
    first = next(n for n, line in enumerate(lines) if re.match(r"\| Model +\| Version \| Status +\|", line))
    last = next(n for n, line in enumerate(lines[first:], first) if not line.startswith(("|", "+")))
    return [line for line in lines[first + 1 : last] if line.startswith("|")]


def started(log: str) -> list[str]:
    """Return the services that it reports as started, in that order."""
    return re.findall(r'"Started (.*) at ', log)
