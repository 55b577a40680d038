from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import write_model
from tritonlab.core.config.model_config import ConfigError
from tritonlab.repository.layout import fingerprint, model_names, read_contents, version_numbers

SOURCE = "class TritonPythonModel:\n    pass\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return tmp_path


def test_a_fingerprint_tells_changes_of_content(repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE, "", helper_dot_py="x = 1")
    before = fingerprint(directory)
    assert sorted(before) == ["1/model.py", "config.pbtxt", "helper.py"]
    assert fingerprint(directory) == before
    (directory / "helper.py").write_text("x = 2")
    os.utime(directory / "helper.py", ns=(1, 1))
    changed = fingerprint(directory)
    assert changed != before
    (directory / "1" / "more.py").touch()
    assert fingerprint(directory) != changed


def test_byte_code_is_no_change(repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE)
    before = fingerprint(directory)
    (directory / "1" / "__pycache__").mkdir()
    (directory / "1" / "__pycache__" / "model.cpython-311.pyc").touch()
    assert fingerprint(directory) == before


def test_files_that_vanish_do_no_harm(repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE)
    (directory / "1" / "dangling").symlink_to(directory / "gone")
    assert sorted(fingerprint(directory)) == ["1/model.py"]
    assert fingerprint(directory / "gone") == {}


def test_links_that_lead_nowhere_count_in_the_model_directory_alone(repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE)
    (directory / "1" / "loop").symlink_to("loop")
    contents = read_contents(directory)
    assert (contents.versions, sorted(contents.first_files)) == ([1], ["loop", "model.py"])
    (directory / "2").symlink_to("2")
    with pytest.raises(ConfigError, match=f"failed to stat file {directory}/2"):
        read_contents(directory)


def test_one_look_finds_versions_files_and_fingerprint(repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE)
    for name in ("2", "10", "03", "0", "x", "configs"):
        (directory / name).mkdir()
    (directory / "4").touch()  # a file is not a version
    (directory / "0" / "model.py").touch()
    (directory / "0" / "assets").mkdir()
    contents = read_contents(directory)
    assert contents.versions == version_numbers(directory) == [0, 1, 2, 10]
    assert sorted(contents.first_files) == ["assets/", "model.py"]
    assert contents.fingerprint == fingerprint(directory)


def test_a_linked_version_is_one_though_its_files_are_not_compared(repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE)
    os.rename(directory / "1", repository / "elsewhere")
    (directory / "1").symlink_to(repository / "elsewhere")
    contents = read_contents(directory)
    assert contents.versions == [1]
    assert contents.first_files == ["model.py"]
    assert "1/model.py" not in contents.fingerprint


def test_a_directory_that_is_gone_cannot_be_read(repository: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_contents(repository / "gone")


def test_a_directory_is_a_models_if_it_has_a_config_or_a_version(repository: Path) -> None:
    for path in ("config/config.pbtxt", "version/7/model.py", "neither/07/model.py", "file/1"):
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).touch()
    assert model_names(repository) == ["config", "version"]


def test_a_deep_directory_does_not_stop_those_who_look(repository: Path) -> None:
    where = os.open(repository, os.O_RDONLY)
    try:
        for _ in range(sys.getrecursionlimit() + 100):
            os.mkdir("d", dir_fd=where)
            below = os.open("d", os.O_RDONLY, dir_fd=where)
            os.close(where)
            where = below
    finally:
        os.close(where)
    assert fingerprint(repository) == {}
    subprocess.run(["rm", "-r", str(repository / "d")], check=True)  # pytest cannot
