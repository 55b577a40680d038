"""A temporary directory without space: a load, a port and an export say so, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = """
import os, shutil, sys, tempfile
from pathlib import Path
import tritonlab
from tests.models import IDENTITY
from tritonlab.core.status import TritonError
from tritonlab import export
from tritonlab.repository.place import NoRepository
from tritonlab.notebook.authoring.errors import FileError

place = Path(tempfile.gettempdir())
CONFIG = {"input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
          "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}]}


def fill():
    with (place / "fill").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass


def refused(kind, call):
    before = sorted(place.rglob("*"))
    try:
        call()
    except kind as error:
        assert f"no space left in {place}" in str(error) and "make room there" in str(error), error
    else:
        raise AssertionError("it is not refused")
    left = [str(path) for path in sorted(place.rglob("*")) if path not in before]
    assert not left, left
    print("refused")


model = tritonlab.load("m", IDENTITY, config=CONFIG)
large = IDENTITY + "#" + "x" * (2 << 20)
refused(FileError, lambda: tritonlab.load("other", large, config=CONFIG))
refused(FileError, lambda: tritonlab.load("m", large, config=CONFIG))
fill()
refused(FileError, lambda: tritonlab.load("m", IDENTITY + "#1", config=CONFIG))
refused(NoRepository, lambda: export(model, place / "out"))
refused(TritonError, lambda: tritonlab.serve(http_port=0, grpc_port=0, metrics_port=0))
assert model.ready()
(place / "fill").unlink()
assert tritonlab.load("m", IDENTITY + "#2", config=CONFIG).ready()
export(model, place / "out")
shutil.rmtree(place / "out")
(place / "out.export.json").unlink()
tritonlab.serve(http_port=0, grpc_port=0, metrics_port=0).stop()
tritonlab.reset()
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting is not permitted")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_named_and_nothing_is_left(small: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "TMPDIR": str(small), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env=environment, cwd=small.parent
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused") == 5
    assert [path.name for path in small.iterdir()] == []
