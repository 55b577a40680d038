from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

import tritonlab
from tests.conformance.rules import rule
from tests.interpreters import bare_environment, environment
from tests.test_layering import PACKAGE
from tritonlab.__main__ import main
from tritonlab.ipc.processes.own_stub import NAME


@rule("2.10.6")
def test_stub_writes_an_executable_for_the_chosen_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = environment("3.9") / "bin" / "python"
    assert main(["stub", "--python", str(python), str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / NAME}\n"
    assert os.access(tmp_path / NAME, os.X_OK)
    assert str(python) in (tmp_path / NAME).read_text()  # the link, not what it leads to: numpy is in its environment


def test_stub_finds_a_python_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{environment('3.9') / 'bin'}:{os.environ['PATH']}")
    assert main(["stub", "--python", "python3.9", str(tmp_path)]) == 0
    assert str(environment("3.9") / "bin" / "python3.9") in (tmp_path / NAME).read_text()


def test_stub_writes_nothing_for_a_python_that_cannot_do_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = bare_environment("3.11") / "bin" / "python"
    assert main(["stub", "--python", str(python), str(tmp_path)]) == 1
    assert "pip install numpy" in capsys.readouterr().err
    assert main(["stub", "--python", "/nowhere/python", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("tritonlab: '/nowhere/python' cannot be run")
    assert list(tmp_path.iterdir()) == []


def test_stub_keeps_what_somebody_else_put_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / NAME).write_bytes(b"\x7fELF")
    assert main(["stub", "--python", sys.executable, str(tmp_path)]) == 1
    assert "--force replaces it" in capsys.readouterr().err
    assert main(["stub", "--force", "--python", sys.executable, str(tmp_path)]) == 0


def test_stub_wants_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stub", "--python", sys.executable, str(tmp_path / "gone")]) == 1
    assert capsys.readouterr().err == f"tritonlab: {tmp_path / 'gone'} is not a directory\n"


def test_without_a_command_it_says_which_there_are() -> None:
    done = subprocess.run([sys.executable, "-m", "tritonlab"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "usage: tritonlab" in done.stderr


def test_its_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"tritonlab {metadata.version('tritonlab')}\n")


@pytest.fixture
def uninstalled(tmp_path: Path) -> Callable[[str], str]:
    """Return what runs a command line and returns its output: of a copy of the package that is on Python's path, next
    to what it needs, but not installed.
    """
    needed = tmp_path / "site-packages"
    needed.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "tritonlab" not in entry.name:
            (needed / entry.name).symlink_to(entry)
    shutil.copytree(PACKAGE, tmp_path / "checkout" / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'checkout'}:{needed}"}

    def run(words: str) -> str:
        command = [sys.executable, "-S", "-m", "tritonlab", *words.split()]  # -S: without what is installed
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    return run


def test_it_runs_where_it_is_on_the_path_and_not_installed(uninstalled: Callable[[str], str], tmp_path: Path) -> None:
    """As in the environments of `make engines`."""
    assert uninstalled("--version") == f"tritonlab {tritonlab.__version__}\n"
    assert uninstalled("--help").startswith("usage: tritonlab ") and "triton" in uninstalled("serve --help")
    assert "tritonlab is on Python's path, but not installed" in uninstalled("doctor")


def test_releases_prints_the_table_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["releases", "--sources"]) == 0
    text = capsys.readouterr().out
    assert "2.51    24.10      0.5.13-0.7.0" in text and "facts-2: measured" in text
    assert main(["releases", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified_until"] == "2.51"


def test_a_server_starts_without_what_verifies() -> None:
    """It imports grpcio, whose switches `serve` sets first: gRPC was a tenth slower."""
    code = "import sys, tritonlab.__main__; print('tritonlab.tools.deploy.verify.verification' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_a_worker_without_dynamo_says_what_to_install(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["worker", "--dynamo", f"--model-repository={tmp_path}"]) == 1
    assert "pip install ai-dynamo==1.6.1" in capsys.readouterr().err
