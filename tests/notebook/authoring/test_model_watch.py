"""Models whose files on disk are watched, with a clock that stands still."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.models import answers
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.errors import FileError
from tritonlab.notebook.authoring.model_watch import ModelWatch
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.testing import MS, FakeTimer, MockClock

OPTIONS = ConfigOptions(inputs=("IN:FP32[1]",), outputs=("OUT:FP32[1]",))
SOURCE = answers("x * np.float32(helper.FACTOR)", imports="import helper")


@pytest.fixture
def timer() -> FakeTimer:
    return FakeTimer(MockClock())


def answer(workspace: Workspace) -> float:
    return float(workspace.server.model("m")(IN=[1.0])["OUT"][0])


def write(path: Path, text: str, when: int) -> Path:
    path.write_text(text)
    os.utime(path, (when, when))
    return path


def watched(workspace: Workspace, timer: FakeTimer) -> ModelWatch:
    return ModelWatch(workspace.draft, workspace.load_from_disk, timer._clock, timer, run=lambda work: work())


def test_a_helper_file_that_changes_loads_the_model_again(
    workspace: Workspace, timer: FakeTimer, tmp_path: Path
) -> None:
    helper = write(tmp_path / "helper.py", "FACTOR = 2\n", 1)
    workspace.load("m", SOURCE, options=OPTIONS, files=[helper])
    watch = watched(workspace, timer)
    assert watch.add("m") == [helper]
    timer.advance(1000 * MS)
    assert answer(workspace) == 2
    write(helper, "FACTOR = 3\n", 2)
    timer.advance(600 * MS)  # seen once: it may be half written
    assert answer(workspace) == 2
    timer.advance(500 * MS)
    assert answer(workspace) == 3
    # a failure leaves the version that serves, and is in the report, which the card shows, with the file's own line
    write(helper, "\n\nFACTOR = broken\n", 3)
    timer.advance(1100 * MS)
    report = workspace.report("m")
    assert report is not None and "NameError" in str(report.error) and answer(workspace) == 3
    write(helper, "FACTOR = 4\n", 4)
    timer.advance(1100 * MS)
    assert answer(workspace) == 4
    assert watch.remove("m") and not watch.remove("m")
    write(helper, "FACTOR = 5\n", 5)
    timer.advance(2000 * MS)
    assert (answer(workspace), timer.deadlines) == (4, [])


def test_a_source_that_was_loaded_from_a_file_is_watched(
    workspace: Workspace, timer: FakeTimer, tmp_path: Path
) -> None:
    source = write(tmp_path / "model.py", answers("x * 2"), 1)
    workspace.load("m", str(source), options=OPTIONS)
    assert watched(workspace, timer).add("m") == [source]
    write(source, answers("x * 5"), 2)
    timer.advance(1100 * MS)
    assert answer(workspace) == 5


def test_a_model_of_cells_alone_has_nothing_to_watch(workspace: Workspace, timer: FakeTimer) -> None:
    workspace.load("m", answers("x"), options=OPTIONS)
    with pytest.raises(FileError, match="no file on disk to watch"):
        watched(workspace, timer).add("m")


def test_a_config_that_cannot_be_loaded_does_not_end_the_watch(
    workspace: Workspace, timer: FakeTimer, tmp_path: Path
) -> None:
    source = write(tmp_path / "model.py", answers("x * 2"), 1)
    workspace.load("m", str(source), options=OPTIONS)
    watched(workspace, timer).add("m")
    with pytest.raises(FileError, match="not a file below the model's directory"):
        workspace.load("m", config='default_model_filename: "../../m.py"')
    timer.advance(1100 * MS)
    workspace.load("m", config='default_model_filename: "model.py"', options=OPTIONS)
    write(source, answers("x * 5"), 2)
    timer.advance(1100 * MS)
    assert answer(workspace) == 5
