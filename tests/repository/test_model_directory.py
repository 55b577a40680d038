from __future__ import annotations

from pathlib import Path

from tritonlab.repository.model_directory import ModelDirectory


def content(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def directory(tmp_path: Path) -> ModelDirectory:
    for name in ("repository", "spare"):
        (tmp_path / name).mkdir()
    return ModelDirectory(tmp_path / "repository" / "m", tmp_path / "spare")


def test_the_tree_is_replaced_as_a_whole(tmp_path: Path) -> None:
    model = directory(tmp_path)
    model.replace({"1/model.py": b"a", "1/old.py": b"b"})
    model.replace({"1/model.py": b"c"})
    model.forget()
    assert content(model.path) == {"1/model.py": b"c"}
    assert content(tmp_path / "spare") == {}


def test_restore_puts_back_what_was_there(tmp_path: Path) -> None:
    model = directory(tmp_path)
    model.replace({"1/model.py": b"good"})
    model.forget()
    model.replace({"1/model.py": b"bad", "x": b""})
    model.restore()
    assert content(model.path) == {"1/model.py": b"good"}
    model.restore()
    assert content(model.path) == {"1/model.py": b"good"}


def test_a_big_file_is_copied_once(tmp_path: Path) -> None:
    weights = tmp_path / "w.bin"
    weights.write_bytes(b"1" * 100)
    model = directory(tmp_path)
    model.replace({"1/w.bin": weights})
    first = (model.path / "1" / "w.bin").stat().st_ino
    model.replace({"1/w.bin": weights})
    model.forget()
    assert (model.path / "1" / "w.bin").stat().st_ino == first
    weights.write_bytes(b"2" * 101)
    model.replace({"1/w.bin": weights})
    assert (model.path / "1" / "w.bin").read_bytes() == b"2" * 101


def test_an_ensemble_has_an_empty_version_directory(tmp_path: Path) -> None:
    (tmp_path / "spare").mkdir()
    directory = ModelDirectory(tmp_path / "m", tmp_path / "spare")
    directory.replace({"config.pbtxt": b""}, 2)
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["2", "config.pbtxt"]
    assert (tmp_path / "m" / "2").is_dir()
