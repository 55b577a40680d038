"""The poll mode on a clock that stands still: real files, a fake model control."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tests.serving import write_model
from tritonlab.core.status import ModelLoadError
from tritonlab.repository.model_repository_manager import ModelRepositoryManager
from tritonlab.server.models.repository_poller import RepositoryPoller
from tritonlab.testing import FakeTimer, MockClock

SECOND = 1_000_000_000
SOURCE = "class TritonPythonModel: pass\n"


class Recorder:
    """A model control that notes its calls, and fails for the models in `bad`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.bad: dict[str, Exception] = {}

    def load_model(self, name: str) -> None:
        self.calls.append(("load", name))
        if name in self.bad:
            raise self.bad[name]

    def unload_model(self, name: str) -> None:
        self.calls.append(("unload", name))

    def take(self) -> list[tuple[str, str]]:
        calls, self.calls = self.calls, []
        return calls


class Polled:
    """A poller on a repository, with work that is done at once unless it is deferred."""

    def __init__(self, path: Path, seconds: float = 15) -> None:
        self.path = path
        self.control = Recorder()
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        self.deferred: list[Callable[[], None]] = []
        self.keep = False
        self.repository = ModelRepositoryManager([path])
        self.poller = RepositoryPoller(self.repository, self.control, self.clock, self.timer, seconds, self._run)

    def _run(self, work: Callable[[], None]) -> None:
        if self.keep:
            self.deferred.append(work)
        else:
            work()

    def after(self, seconds: float = 15) -> list[tuple[str, str]]:
        """Return the calls that were made in that time."""
        self.timer.advance(int(seconds * SECOND))
        return self.control.take()

    def touch(self, name: str, file: str = "1/model.py") -> None:
        path = self.path / name / file
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + SECOND))


@pytest.fixture
def polled(tmp_path: Path) -> Polled:
    for name in ("a", "b"):
        write_model(tmp_path, name, SOURCE)
    polled = Polled(tmp_path)
    polled.poller.start()
    polled.after(1)  # so that a poll and its second look lie within the next 15 s
    return polled


def test_what_is_there_at_the_start_is_known(polled: Polled) -> None:
    assert polled.after(100) == []


def test_it_looks_every_so_many_seconds(polled: Polled) -> None:
    polled.touch("a")
    assert polled.after(14.4) == []
    assert polled.after(0.2) == [("load", "a")]
    assert polled.after(60) == []
    polled.touch("b")
    assert polled.after() == [("load", "b")]


@rule("5.11.1")
def test_0_seconds_is_never(tmp_path: Path) -> None:
    polled = Polled(tmp_path, 0)
    polled.poller.start()
    write_model(tmp_path, "a", SOURCE)
    assert polled.after(100) == []


@rule("5.11.10")
def test_a_model_that_another_repository_gets_too_is_unloaded(
    polled: Polled, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    polled.repository.register(other)
    assert polled.after() == []
    write_model(other, "a", SOURCE)
    polled.control.bad["a"] = ModelLoadError("failed to load 'a', failed to poll from model repository")
    assert polled.after() == [("load", "a"), ("unload", "a")]
    assert polled.after() == []
    shutil.rmtree(other / "a")
    assert polled.after() == [("load", "a")]


def test_models_come_and_go(polled: Polled) -> None:
    write_model(polled.path, "new", SOURCE)
    assert polled.after() == [("load", "new")]
    shutil.rmtree(polled.path / "a")
    assert polled.after() == [("unload", "a")]
    assert polled.after() == []
    write_model(polled.path, "a", SOURCE)
    assert polled.after() == [("load", "a")]


@pytest.mark.parametrize("file", ["config.pbtxt", "1/more.py", "2/model.py", "data/x"])
def test_any_file_is_a_change(polled: Polled, file: str) -> None:
    path = polled.path / "a" / file
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert polled.after() == [("load", "a")]
    path.unlink()
    assert polled.after() == [("load", "a")]


def test_a_change_counts_when_it_is_over(polled: Polled) -> None:
    config = polled.path / "a" / "config.pbtxt"
    config.write_text("max_batch_size: 8\n")
    assert polled.after(14) == []
    config.write_text("max_batch_size: 8\ndynamic_batching { }\n")
    assert polled.after(0.5) == []
    assert polled.after(0.5) == [("load", "a")]
    assert polled.after() == []


def test_a_directory_that_is_replaced_was_never_gone(polled: Polled) -> None:
    shutil.rmtree(polled.path / "a")
    assert polled.after(14) == []
    write_model(polled.path, "a", SOURCE + "# of another size\n")
    assert polled.after(0.5) == []
    assert polled.after() == [("load", "a")]


def test_a_change_that_is_taken_back_is_none(polled: Polled) -> None:
    (polled.path / "a" / "more").touch()
    assert polled.after(14) == []
    (polled.path / "a" / "more").unlink()
    assert polled.after(100) == []


def test_a_model_that_always_changes_is_loaded_now_and_then(polled: Polled) -> None:
    loads = []
    for _ in range(60):
        polled.touch("a")
        loads += polled.after(0.5)
    assert loads == [("load", "a")]


def test_others_are_not_held_up_by_a_change_that_goes_on(polled: Polled) -> None:
    polled.touch("b")
    for _ in range(30):
        polled.touch("a")
        if calls := polled.after(0.5):
            break
    assert calls == [("load", "b")]


def test_byte_code_is_none(polled: Polled) -> None:  # server issue 7489
    cache = polled.path / "a" / "1" / "__pycache__"
    cache.mkdir()
    (cache / "model.cpython-311.pyc").touch()
    assert polled.after() == []


@pytest.mark.parametrize("error", [ModelLoadError("no"), RuntimeError("a defect of ours")])
def test_a_model_that_fails_waits_for_its_files_and_holds_up_nobody(polled: Polled, error: Exception) -> None:
    polled.control.bad["a"] = error
    polled.touch("a")
    polled.touch("b")
    assert polled.after() == [("load", "a"), ("load", "b")]
    polled.touch("b")
    assert polled.after() == [("load", "b")]  # not a: nothing of it has changed
    polled.touch("a")
    assert polled.after() == [("load", "a")]


def test_a_load_that_hangs_holds_up_nobody(polled: Polled) -> None:  # server issue 6534
    polled.touch("a")
    polled.poller.poll()
    polled.keep = True
    polled.clock.advance(SECOND // 2)
    polled.poller.poll()
    (hanging,) = polled.deferred
    polled.keep = False
    polled.touch("a")
    polled.touch("b")
    assert polled.after() == [("load", "b")]
    hanging()
    assert polled.control.take() == [("load", "a")]
    assert polled.after(0.5) == [("load", "a")]  # it has changed since that load began
    assert polled.after() == []


def test_a_repository_that_cannot_be_read_is_looked_at_again(polled: Polled, monkeypatch: pytest.MonkeyPatch) -> None:
    polled.touch("a")
    with monkeypatch.context() as patch:
        patch.setattr(polled.repository, "directories", lambda: 1 / 0)
        assert polled.after() == []
    assert polled.after() == [("load", "a")]


def test_a_repository_that_is_away_for_a_while_takes_nothing_with_it(polled: Polled) -> None:
    away = polled.path.with_name("away")
    polled.path.rename(away)
    assert polled.after() == []
    away.rename(polled.path)
    polled.touch("a")
    assert polled.after() == [("load", "a")]


def test_stopped_it_looks_no_more(polled: Polled) -> None:
    polled.poller.stop()
    polled.touch("a")
    assert polled.after(100) == []
    assert polled.timer.deadlines == []
