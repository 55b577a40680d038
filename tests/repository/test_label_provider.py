from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import from_json
from tritonlab.core.status import InternalError, UnsupportedError
from tritonlab.repository.layout import read_labels


def config(label_filename: str) -> object:
    outputs = [{"name": "A", "label_filename": label_filename}, {"name": "B"}]
    return from_json({"name": "m", "output": outputs})


@rule("6.6.2")
def test_a_label_stands_on_the_line_of_its_index(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes(b"cat\r\ndog\n\xff\n")
    assert read_labels(config("labels.txt"), tmp_path) == {"A": ("cat\r", "dog", "\udcff", "")}


@rule("6.6.2")
def test_a_missing_file_fails_the_load(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as raised:
        read_labels(config("no.txt"), tmp_path)
    assert raised.value.message == f"failed to open text file for read {tmp_path}/no.txt: No such file or directory"


@rule("5.3.4")
@pytest.mark.parametrize("name", ["../labels.txt", "/etc/passwd", "inner/../../labels.txt", "link"])
def test_a_file_outside_the_model_directory_is_not_read(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "m"
    (directory / "inner").mkdir(parents=True)
    (tmp_path / "labels.txt").write_text("secret")
    (directory / "link").symlink_to(tmp_path / "labels.txt")
    with pytest.raises(UnsupportedError) as raised:
        read_labels(config(name), directory)
    assert raised.value.message == f"label file path '{name}' for output 'A' in model 'm' is outside model directory"


def test_labels_of_the_base_directory_are_inside(tmp_path: Path) -> None:
    base, directory = tmp_path / "base", tmp_path / "written" / "m"
    base.mkdir()
    directory.mkdir(parents=True)
    (base / "labels.txt").write_text("cat")
    (directory / "labels.txt").symlink_to(base / "labels.txt")
    assert read_labels(config("labels.txt"), directory, base) == {"A": ("cat",)}
    (tmp_path / "key").write_text("secret")
    (base / "more.txt").symlink_to(tmp_path / "key")
    (directory / "more.txt").symlink_to(base / "more.txt")
    for other in (base, None):
        with pytest.raises(UnsupportedError, match="is outside model directory"):
            read_labels(config("more.txt"), directory, other)
