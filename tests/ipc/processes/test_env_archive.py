from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tritonlab.ipc.processes.env_archive import ArchiveError, extract

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
    assert f"its member '{refused}'" in str(caught.value)
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
