from __future__ import annotations

import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tritonlab.ipc.processes import execution_env
from tritonlab.ipc.processes.execution_env import ExecutionEnvironments
from tritonlab.ipc.processes.interpreter import InterpreterError


@pytest.fixture
def environments() -> Iterator[ExecutionEnvironments]:
    found = ExecutionEnvironments()
    yield found
    found.close()


def make_directory(path: Path, text: str = "") -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "activate").write_text(text)
    return path


def make_archive(path: Path, text: str = "") -> Path:
    scratch = make_directory(path.parent / f"{path.name}.scratch{text}", text)
    with tarfile.open(path, "w:gz") as tar:
        tar.add(scratch / "bin", "bin")
    return path


def fails(environments: ExecutionEnvironments, path: str, model: Path) -> str:
    with pytest.raises(InterpreterError) as caught:
        environments.find(path, model)
    return str(caught.value)


@rule("2.10.1")
def test_a_directory_is_used_where_it_is(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "env")
    assert environments.find(str(directory), tmp_path) == directory
    (tmp_path / "link").symlink_to(directory)
    assert environments.find(f"{tmp_path}/link/../env/.", tmp_path) == directory


@rule("2.10.1")
@pytest.mark.parametrize("path", ["$$TRITON_MODEL_DIRECTORY/env", "/proc/..$$TRITON_MODEL_DIRECTORY/env"])
def test_the_models_directory_may_stand_anywhere_in_the_path(
    environments: ExecutionEnvironments, tmp_path: Path, path: str
) -> None:
    directory = make_directory(tmp_path / "env")
    assert environments.find(path, tmp_path) == directory


@rule("2.10.3")
def test_a_missing_environment_is_named_as_configured(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    text = fails(environments, "$$TRITON_MODEL_DIRECTORY/no/../env", tmp_path)
    assert text == f"Failed to get the canonical path for {tmp_path}/no/../env."


@rule("2.10.3")
def test_an_environment_needs_an_activate_script(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    text = fails(environments, str(tmp_path / "env"), tmp_path)
    assert text == (
        f"Path {tmp_path}/env/bin/activate does not exist. The Python environment should contain an 'activate' script."
    )


@rule("2.10.2")
def test_an_archive_is_unpacked_once_and_again_when_it_changed(
    environments: ExecutionEnvironments, tmp_path: Path
) -> None:
    archive = make_archive(tmp_path / "env.tar.gz", "one")
    (tmp_path / "link.tar.gz").symlink_to(archive)
    first = environments.find(str(archive), tmp_path)
    assert (first / "bin" / "activate").read_text() == "one"
    assert first.parent.name.startswith("python_env_")
    assert environments.find("$$TRITON_MODEL_DIRECTORY/link.tar.gz", tmp_path) == first
    make_archive(archive, "two")
    os.utime(archive, ns=(0, 1))
    second = environments.find(str(archive), tmp_path)
    assert (second / "bin" / "activate").read_text() == "two"
    assert (first / "bin" / "activate").read_text() == "one"  # a version that still serves runs there


@rule("2.10.2")
def test_what_was_unpacked_goes_with_the_server(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    directory = environments.find(str(make_archive(tmp_path / "env.tar.gz")), tmp_path)
    environments.close()
    assert not directory.parent.exists()
    environments.close()


def test_models_that_share_an_archive_wait_for_one_extraction(
    environments: ExecutionEnvironments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(tmp_path / "env.tar.gz")
    started, go_on, calls = threading.Event(), threading.Event(), []
    extract = execution_env.extract

    def slow(archive: Path, directory: Path) -> None:
        calls.append(directory)
        started.set()
        assert go_on.wait(60)
        extract(archive, directory)

    monkeypatch.setattr(execution_env, "extract", slow)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(environments.find(str(archive), tmp_path))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert started.wait(60)
    assert found == []
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert (len(calls), len(found), len(set(found))) == (1, 4, 1)


def test_a_refused_archive_leaves_nothing_and_may_be_repaired(
    environments: ExecutionEnvironments, tmp_path: Path
) -> None:
    archive = tmp_path / "env.tar.gz"
    archive.write_bytes(b"no archive")
    for _ in range(2):  # Triton's second answer is another: it finds its own left-over directory
        assert fails(environments, str(archive), tmp_path) == "archive_read_open_filename() failed."
    make_archive(archive)
    directory = environments.find(str(archive), tmp_path)
    assert [p.name for p in directory.parent.iterdir()] == [directory.name]
