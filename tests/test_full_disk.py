"""Files that are written to a disk without space: the error names the file, and nothing that is half-written stays."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.record.events import RecorderHooks, make_request
from tritonlab.backends.elsewhere.tritonlab_recordings import Recordings
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.whole_file import whole_file, write_file
from tritonlab.exchanges.exchange import Exchange
from tritonlab.exchanges.exchange_file import write_exchange
from tritonlab.exchanges.snippets import Snippet
from tritonlab.notebook.authoring.imported_notebook import import_repository
from tritonlab.record.recording import Recording


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a directory whose file system has 4 kB left, and one directory in it."""
    directory = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)]
    if os.getuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root can mount a file system")
    try:
        (directory / "m").mkdir()
        (directory / "fill").write_bytes(bytes(60 << 10))
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.fixture(scope="module")
def recording() -> Recording:
    hooks = RecorderHooks(events=2000)
    noise = np.random.default_rng(1).integers(0, 1 << 40, 2000)
    for serial in range(2000):
        at = int(noise[serial])
        hooks.execute(make_request(serial, at=at), start=at + 1, end=at + 2)
    return hooks.recording


NOISE = np.random.default_rng(1).random(20_000).astype(np.float32)
LARGE = Exchange(InferenceRequest("m", {"X": Tensor.from_numpy(NOISE)}), name="case")
LONG = Exchange(InferenceRequest("m", {f"X{n}": Tensor.from_numpy(NOISE[:60]) for n in range(20)}), name="case")


def import_into(disk: Path, tmp_path: Path) -> object:
    (tmp_path / "models" / "m" / "1").mkdir(parents=True)
    (tmp_path / "models" / "m" / "1" / "model.py").write_text("# " + "x" * 9000 + "\n")
    return import_repository(tmp_path / "models", disk / "it.ipynb")


WRITERS: dict[str, Callable[[Path, Path, Recording], Any]] = {
    "recording": lambda disk, tmp_path, recording: recording.save(disk / "it.npz"),
    "trace of a recording": lambda disk, tmp_path, recording: recording.perfetto(disk / "it.json"),
    "golden arrays": lambda disk, tmp_path, recording: write_exchange(LARGE, disk),
    "golden case": lambda disk, tmp_path, recording: write_exchange(LONG, disk),
    "program": lambda disk, tmp_path, recording: Snippet("it.py", "x" * 9000, {}).save(disk),
    "notebook": lambda disk, tmp_path, recording: import_into(disk, tmp_path),
    "recorded answers": lambda disk, tmp_path, recording: Recordings(str(disk), "m").write("k", [], [], x="x" * 9000),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_half_written_stays(disk: Path, tmp_path: Path, recording: Recording, writer: str) -> None:
    before = sorted(disk.rglob("*"))
    with pytest.raises(OSError, match="No space left on device") as raised:
        WRITERS[writer](disk, tmp_path, recording)
    assert sorted(disk.rglob("*")) == before
    assert str(disk) in str(raised.value)


def test_an_earlier_file_stays(disk: Path) -> None:
    (disk / "it").write_text("before")
    (disk / "it").chmod(0o640)
    with pytest.raises(OSError, match=f"No space left on device: '{disk}/it'"):
        write_file(disk / "it", "x" * 9000)
    assert (disk / "it").read_text() == "before" and len(list(disk.iterdir())) == 3
    os.truncate(disk / "fill", 48 << 10)
    write_file(disk / "it", "after")
    assert (disk / "it").read_text() == "after" and (disk / "it").stat().st_mode & 0o777 == 0o640
    (disk / "it").unlink()


def test_links_and_devices_are_written_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("it")
    write_file(tmp_path / "link", "x")
    assert (tmp_path / "it").read_text() == "x" and (tmp_path / "link").is_symlink()
    write_file("/dev/null", "x")
    with pytest.raises(ValueError, match="no"), whole_file(tmp_path / "it") as file:
        file.write(b"y")
        raise ValueError("no")
    assert sorted(os.listdir(tmp_path)) == ["it", "link"] and (tmp_path / "it").read_text() == "x"
    with pytest.raises(FileNotFoundError, match=f"'{tmp_path}/nowhere/it'"):
        write_file(tmp_path / "nowhere" / "it", "x")


def test_threads_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole_file(path) as first:
        first.write(b"half of ")
        first.flush()
        other = threading.Thread(target=write_file, args=(path, b"another"))
        other.start()
        other.join()
        assert path.read_bytes() == b"another"
        first.write(b"the first")
    assert path.read_bytes() == b"half of the first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_may_have_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("名" * 85)  # 255 bytes
    write_file(path, "text")
    assert path.read_text() == "text"
