from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tests.interpreters import VERSIONS, bare_environment, environment, interpreters
from tritonlab.ipc.processes.interpreter import Interpreter, InterpreterError, of_environment


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@rule("2.10.4")
def test_an_environment_changes_these_variables_and_no_others() -> None:
    base = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/lib", "PYTHONHOME": "/p", "PYTHONPATH": "/q", "HOME": "/root"}
    assert Interpreter("/env/bin/python", "/env").variables(base) == {
        "PATH": "/env/bin:/usr/bin",
        "LD_LIBRARY_PATH": "/env/lib:/usr/lib",
        "VIRTUAL_ENV": "/env",
        "VIRTUAL_ENV_PROMPT": "(/env)",
        "PYTHONPATH": "/q",
        "HOME": "/root",
        "ORT_DISABLE_TELEMETRY": "1",
    }


def test_an_environment_ends_no_list_with_a_colon() -> None:
    found = Interpreter("/env/bin/python", "/env").variables({})
    assert (found["PATH"], found["LD_LIBRARY_PATH"]) == ("/env/bin", "/env/lib")


def test_without_an_environment_the_variables_stay() -> None:
    base = {"PATH": "/usr/bin", "PYTHONHOME": "/p", "ORT_DISABLE_TELEMETRY": "0"}
    assert Interpreter("/usr/bin/python3").variables(base) == base


def test_the_interpreter_of_an_environment_is_its_python_or_its_python3(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "python3", "")
    assert of_environment(tmp_path) == Interpreter(f"{tmp_path}/bin/python3", str(tmp_path))
    script(tmp_path / "bin" / "python", "")
    assert of_environment(tmp_path) == Interpreter(f"{tmp_path}/bin/python", str(tmp_path))


def test_an_environment_without_an_interpreter_says_so(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match=r"bin/python does not exist\. tritonlab starts the environment's own"):
        of_environment(tmp_path)


def test_a_link_to_a_python_that_is_not_here_names_that_python(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3.9").symlink_to("/opt/gone/bin/python3.9")
    (tmp_path / "bin" / "python").symlink_to("python3.9")
    with pytest.raises(InterpreterError) as caught:
        of_environment(tmp_path)
    assert f"'{tmp_path}/bin/python' is a link to '/opt/gone/bin/python3.9', which does not exist" in str(caught.value)


def test_links_in_a_circle_are_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("python3")
    (tmp_path / "bin" / "python3").symlink_to("python")
    with pytest.raises(InterpreterError, match="does not exist on this machine"):
        of_environment(tmp_path)


def test_the_kernels_own_interpreter_passes() -> None:
    Interpreter(sys.executable).check()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_interpreter_with_numpy_passes(version: str) -> None:
    of_environment(environment(version)).check()


def test_an_interpreter_without_numpy_says_how_to_install_it() -> None:
    interpreter = of_environment(bare_environment("3.11"))
    with pytest.raises(InterpreterError) as caught:
        interpreter.check()
    first, _, rest = str(caught.value).partition("\n")
    assert first == "ModuleNotFoundError: No module named 'numpy'"  # what Triton's client reads
    assert f"{interpreter.executable} -m pip install numpy" in rest


def test_an_old_python_is_refused() -> None:
    old = interpreters().get("3.7") or interpreters().get("3.6")
    if old is None:
        pytest.skip("no Python before 3.8: name one in TRITONLAB_TEST_PYTHONS")
    with pytest.raises(InterpreterError, match=r"is Python 3\.[67]\.\d+; tritonlab's stub needs 3\.8 or newer"):
        Interpreter(old).check()


def test_the_error_of_what_is_no_python_has_its_output(tmp_path: Path) -> None:
    path = script(tmp_path / "python", "echo 'libpython3.11.so.1.0: cannot open' >&2; exit 127")
    with pytest.raises(
        InterpreterError, match=r"is not a Python that runs here: libpython3\.11\.so\.1\.0: cannot open"
    ):
        Interpreter(path).check()


def test_what_cannot_be_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="cannot be run: No such file or directory"):
        Interpreter(str(tmp_path / "python")).check()
    (tmp_path / "python").write_text("")
    with pytest.raises(InterpreterError, match="cannot be run: Permission denied"):
        Interpreter(str(tmp_path / "python")).check()


def test_a_numpy_of_another_python_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('compiled for Python 2.7')")
    interpreter = Interpreter(script(tmp_path / "python", f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"'))
    with pytest.raises(InterpreterError, match=r"^ImportError: compiled for Python 2\.7\n"):
        interpreter.check()
    assert "PYTHONPATH" not in os.environ or str(tmp_path) not in os.environ["PYTHONPATH"]
