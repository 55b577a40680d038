from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tritonlab.tools.deploy.releases import find
from tritonlab.tools.deploy.verify import wheels
from tritonlab.tools.deploy.verify.wheels import NoWheel, TritonFiles, Wheel, cache_directory, find_wheel, unpacked


def test_every_release_is_pinned_by_version_and_sum() -> None:
    rows = wheels.wheels()
    assert list(rows) == sorted(rows, key=lambda release: find(release).order, reverse=True)
    for wheel in rows.values():
        assert len(wheel.sha256) == 64 and wheel.file.startswith("nvidia_pytriton-")
        assert wheel.bytes < wheel.unpacked_bytes
        assert find(wheel.triton).python.value in wheel.stubs


def test_a_release_without_a_wheel_says_which_there_are() -> None:
    with pytest.raises(NoWheel, match=r"no wheel has Triton 2\.60; there are 2\.51, .*2\.36, and none after 2\.51"):
        find_wheel("2.60")


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_directory() == Path("/caches/tritonlab")
    monkeypatch.setenv(wheels.CACHE_VARIABLE, str(tmp_path))
    assert cache_directory() == tmp_path


def test_a_wheel_that_is_there_is_not_fetched_and_one_that_fails_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(wheels.CACHE_VARIABLE, str(tmp_path))
    wheel, messages = find_wheel("2.51"), list[str]()

    def fail(wheel: Wheel, directory: Path, cancel: threading.Event) -> None:
        (directory / wheel.file).write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(wheels, "_fetch", fail)
    with pytest.raises(KeyboardInterrupt):
        unpacked(wheel, messages.append, threading.Event())
    assert [path.name for path in (tmp_path / "triton").iterdir()] == ["2.51.lock"]
    assert "55 MB to fetch, 150 MB unpacked" in messages[0]
    (tmp_path / "triton" / "2.51").mkdir()
    (tmp_path / "triton" / "2.51" / wheel.sha256).touch()
    assert unpacked(wheel, messages.append, threading.Event()).root == tmp_path / "triton" / "2.51"
    assert len(messages) == 1


def test_a_stub_is_known_by_its_content(tmp_path: Path) -> None:
    files = TritonFiles(tmp_path / "wheel")
    for version in ("3.10", "3.11"):
        files.stub(version).parent.mkdir(parents=True)
        files.stub(version).write_bytes(b"\x7fELF" + version.encode())
    stub = tmp_path / "triton_python_backend_stub"
    for content, expected in ((b"\x7fELF3.11", True), (b"\x7fELF3.12", False)):
        stub.write_bytes(content)
        assert files.compiled(stub) is expected
