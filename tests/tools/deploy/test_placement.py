"""A group of models takes the places of the former ones as a whole, wherever it is interrupted."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.ensembles import ensemble_text, step
from tests.models import IDENTITY
from tests.serving import write_model
from tritonlab import Model, Server, export
from tritonlab.repository.place import SCRATCH
from tritonlab.tools.deploy import placement
from tritonlab.tools.deploy.placement import Placement

NAMES = ("a", "b", "c")


def tree(path: Path) -> dict[str, str]:
    return {p.relative_to(path).as_posix(): p.read_text() if p.is_file() else "" for p in sorted(path.rglob("*"))}


@pytest.fixture
def place(tmp_path: Path) -> Callable[[], None]:
    """Return what places three models, of which the repository has two."""

    def run() -> None:
        for name in NAMES:
            (tmp_path / "scratch" / name).mkdir(parents=True)
            (tmp_path / "scratch" / name / "new").write_text(name)
        with Placement(tmp_path / "models") as placing:
            for name in NAMES:
                placing.place(tmp_path / "scratch" / name, tmp_path / "models" / name)

    for name in NAMES[:2]:
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "old").write_text(name)
    return run


def interrupt_at(number: int, modules: set[str], error: BaseException) -> Callable[..., Any]:
    """Return a trace function that raises at the `number`th line that runs in the modules, once."""
    left = number

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in modules:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise error
        return trace

    return trace


@pytest.mark.parametrize("other_file_system", [False, True])
def test_an_interrupt_at_any_line_leaves_the_old_ones(
    place: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_file_system: bool
) -> None:
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if other_file_system and len({".backup" in str(path) for path in (source, target)}) == 2:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    before, number = tree(tmp_path / "models"), 0
    while True:
        number += 1
        sys.settrace(interrupt_at(number, {placement.__file__}, KeyboardInterrupt()))
        try:
            place()
        except KeyboardInterrupt:
            sys.settrace(None)
            if not (tmp_path / "models" / "c").exists():  # else the last step was done
                assert tree(tmp_path / "models") == before, number
                assert not (tmp_path / "models.backup").exists(), number
        else:
            break
        finally:
            sys.settrace(None)
            shutil.rmtree(tmp_path / "scratch")
    assert number > 50
    assert tree(tmp_path / "models") == {**{n: "" for n in NAMES}, **{f"{n}/new": n for n in NAMES}}
    assert {path.parent.name[0] for path in (tmp_path / "models.backup").glob("*/old")} == {"a", "b"}


def test_what_cannot_be_put_back_is_named(
    place: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if ("scratch" in str(source) and Path(target).name == "b") or ".backup" in str(source):
            raise OSError("disk on fire")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="disk on fire") as raised:
        place()
    notes = "\n".join(raised.value.__notes__)
    assert f"{tmp_path}/models/b could not be put back (disk on fire); it is at {tmp_path}/models.backup/b-" in notes


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """Return an ensemble with its two steps."""
    source = tmp_path_factory.mktemp("group") / "source"
    text = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'
    for name in ("one", "two"):
        write_model(source, name, IDENTITY, text)
        (source / name / "1" / "link").symlink_to("model.py")
    (source / "whole" / "1").mkdir(parents=True)
    steps = ensemble_text(step("one", "IN=X", "OUT=Z"), step("two", "IN=Z", "OUT=Y"))
    (source / "whole" / "config.pbtxt").write_text(steps)
    with Server(source, warm=0) as server:
        yield server.model("whole")


#: What an export calls of the system, by the modules that have it.
CALLS = [(os, "replace"), (os, "mkdir"), (os, "symlink"), (os, "rmdir"), (shutil, "copyfile"), (shutil, "copymode")]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "disk on fire"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("existing", [False, True], ids=["new", "replaced"])
def test_a_group_is_exported_whole_or_not_at_all(
    group: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, after: bool, existing: bool
) -> None:
    """Every call of the system fails once, before or after it did its work."""
    count, fatal = 0, 1

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            nonlocal count
            if not any("scratch_or_models" in str(each) for each in arguments):
                return real(*arguments, **settings)
            count += 1
            at = count
            if at == fatal and not after:
                raise error
            result = real(*arguments, **settings)
            if at == fatal:
                raise error
            return result

        return call

    for module, name in CALLS:
        monkeypatch.setattr(module, name, failing(getattr(module, name)))
    while True:
        place, fatal = tmp_path / f"scratch_or_models_{fatal}", -1
        for name in ("two", "whole") if existing else ():
            (place / "models" / name).mkdir(parents=True)
            (place / "models" / name / "mine").write_text("precious")
        before = tree(place) if existing else None
        fatal, count = int(place.name.rpartition("_")[2]), 0
        try:
            export(group, place / "models", overwrite=True)
        except (OSError, KeyboardInterrupt) as raised:
            assert raised is error or "disk on fire" in f"{raised}"
            found = tree(place) if place.exists() else None
            is_new = found is not None and not list((place / "models").glob("*/mine")) and "models/one" in found
            assert found == before or is_new, fatal
        else:
            is_new = True
        if is_new:
            assert sorted(os.listdir(place / "models")) == ["one", "two", "whole"], fatal
            assert len(list((place / "models").glob("*/config.pbtxt"))) == 3
        assert not list(tmp_path.rglob(f"{SCRATCH}*"))
        if count < fatal:
            break
        fatal += 1
    assert fatal > 12


def test_progress_is_in_bytes_and_may_cancel(group: Model, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    export(group, tmp_path / "models", progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen) and seen[-1][0] == seen[-1][1] > 0
    assert len(seen) == 2  # the files that are copied: a model.py each

    def cancel(done: int, total: int) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        export(group, tmp_path / "other", progress=cancel)
    assert sorted(os.listdir(tmp_path)) == ["models", "models.export.json"]
