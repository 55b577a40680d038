from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tritonlab.ipc.processes import execution_env
from tritonlab.ipc.processes.execution_env import ArchiveError, ExecutionEnvironments, extract
from tritonlab.ipc.processes.interpreter import InterpreterError


@pytest.fixture
def environments() -> Iterator[ExecutionEnvironments]:
    found = ExecutionEnvironments()
    yield found
    found.close()


def make_directory(path: Path, text: str = "") -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "activate").write_text(text)
    return path


def make_archive(path: Path, text: str = "") -> Path:
    scratch = make_directory(path.parent / f"{path.name}.scratch{text}", text)
    with tarfile.open(path, "w:gz") as tar:
        tar.add(scratch / "bin", "bin")
    return path


def fails(environments: ExecutionEnvironments, path: str, model: Path) -> str:
    with pytest.raises(InterpreterError) as caught:
        environments.find(path, model)
    return str(caught.value)


@rule("2.10.1")
def test_a_directory_is_used_where_it_is(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "env")
    assert environments.find(str(directory), tmp_path) == directory
    (tmp_path / "link").symlink_to(directory)
    assert environments.find(f"{tmp_path}/link/../env/.", tmp_path) == directory


@rule("2.10.1")
@pytest.mark.parametrize("path", ["$$TRITON_MODEL_DIRECTORY/env", "/proc/..$$TRITON_MODEL_DIRECTORY/env"])
def test_the_models_directory_may_stand_anywhere_in_the_path(
    environments: ExecutionEnvironments, tmp_path: Path, path: str
) -> None:
    directory = make_directory(tmp_path / "env")
    assert environments.find(path, tmp_path) == directory


