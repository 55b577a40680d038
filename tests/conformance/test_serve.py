"""The same command lines to both servers: what they say, and how they end."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.frontends.test_command_line import REFUSED
from tests.serve_process import ServeProcess
from tests.serving import write_model
from tritonlab.frontends.serve import serve

from . import reference
from .models import ADD_SUB, ADD_SUB_CONFIG
from .rules import rule

BROKEN = "class TritonPythonModel:\n    def initialize(self, args):\n        raise RuntimeError('no weights')\n"


@pytest.fixture(scope="module", autouse=True)
def judge() -> None:
    if (why := reference.missing()) is not None:
        pytest.skip(why)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    found = tmp_path / "models"
    write_model(found, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    return found


def real_arguments() -> list[str]:
    """Its ports, and where its Python backend is."""
    names = ("http-port", "grpc-port", "metrics-port")
    ports = [f"--{name}={port}" for name, port in zip(names, reference.free_ports(3), strict=True)]
    return [*ports, f"--backend-directory={reference.backend_directory()}"]


@pytest.mark.parametrize("argument", REFUSED)
def test_a_value_that_cannot_be_read(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, told = reference.run([argument])
    assert serve([argument]) == status == 1
    assert told.rstrip().endswith(REFUSED[argument].rstrip())
    assert REFUSED[argument] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--htp-port=1"], "unrecognized option '--htp-port=1'"),
        (["--http-port"], "option '--http-port' requires an argument"),
        (["--disable-auto-complete-config=1"], "option '--disable-auto-complete-config' doesn't allow an argument"),
        (["--log-info=1", "x"], "Unexpected argument: x"),
        (["--load-model=m"], "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."),
    ],
)
def test_a_line_that_cannot_be_read(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, told = reference.run(arguments)
    assert serve(arguments) == status == 1
    assert text in told and text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Invalid argument - --model-repository must be specified"),
        (["--model-repository=/nowhere"], "Internal - failed to stat file /nowhere"),
        ([f"--model-store={__file__}"], "Invalid argument - repository path is not a valid directory"),
    ],
)
def test_a_repository_that_is_none(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, told = reference.run([*real_arguments(), *arguments])
    assert serve(arguments) == status == 1
    assert told.endswith(f"error: creating server: {text}\n")
    assert capsys.readouterr().err.endswith(f"error: creating server: {text}\n")


@rule("5.11.1")
def test_all_models_are_not_named_beside_others(repository: Path, tmp_path: Path) -> None:
    arguments = ("--model-control-mode=explicit", "--load-model=*", "--load-model=add_sub")
    text = "error: creating server: Invalid argument - Wildcard model name '*' must be the ONLY startup model if "
    status, _, told = reference.run([*real_arguments(), f"--model-repository={repository}", *arguments])
    with ServeProcess(repository, tmp_path, *arguments) as ours:
        assert ours.ended() == status == 1
        assert text in told and text in ours.stderr


@rule("5.11.9")
def test_a_start_up_model_that_fails(repository: Path, tmp_path: Path) -> None:
    write_model(repository, "broken", BROKEN, ADD_SUB_CONFIG)
    status, _, told = reference.run([*real_arguments(), f"--model-repository={repository}"])
    with ServeProcess(repository, tmp_path) as ours:
        assert ours.ended() == status == 1
        for text in (told, ours.stderr):
            assert text.endswith("error: creating server: Internal - failed to load all models\n")
        assert model_table(ours.stderr) == model_table(told)


@rule("5.11.1")
def test_a_start_up_model_that_is_not_there(repository: Path, tmp_path: Path) -> None:
    arguments = ("--model-control-mode=explicit", "--load-model=gone")
    status, _, told = reference.run([*real_arguments(), f"--model-repository={repository}", *arguments])
    with ServeProcess(repository, tmp_path, *arguments) as ours:
        assert ours.ended() == status == 1
        for text in (told, ours.stderr):
            assert text.endswith("error: creating server: Internal - failed to load all models\n")
        assert model_table(ours.stderr) == model_table(told)


def test_sigterm_ends_a_server_that_serves(repository: Path, tmp_path: Path) -> None:
    arguments = [f"--model-repository={repository}", "--exit-on-error=false"]
    write_model(repository, "broken", BROKEN, ADD_SUB_CONFIG)
    status, printed, told = reference.run([*real_arguments(), *arguments], signal_after="Started Metrics Service")
    with ServeProcess(repository, tmp_path, "--exit-on-error=false").serving() as ours:
        assert ours.end(signal.SIGTERM) == status == 0
        assert ours.stdout == printed == "Signal (15) received.\n"
        assert model_table(ours.stderr) == model_table(told)
        assert started(ours.stderr) == started(told)


def test_sigterm_while_it_loads(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    source = BROKEN.replace("raise RuntimeError('no weights')", "import time; time.sleep(60)")
    write_model(repository, "slow", source, ADD_SUB_CONFIG)
    arguments = [*real_arguments(), f"--model-repository={repository}"]
    status, _, _ = reference.run(arguments, signal_after="loading: slow:1")
    with ServeProcess(repository, tmp_path) as ours:
        ours.told("loading: slow:1")
        assert ours.end(signal.SIGTERM) == status == -signal.SIGTERM


def model_table(log: str) -> list[str]:
    """The lines of the table of models."""
    lines = log.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("| Model "))
    last = next(n for n, line in enumerate(lines[first:], first) if not line.startswith(("|", "+")))
    return lines[first:last]


def started(log: str) -> list[str]:
    """Which services it says it has started, in that order."""
    return re.findall(r'"Started (.*) at ', log)
