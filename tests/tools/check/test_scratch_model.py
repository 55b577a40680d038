"""The wait for the answers of a copy, and for its instances."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import ModelLoadError, TritonError, UnavailableError
from tritonlab.tools.check import scratch_model
from tritonlab.tools.check.scratch_model import CopyWatch, ScratchModel, _copy, _SentRequest, _wait


class Done:
    """An event that is waited for in vain as often as there are `vain`, each of which is called meanwhile."""

    def __init__(self, *vain: Callable[[], None]) -> None:
        self.vain = list(vain)

    def wait(self, timeout: float) -> bool:
        if self.vain:
            self.vain.pop(0)()
            return False
        return True


def test_answers_that_come_one_by_one_are_waited_for() -> None:
    first, second = (_SentRequest(InferenceRequest("m", {}), time.monotonic()) for _ in range(2))

    def end_second() -> None:
        second.ended_at = time.monotonic()

    done: Any = Done(end_second)
    first.done, second.done = done, Done()  # type: ignore[assignment]
    _wait([first, second], 2.0)
    assert not done.vain


def test_no_more_is_waited_for_when_none_has_come() -> None:
    one, other = (_SentRequest(InferenceRequest("m", {}), time.monotonic()) for _ in range(2))
    event: Any = Done(lambda: None, lambda: None)
    one.done, other.done = Done(lambda: None), event  # type: ignore[assignment]
    _wait([one, other], 2.0)
    assert len(event.vain) == 2


def test_an_instance_that_stays_busy_is_an_error_which_a_check_notes_and_the_others_go_on() -> None:
    class Scheduler:
        def __init__(self) -> None:
            self.idle = {"first"}

        def instance_away(self, instance: str) -> bool:
            found = instance in self.idle
            self.idle.discard(instance)
            return found

        def instance_idle(self, instance: str) -> None:
            self.idle.add(instance)

    copy: Any = ScratchModel.__new__(ScratchModel)
    copy.name, copy.timeout = "m", 0.0
    version = SimpleNamespace(instances=["first", "second"], scheduler=Scheduler())
    with pytest.raises(UnavailableError, match="an instance of 'm' is still busy"):
        copy._hold(version)
    assert version.scheduler.idle == {"first"}


def test_a_load_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_model, "_LOAD", 0.0)
    aborted = threading.Event()

    def load(name: str, config: object) -> None:
        assert aborted.wait(10)
        raise ModelLoadError("aborted")

    copy: Any = ScratchModel.__new__(ScratchModel)
    copy.name, copy.load_seconds, copy._has_started = "m", 0.0, True
    copy.written = lambda **differing: {}
    version = SimpleNamespace(abort=aborted.set)
    control = SimpleNamespace(loading=lambda name: [version])
    copy.server = SimpleNamespace(load=load, core=SimpleNamespace(control=control))
    with pytest.raises(ModelLoadError, match="it is not READY after 0 s"):
        copy._load({})


def test_a_directory_of_another_place_is_not_copied_with_the_model(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a.txt").write_text("a")
    version = tmp_path / "models" / "m" / "1"
    version.mkdir(parents=True)
    (version / "home").symlink_to("../../../home")
    (version / "a.txt").symlink_to("home/a.txt")
    (tmp_path / "models" / "shared").mkdir()
    (version / "shared").symlink_to("../../shared")
    _copy(tmp_path / "models" / "m", tmp_path / "copy")
    copy = tmp_path / "copy" / "1"
    assert copy.joinpath("home").is_symlink() and copy.joinpath("home", "a.txt").read_text() == "a"
    # what the model may write to is its own
    assert not copy.joinpath("a.txt").is_symlink() and not copy.joinpath("shared").is_symlink()


def test_a_request_is_not_taken_for_an_earlier_one_that_checked_its_cancellation() -> None:
    copy: Any = ScratchModel.__new__(ScratchModel)
    copy.timeout, copy.watch, copy.is_ensemble = 5.0, CopyWatch(), False
    version = SimpleNamespace(instances=[], scheduler=None)
    request = InferenceRequest("m", {})

    def infer(sent: InferenceRequest, version: object) -> None:
        raise TritonError("no")

    core = SimpleNamespace(find=lambda name: version, infer=infer)
    copy.name, copy.server = "m", SimpleNamespace(core=core)
    copy.watch.request_polled(request, 0)  # as the number of an object is used again
    assert not copy.ask([request])[0].polled