@rule("2.10.3")
def test_a_missing_environment_is_named_as_configured(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    text = fails(environments, "$$TRITON_MODEL_DIRECTORY/no/../env", tmp_path)
    assert text == f"Failed to get the canonical path for {tmp_path}/no/../env."


@rule("2.10.3")
def test_an_environment_needs_an_activate_script(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    text = fails(environments, str(tmp_path / "env"), tmp_path)
    assert text == (
        f"Path {tmp_path}/env/bin/activate does not exist. The Python environment should contain an 'activate' script."
    )


@rule("2.10.2")
def test_an_archive_is_unpacked_once_and_again_when_it_changed(
    environments: ExecutionEnvironments, tmp_path: Path
) -> None:
    archive = make_archive(tmp_path / "env.tar.gz", "one")
    (tmp_path / "link.tar.gz").symlink_to(archive)
    first = environments.find(str(archive), tmp_path)
    assert (first / "bin" / "activate").read_text() == "one"
    assert first.parent.name.startswith("python_env_")
    assert environments.find("$$TRITON_MODEL_DIRECTORY/link.tar.gz", tmp_path) == first
    make_archive(archive, "two")
    os.utime(archive, ns=(0, 1))
    second = environments.find(str(archive), tmp_path)
    assert (second / "bin" / "activate").read_text() == "two"
    assert (first / "bin" / "activate").read_text() == "one"  # a version that still serves runs there


@rule("2.10.2")
def test_what_was_unpacked_goes_with_the_server(environments: ExecutionEnvironments, tmp_path: Path) -> None:
    directory = environments.find(str(make_archive(tmp_path / "env.tar.gz")), tmp_path)
    environments.close()
    assert not directory.parent.exists()
    environments.close()


def test_models_that_share_an_archive_wait_for_one_extraction(
    environments: ExecutionEnvironments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(tmp_path / "env.tar.gz")
    started, go_on, calls = threading.Event(), threading.Event(), []
    extract = execution_env.extract

    def slow(archive: Path, directory: Path) -> None:
        calls.append(directory)
        started.set()
        assert go_on.wait(60)
        extract(archive, directory)

    monkeypatch.setattr(execution_env, "extract", slow)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(environments.find(str(archive), tmp_path))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert started.wait(60)
    assert found == []
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert (len(calls), len(found), len(set(found))) == (1, 4, 1)


def test_a_refused_archive_leaves_nothing_and_may_be_repaired(
    environments: ExecutionEnvironments, tmp_path: Path
) -> None:
    archive = tmp_path / "env.tar.gz"
    archive.write_bytes(b"no archive")
    for _ in range(2):  # Triton's second answer is another: it finds its own left-over directory
        assert fails(environments, str(archive), tmp_path) == "archive_read_open_filename() failed."
    make_archive(archive)
    directory = environments.find(str(archive), tmp_path)
    assert [p.name for p in directory.parent.iterdir()] == [directory.name]


Member = tuple[str, bytes, str]
FILE, DIRECTORY, LINK, HARD, PIPE, DEVICE = (
    tarfile.REGTYPE,
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
)


def make(path: Path, members: list[Member], mode: str = "w:gz") -> Path:
    """Write an archive of (name, type, target of the link) in this order; a file holds its own name."""
    with tarfile.open(path, mode) as tar:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode, info.uid = kind, target, 0o755, 12345
            data = name.encode() if kind == FILE else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return an empty directory beside which nothing else must appear."""
    (tmp_path / "inside").mkdir()
    return tmp_path / "inside"


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_files_links_and_modes_arrive_and_belong_to_whoever_unpacks(tmp_path: Path, place: Path, mode: str) -> None:
    members: list[Member] = [
        ("./bin", DIRECTORY, ""),
        ("./bin/activate", FILE, ""),
        ("./bin/python", LINK, "/usr/bin/python3"),
        ("./bin/python3", LINK, "python"),
        ("lib/x.so.1", FILE, ""),
        ("lib/x.so", LINK, "x.so.1"),
        ("lib/y.so", HARD, "lib/x.so.1"),
        ("lib64", LINK, "lib"),
        ("share/up", LINK, "../lib/x.so"),
    ]
    extract(make(tmp_path / "env.tar", members, mode), place)
    assert (place / "bin" / "activate").read_bytes() == b"./bin/activate"
    assert os.access(place / "bin" / "activate", os.X_OK)
    assert os.readlink(place / "bin" / "python") == "/usr/bin/python3"
    assert {p.read_bytes() for p in (place / "lib64" / "x.so", place / "lib" / "y.so", place / "share" / "up")} == {
        b"lib/x.so.1"
    }
    assert (place / "lib" / "x.so.1").stat().st_uid == os.getuid()


#: what is wrong with the archive -> (its members after a good first one, what the error says)
REFUSED: dict[str, tuple[list[Member], str]] = {
    "absolute": ([("/tmp/tritonlab_escaped", FILE, "")], "has an absolute path"),
    "dots": ([("../escaped", FILE, "")], "has '..' in its path"),
    "dots inside": ([("lib/../../escaped", FILE, "")], "has '..' in its path"),
    "link out": ([("data", LINK, "../escaped")], "is a link to '../escaped', which is outside"),
    "link to root": ([("data", LINK, "/etc")], "is a link to '/etc', which is outside"),
    "link out by a detour": ([("lib/x", LINK, "y/../../../escaped")], "which is outside"),
    "link out through a link": (
        [("x/y", DIRECTORY, ""), ("x/y/l", LINK, "../.."), ("m", LINK, "x/y/l/..")],
        "is a link to 'x/y/l/..', which is outside",
    ),
    "link out through a later link": (
        [("x/y/l", LINK, "../.."), ("a", LINK, "b/../c"), ("b", LINK, "x/y/l"), ("m", LINK, "a/../../etc")],
        "which is outside",
    ),
    "link out through the interpreter's link": (
        [("bin/python", LINK, "/usr/bin/python3"), ("x", LINK, "bin/python/../../..")],
        "which is outside",
    ),
    "through a link": (
        [("lib", DIRECTORY, ""), ("lib64", LINK, "lib"), ("lib64/x", FILE, "")],
        "would be written through a link of the archive",
    ),
    "over a link": (
        [("bin/python", LINK, "/tmp/tritonlab_escaped"), ("bin/python", FILE, "")],
        "would be written through a link of the archive",
    ),
    "below the interpreter's link": (
        [("bin/python", LINK, "/tmp"), ("bin/python/tritonlab_escaped", FILE, "")],
        "would be written through a link of the archive",
    ),
    "hard link out": (
        [("x", HARD, "/etc/passwd")],
        "is a hard link to '/etc/passwd', which the archive does not contain",
    ),
    "hard link to a link": (
        [("bin/python", LINK, "/etc/passwd"), ("x", HARD, "bin/python")],
        "which the archive does not contain before it",
    ),
    "pipe": ([("x", PIPE, "")], "is a device or a pipe"),
    "device": ([("x", DEVICE, "")], "is a device or a pipe"),
    "deep": ([("a/" * 500 + "x", FILE, "")], "is 500 directories deep, and 400 can be made"),
}


@rule("2.10.5")
@pytest.mark.parametrize("case", REFUSED)
def test_what_would_reach_outside_is_refused_before_anything_is_written(tmp_path: Path, place: Path, case: str) -> None:
    members, problem = REFUSED[case]
    archive = make(tmp_path / "env.tar.gz", [("bin/activate", FILE, ""), *members])
    with pytest.raises(ArchiveError) as caught:
        extract(archive, place)
    assert problem in str(caught.value)
    refused = "a" if "a later link" in case else members[-1][0]
    assert f"its member '{refused[:200]}'" in str(caught.value)
    assert list(place.iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["env.tar.gz", "inside"]
    assert not Path("/tmp/tritonlab_escaped").exists()


def test_links_that_stay_inside_arrive(tmp_path: Path, place: Path) -> None:
    members: list[Member] = [
        ("bin/python3", LINK, "/usr/bin/python3"),
        ("x/y/l", LINK, "../.."),
        ("m", LINK, "x/y/l/x/.."),
        ("share/python", LINK, "../bin/python3"),
        ("circle", LINK, "circle/.."),
        ("one", LINK, "two"),
        ("two", LINK, "one"),
        ("away", LINK, "nowhere"),
    ]
    extract(make(tmp_path / "env.tar", members), place)
    assert {p.name for p in place.iterdir()} == {"bin", "x", "m", "share", "circle", "one", "two", "away"}
    assert (place / "m").resolve() == place


@rule("2.10.3")
@pytest.mark.parametrize("content", [b"", b"no archive " * 1000, b"PK\x03\x04" + bytes(600), b"\x1f\x8bno gzip"])
def test_what_is_no_tar_is_called_so_in_tritons_words(tmp_path: Path, place: Path, content: bytes) -> None:
    (tmp_path / "env").write_bytes(content)
    with pytest.raises(ArchiveError) as caught:
        extract(tmp_path / "env", place)
    assert str(caught.value) == "archive_read_open_filename() failed."


def test_other_compressions_are_refused_as_triton_does(tmp_path: Path, place: Path) -> None:
    archive = make(tmp_path / "env.tar.xz", [("bin/activate", FILE, "")], "w:xz")
    with pytest.raises(ArchiveError, match="archive_read_open_filename"):
        extract(archive, place)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_truncated_archive_is_an_error(tmp_path: Path, place: Path, mode: str) -> None:
    archive = tmp_path / "env.tar"
    with tarfile.open(archive, mode) as tar:
        info = tarfile.TarInfo("big")
        info.size = 200_000
        tar.addfile(info, io.BytesIO(os.urandom(info.size)))
    data = archive.read_bytes()
    archive.write_bytes(data[: len(data) // 2])
    with pytest.raises(ArchiveError, match=r"env\.tar' cannot be unpacked"):
        extract(archive, place)
