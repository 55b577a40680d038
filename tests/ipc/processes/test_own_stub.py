from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tritonlab.ipc.processes.interpreter import Interpreter, InterpreterError
from tritonlab.ipc.processes.own_stub import NAME, find_own_stub, is_compiled, write_own_stub


def test_most_models_have_none(tmp_path: Path) -> None:
    assert find_own_stub(tmp_path, "m") is None


@rule("2.10.6")
def test_it_is_made_executable_for_its_owner_and_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text("#!/bin/sh\n")
    path.chmod(0o640)
    assert find_own_stub(tmp_path, "m") == str(path)
    assert path.stat().st_mode & 0o777 == 0o740  # Triton leaves 0100


@rule("2.10.6")
def test_what_cannot_be_made_executable_says_so_in_tritons_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / NAME
    path.write_text("#!/bin/sh\n")
    path.chmod(0o600)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(InterpreterError) as caught:
        find_own_stub(tmp_path, "m")
    assert str(caught.value) == f"Failed to give execute permission to {NAME} in {path} m Error No.: 1"


def test_one_compiled_for_triton_is_explained_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\x7fELF\x02\x01\x01")
    assert is_compiled(tmp_path / NAME)
    with pytest.raises(InterpreterError, match="compiled and speaks only with NVIDIA's server") as caught:
        find_own_stub(tmp_path, "m")
    assert f"tritonlab stub --force --python <the same Python> {tmp_path}" in str(caught.value)


def test_the_written_one_is_an_interpreter(tmp_path: Path) -> None:
    path = write_own_stub(tmp_path, sys.executable)
    assert find_own_stub(tmp_path, "m") == str(path)
    Interpreter(str(path)).check()


def test_the_path_of_the_python_may_have_any_characters(tmp_path: Path) -> None:
    odd = tmp_path / "it's $HOME; python"
    odd.symlink_to(os.path.realpath(sys.executable))
    path = write_own_stub(tmp_path, str(odd))
    done = subprocess.run([path, "-c", "import sys; print(sys.argv)", "a b", "$c"], capture_output=True, text=True)
    assert done.stdout.strip() == "['-c', 'a b', '$c']"


def test_started_by_triton_it_says_what_it_is(tmp_path: Path) -> None:
    path = write_own_stub(tmp_path, sys.executable)
    done = subprocess.run([path, "/repository/m/1/model.py", "shm_1"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "starts tritonlab's stub. For a Triton server put a stub here" in done.stderr


def test_it_replaces_its_own_but_nothing_else(tmp_path: Path) -> None:
    write_own_stub(tmp_path, "/usr/bin/python3.9")
    assert "python3.10" in write_own_stub(tmp_path, "/usr/bin/python3.10").read_text()
    (tmp_path / NAME).write_bytes(b"\x7fELF\x02\x01\x01")
    with pytest.raises(FileExistsError, match="was not written by tritonlab"):
        write_own_stub(tmp_path, "/usr/bin/python3.9")
    assert is_compiled(tmp_path / NAME)
    write_own_stub(tmp_path, "/usr/bin/python3.9", force=True)
    assert not is_compiled(tmp_path / NAME)


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    (tmp_path / NAME).symlink_to(elsewhere)
    write_own_stub(tmp_path, "/usr/bin/python3.9", force=True)
    assert elsewhere.read_text() == "precious"
