from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tritonlab.repository.model_tree import Omission, Omitted, read_tree, shortened
from tritonlab.tools.deploy.left_out import sentences


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text("pass\n")
    return tmp_path / "m"


def test_modes_links_and_empty_directories_are_copied_as_they_are(root: Path, tmp_path: Path) -> None:
    (root / "1" / "x.sh").write_text("#!/bin/sh\n")
    (root / "1" / "x.sh").chmod(0o750)
    (root / "lib").mkdir()
    (root / "lib" / "a.txt").write_text("a")
    (root / "lib64").symlink_to("lib")
    (root / "1" / "b.txt").symlink_to("../lib/a.txt")
    (root / "empty" / "within").mkdir(parents=True)
    read_tree(root, include=()).copy(tmp_path / "copy")
    copy = tmp_path / "copy"
    assert (copy / "1" / "x.sh").stat().st_mode & 0o777 == 0o750
    assert (os.readlink(copy / "lib64"), os.readlink(copy / "1" / "b.txt")) == ("lib", "../lib/a.txt")
    assert (copy / "empty" / "within").is_dir()
    assert sorted(os.listdir(copy)) == ["1", "empty", "lib", "lib64"]


def test_a_link_out_of_the_directory_brings_what_it_leads_to_if_that_is_inside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shared" / "deep").mkdir(parents=True)
    (tmp_path / "shared" / "deep" / "a.txt").write_text("a")
    (tmp_path / "shared" / "deep" / "again").symlink_to("..")  # a circle
    (root / "absolute").symlink_to(tmp_path / "shared")
    (root / "relative").symlink_to("../shared/deep/a.txt")
    tree = read_tree(root, include=(), inside=[tmp_path])
    assert tree.files == ["1/model.py", "absolute/deep/a.txt", "relative"]
    assert (tree.links, tree.left_out) == ({}, [])
    shared, deep = str(tmp_path / "shared"), str(tmp_path / "shared" / "deep" / "a.txt")
    tree = read_tree(root, include=())
    assert (tree.files, tree.links) == (["1/model.py"], {})
    assert tree.left_out == [
        Omitted("absolute", Omission.OUTSIDE, shared),
        Omitted("relative", Omission.OUTSIDE, deep),
    ]
    # what needs all of it to run, and ships none, has links
    assert read_tree(root).links == {"absolute": shared, "relative": deep}


def test_files_outside_are_taken_if_they_are_requested(root: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "sub").mkdir(parents=True)
    (tmp_path / "home" / "a.txt").write_text("a")
    (tmp_path / "home" / "sub" / "up").symlink_to("../a.txt")
    (tmp_path / "home" / "key").symlink_to("../key")
    (tmp_path / "key").write_text("k")
    (root / "home").symlink_to(tmp_path / "home")
    tree = read_tree(root, include=["home"])
    assert tree.files == ["1/model.py", "home/a.txt", "home/sub/up"]
    assert tree.left_out == [Omitted("home/key", Omission.OUTSIDE, str(tmp_path / "key"))]
    assert read_tree(root, include=["home", "key"]).files[-2:] == ["home/key", "home/sub/up"]


def test_a_link_through_a_directory_that_leads_out_leads_out(root: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a.txt").write_text("a")
    (root / "env" / "bin").mkdir(parents=True)
    (root / "env" / "bin" / "activate").touch()
    (root / "env" / "home").symlink_to(tmp_path / "home")
    (root / "1" / "a.txt").symlink_to("../env/home/a.txt")
    tree = read_tree(root, include=())
    assert [each.path for each in tree.left_out] == ["1/a.txt", "env/home"]
    assert tree.files == ["1/model.py", "env/bin/activate"] and not tree.links


def test_a_repository_that_is_itself_a_link_is_no_way_out(root: Path, tmp_path: Path) -> None:
    (root / "1" / "a.txt").write_text("a")
    (root / "b.txt").symlink_to(root / "1" / "a.txt")  # absolute, and inside
    (tmp_path / "link").symlink_to(root)
    tree = read_tree(tmp_path / "link", include=())
    assert tree.files == ["1/a.txt", "1/model.py", "b.txt"] and not tree.left_out


def test_a_dangling_link_and_one_to_what_is_left_out_are_named(root: Path) -> None:
    (root / "1" / "gone.bin").symlink_to("../nowhere")
    (root / ".secret").write_text("x")
    (root / "seen").symlink_to(".secret")
    tree = read_tree(root, include=())
    assert tree.left_out == [
        Omitted(".secret", Omission.HIDDEN),
        Omitted("1/gone.bin", Omission.DANGLING, "../nowhere"),
        Omitted("seen", Omission.DANGLING, ".secret"),
    ]
    assert tree.links == {}


def test_hidden_and_large_files_are_left_out_unless_they_are_requested(root: Path) -> None:
    (root / ".env").write_text("TOKEN=1")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("x")
    (root / "1" / ".gitkeep").touch()
    (root / "1" / "weights.bin").write_bytes(b"12345")
    (root / "1" / "__pycache__").mkdir()

    def files(*include: str, **settings: object) -> list[str]:
        return read_tree(root, include=include, large=4, **settings).files  # type: ignore[arg-type]

    left = read_tree(root, include=(), large=4).left_out
    assert [(each.path, each.reason.value, each.detail) for each in left] == [
        (".env", "hidden", ""),
        (".git/", "hidden", ""),
        ("1/model.py", "large", "5"),
        ("1/weights.bin", "large", "5"),
    ]
    assert files() == ["1/.gitkeep"]
    assert files("*.bin", ".env") == [".env", "1/.gitkeep", "1/weights.bin"]
    assert files("1/model.py", ".git") == [".git/HEAD", "1/.gitkeep", "1/model.py"]
    assert files(needed=["1/weights.bin"]) == ["1/.gitkeep", "1/weights.bin"]
    assert read_tree(root, large=4).files == [".env", ".git/HEAD", "1/.gitkeep", "1/model.py", "1/weights.bin"]


def test_an_environment_is_taken_as_it_is(root: Path) -> None:
    (root / "env" / "bin").mkdir(parents=True)
    (root / "env" / "bin" / "activate").touch()
    (root / "env" / "pkg" / ".libs").mkdir(parents=True)
    (root / "env" / "pkg" / ".libs" / "a.so").write_bytes(b"123456")
    tree = read_tree(root, include=(), large=5)
    assert "env/pkg/.libs/a.so" in tree.files and tree.left_out == []


def test_a_directory_with_many_files_is_one_line() -> None:
    paths = ["1/model.py", *(f"env/lib/p{n}/x.py" for n in range(3365)), "env/bin/python", "labels.txt", "empty/"]
    assert shortened(paths) == ["1/model.py", "empty/", "env/…  (3,366 files)", "labels.txt"]
    assert shortened([f"1/f{n:02}" for n in range(30)], most=4) == ["1/f00", "1/f01", "1/…  (28 more files)"]
    assert shortened(["1/a/b", "1/c"]) == ["1/a/b", "1/c"]


def test_what_is_no_file_is_named(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "1" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        (root / "1" / "link").symlink_to("pipe")
        tree = read_tree(root, include=())
    assert (tree.files, tree.links) == (["1/model.py"], {})
    assert tree.left_out == [
        Omitted("1/pipe", Omission.SPECIAL, "a pipe"),
        Omitted("socket", Omission.SPECIAL, "a socket"),
        Omitted("1/link", Omission.DANGLING, "pipe"),
    ]
    assert next(sentences(tree.left_out)) == (
        "1/pipe is a pipe and was left out: remove it, or put a file in its place"
    )
