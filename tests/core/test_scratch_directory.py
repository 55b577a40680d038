"""Directories that processes leave, and who removes them. Other processes are real ones: locks end with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import eventually
from tritonlab.core import scratch_directory
from tritonlab.core.scratch_directory import ScratchDirectory, remove_abandoned

#: Makes directories, says where, and waits for its end. With `fork`, so does a child that it leaves behind.
OWNER = """
import os, sys, time
from tritonlab.core.scratch_directory import ScratchDirectory
made = ScratchDirectory("env-"), ScratchDirectory("model-")
for each in made:
    (each.path / "deep").mkdir()
    (each.path / "deep" / "file").write_text("x" * 1000)
    (each.path / "link").symlink_to(sys.argv[1])
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print(made[0].path.parent, flush=True)
if "exit" not in sys.argv:
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a temporary directory of the test's own; in this process nobody has made or looked for anything yet."""
    found = tmp_path / "tmp"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    for name, value in (("_own", None), ("_own_lock", -1), ("_looked", False)):
        monkeypatch.setattr(scratch_directory, name, value)
    yield found
    if scratch_directory._own_lock >= 0:
        os.close(scratch_directory._own_lock)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return what links in the directories lead to."""
    found = tmp_path / "outside"
    found.mkdir()
    (found / "precious").write_text("x")
    return found


def start(temporary: Path, outside: Path, *how: str) -> tuple[subprocess.Popen[str], Path]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(outside), *how],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    return owner, Path(owner.stdout.readline().strip())


def kill(owner: subprocess.Popen[str]) -> None:
    """Kill the whole session, children too."""
    os.killpg(owner.pid, signal.SIGKILL)
    owner.communicate()


def look() -> None:
    """Look as a server does when it starts, and wait for what that does in the background."""
    scratch_directory._looked = False
    remove_abandoned()
    for thread in threading.enumerate():
        if thread.name == "scratch":
            thread.join()


def gone(path: Path) -> bool:
    look()
    return not path.exists()


def test_a_directory_goes_with_its_user(temporary: Path) -> None:
    first, second = ScratchDirectory("a-"), ScratchDirectory("b-")
    assert first.path.name.startswith("a-") and first.path.parent == second.path.parent
    assert first.path.parent.parent == temporary and first.path.parent.name.startswith("tritonlab-")
    first.remove()
    first.remove()
    path = second.path
    assert not first.path.exists() and path.exists()
    del second
    assert not path.exists()


def test_what_an_owner_leaves_that_was_killed_is_removed(temporary: Path, outside: Path) -> None:
    owner, made = start(temporary, outside)
    look()
    assert len(list(made.glob("*/deep/file"))) == 2  # it lives
    kill(owner)
    look()
    assert list(temporary.iterdir()) == []
    assert (outside / "precious").exists()


def test_an_owner_that_ends_leaves_nothing(temporary: Path, outside: Path) -> None:
    owner, made = start(temporary, outside, "exit")
    assert owner.communicate() is not None
    assert owner.returncode == 0 and not made.exists()


def test_a_forked_child_neither_keeps_nor_removes_what_its_parent_made(temporary: Path, outside: Path) -> None:
    owner, made = start(temporary, outside, "fork")
    owner.kill()  # the child lives on
    owner.wait()
    try:
        assert made.exists()
        eventually(lambda: gone(made))  # the child lets go of the lock as soon as it runs
    finally:
        kill(owner)


def test_several_look_at_once(temporary: Path, outside: Path) -> None:
    owners = [start(temporary, outside) for _ in range(3)]
    kept = ScratchDirectory("mine-")
    for owner, _ in owners[1:]:
        kill(owner)
    code = "from tritonlab.core.scratch_directory import *; import threading; remove_abandoned(); "
    code += "[t.join() for t in threading.enumerate() if t.name == 'scratch']"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    lookers = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(4)]
    assert [looker.wait() for looker in lookers] == [0] * 4
    eventually(lambda: {path.name for path in temporary.iterdir()} == {owners[0][1].name, kept.path.parent.name})
    kill(owners[0][0])


def test_what_we_did_not_make_is_left_alone(temporary: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unmarked = temporary / "tritonlab-unmarked"
    unmarked.mkdir()
    (outside / ".owner").touch()
    (temporary / "tritonlab-link").symlink_to(outside)
    piped = temporary / "tritonlab-pipe"
    piped.mkdir()
    os.mkfifo(piped / ".owner")
    linked = temporary / "tritonlab-linked"
    linked.mkdir()
    (linked / ".owner").symlink_to(outside / ".owner")
    (temporary / "tritonlab-file").touch()
    (temporary / "python_env_abc").mkdir()  # Triton's
    before = sorted(temporary.iterdir())
    look()
    assert sorted(temporary.iterdir()) == before and (outside / "precious").exists()
    owner, made = start(temporary, outside)
    kill(owner)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    look()
    assert made.exists()  # another user's


def test_what_was_removed_in_part_goes_at_the_next_start(temporary: Path, outside: Path) -> None:
    owner, made = start(temporary, outside)
    kill(owner)
    for path in made.glob("env-*/deep/file"):
        path.unlink()
    look()
    assert not made.exists()


def test_a_directory_that_somebody_removed_is_made_again(temporary: Path) -> None:
    first = ScratchDirectory("a-")
    scratch_directory._remove(first.path.parent, os.getpid())
    second = ScratchDirectory("b-")
    assert second.path.is_dir() and second.path.parent != first.path.parent


def test_one_that_is_taken_before_it_is_locked_is_not_used(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(scratch_directory, "_own_it", lambda lock: next(answers))
    assert ScratchDirectory("a-").path.parent.is_dir()
    assert len(list(temporary.glob("tritonlab-*"))) == 2  # the first is the other process's to remove
