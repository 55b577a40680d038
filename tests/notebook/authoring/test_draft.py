from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ensembles import ensemble_text, step
from tritonlab.notebook.authoring.base_directory import BaseDirectory
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.config_text import ConfigText
from tritonlab.notebook.authoring.draft import Draft, model_path, read_model
from tritonlab.notebook.authoring.errors import FileError, OptionError, SourceError
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.notebook.authoring.source_map import Segment

SOURCE = "class TritonPythonModel:\n    pass\n"


@pytest.mark.parametrize(
    ("path", "found"),
    [("h.py", "2/h.py"), ("a/b.txt", "2/a/b.txt"), ("../labels.txt", "labels.txt"), ("./h.py", "2/h.py")],
)
def test_paths_start_at_the_version_directory(path: str, found: str) -> None:
    assert model_path(path, 2) == found


@pytest.mark.parametrize("path", ["../../x", "/etc/passwd", "..", ".", "../config.pbtxt", "../../m/1/model.py"])
def test_paths_do_not_leave_the_model(path: str) -> None:
    with pytest.raises(FileError):
        model_path(path, 1)


def test_text_of_a_cell_knows_its_lines() -> None:
    draft = Draft("m").with_source(SOURCE, "<cell>", 3)
    assert draft.source is not None
    assert draft.source.segments == (Segment(1, 4, "<cell>", 3),)
    assert draft.tree["1/model.py"].text() == SOURCE


def test_a_directory_keeps_the_bytes_of_a_comment_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(SOURCE)
    (tmp_path / "config.pbtxt").write_bytes(b"# caf\xe9\nmax_batch_size: 2\n")
    draft = read_model("m", tmp_path)
    assert draft.config.message.max_batch_size == 2
    assert draft.config_content is not None
    assert draft.config_content.startswith((tmp_path / "config.pbtxt").read_bytes())


def test_a_new_source_drops_what_came_with_the_last_load_call(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"1")
    draft = Draft("m").with_source(SOURCE).with_files([tmp_path / "w.bin"]).with_config("max_batch_size: 2")
    assert "1/w.bin" in draft.tree
    assert draft.config.text == "max_batch_size: 2"
    again = draft.with_source(SOURCE)
    assert "1/w.bin" not in again.tree
    assert not again.config.says_something


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("/nowhere/model.py", FileError, "No such file or directory: /nowhere/model.py"),
        ("class TritonPythonModel: pass", FileError, "No such file or directory: class TritonPythonModel: pass"),
        ("x" * 300, FileError, "a file name is too long: .x"),
        (5, SourceError, "a source is a text, a class or a path, not of type int"),
    ],
)
def test_what_is_no_source_is_refused(source: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Draft("m").with_source(source)


def test_another_version_leaves_the_first_where_it_is() -> None:
    draft = Draft("m").with_source(SOURCE).with_files({"h.py": b"x = 1\n"}).with_version(2).with_source("import os\n")
    assert {path: file.text() for path, file in draft.tree.items()} == {
        "1/model.py": SOURCE,
        "1/h.py": "x = 1\n",
        "2/model.py": "import os\n",
    }


def test_two_whole_configs_are_one_too_many() -> None:
    draft = replace(Draft("m"), cell_config=ConfigText("max_batch_size: 1", "Cell In[2]"))
    with pytest.raises(OptionError, match=re.escape("Cell In[2] and config= both give the whole config")):
        draft.with_config({"max_batch_size": 2})
    assert draft.with_config("# nothing\n").config.source == "Cell In[2]"


def test_files_that_are_not_there_are_named() -> None:
    with pytest.raises(FileError, match=r"there is no file 'nowhere/w.pt' in "):
        Draft("m").with_files(["nowhere/w.pt"])
    with pytest.raises(FileError, match=r"no config file 'nowhere'"):
        Draft("m").with_config("nowhere")


def test_a_model_directory_is_read_whole(tmp_path: Path) -> None:
    model = tmp_path / "models" / "m"
    for path in ("1/model.py", "2/model.py", "2/helper.py", "labels.txt", "01/model.py", "2/__pycache__/x.pyc"):
        (model / path).parent.mkdir(parents=True, exist_ok=True)
        (model / path).write_text(f"# {path}\n")
    (model / "config.pbtxt").write_text("max_batch_size: 4\n")
    draft = Draft("m").with_source(model)
    assert draft.version == 2
    assert sorted(draft.tree) == ["01/model.py", "1/model.py", "2/helper.py", "2/model.py", "labels.txt"]
    assert draft.config.text == "max_batch_size: 4\n"
    assert draft.source is not None
    assert draft.source.segments[0].origin == str(model / "2" / "model.py")
    with pytest.raises(FileError, match="it is a repository, load one of m"):
        Draft("m").with_source(tmp_path / "models")


ENSEMBLE = ensemble_text(step("part", "IN=X", "OUT=Y"))


def test_an_ensemble_needs_no_source() -> None:
    draft = Draft("m")
    assert not draft.loadable
    draft = draft.with_config(ENSEMBLE)
    assert draft.loadable
    assert draft.is_ensemble
    assert draft.tree == {}


def test_the_directory_of_an_ensemble_is_read_without_a_source(tmp_path: Path) -> None:
    (tmp_path / "3").mkdir()
    (tmp_path / "config.pbtxt").write_text(ENSEMBLE)
    draft = Draft("m").with_source(tmp_path)
    assert (draft.version, draft.source, draft.is_ensemble) == (3, None, True)
    (tmp_path / "config.pbtxt").write_text("max_batch_size: 4\n")
    with pytest.raises(FileError, match="is not a model directory"):
        Draft("m").with_source(tmp_path)


AUTHORED = "# rows of numbers\nmax_batch_size: 4  # enough\ninstance_group { count: 1 }  # one is enough, too\n"


def test_the_authors_text_is_kept_and_what_is_missing_stands_after_it() -> None:
    draft = replace(Draft("m"), cell_config=ConfigText(AUTHORED, "the cell", model="m"))
    assert draft.config_file == f'{AUTHORED}# added by tritonlab\nname: "m"\nbackend: "python"\n'
    options = replace(draft, options=ConfigOptions(inputs=["IN:FP32[-1]"]))
    assert options.config_file.startswith(draft.config_file.replace('name: "m"\nbackend: "python"\n', ""))
    assert "TYPE_FP32" in options.config_file


def test_a_text_that_has_to_change_within_says_that_its_comments_are_gone() -> None:
    draft = replace(Draft("m"), cell_config=ConfigText(AUTHORED, "the cell", model="m"))
    printed = replace(draft, settings=Settings.from_config(draft.config.message).changed(instances=2)).config_file
    assert printed.startswith("# rewritten, without the comments of the cell\nname:")
    assert "count: 2" in printed and "enough" not in printed


def test_the_config_of_a_directory_is_kept_byte_for_byte(tmp_path: Path) -> None:
    text = 'name: "m"  # mine\r\nbackend: "python"\r\n'
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(SOURCE)
    (tmp_path / "config.pbtxt").write_bytes(text.encode())
    assert Draft("m").with_source(tmp_path).config_file == text
    assert Draft("m").with_source(SOURCE).with_config(tmp_path / "config.pbtxt").config_file == text


NAMED = 'default_model_filename: "postprocess.py"\n'


def test_the_source_is_written_under_the_name_that_the_config_gives() -> None:
    draft = Draft("m").with_source(SOURCE).with_config(NAMED)
    assert draft.model_path == "1/postprocess.py"
    assert list(draft.all_files()) == ["1/postprocess.py", "config.pbtxt"]
    later = draft.with_version(2).with_source("import os\n").with_config(NAMED)
    assert list(later.tree) == ["1/postprocess.py", "2/postprocess.py"]
    assert Draft("m").with_source(SOURCE).with_config('default_model_filename: "a/b.py"').model_path == "1/a/b.py"


def test_a_config_that_cannot_be_read_gives_no_name() -> None:
    draft = Draft("m").with_source(SOURCE).with_config("default_model_filename: 5\n")
    assert draft.model_path == "1/model.py"


def test_a_name_outside_of_the_model_is_refused() -> None:
    with pytest.raises(FileError, match=r"'\.\./\.\./x\.py' is not a file below the model's directory"):
        Draft("m").with_source(SOURCE).with_config('default_model_filename: "../../x.py"').all_files()


def test_a_directory_whose_config_names_the_file(tmp_path: Path) -> None:
    for name, text in (("1/postprocess.py", SOURCE), ("1/model.py", "not this\n"), ("config.pbtxt", NAMED)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    draft = Draft("m").with_source(tmp_path)
    assert draft.source is not None
    assert draft.source.text() == SOURCE
    assert sorted(draft.all_files()) == ["1/model.py", "1/postprocess.py", "config.pbtxt"]
    (tmp_path / "1" / "postprocess.py").unlink()
    with pytest.raises(FileError, match=r"is not a model directory: it has no <version>/postprocess\.py"):
        Draft("m").with_source(tmp_path)


def test_a_package_is_brought_with_all_that_is_in_it(tmp_path: Path) -> None:
    """As pre-flight advises: --file and the directory of the package."""
    package = tmp_path / "tools"
    for file in ("__init__.py", "deep/__init__.py", "__pycache__/x.pyc", ".git/config"):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text("")
    draft = Draft("m").with_source(SOURCE).with_files([package])
    assert {"1/tools/__init__.py", "1/tools/deep/__init__.py", "1/model.py"} == set(draft.tree)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="there is no file in the directory"):
        Draft("m").with_files([tmp_path / "empty"])


@pytest.mark.parametrize("end", ["v-1", "../elsewhere"])
def test_a_version_that_is_a_link_is_read_as_a_directory(tmp_path: Path, end: str) -> None:
    model = tmp_path / "m"
    for directory in (model / "v-1", tmp_path / "elsewhere"):
        directory.mkdir(parents=True)
        (directory / "model.py").write_text("pass\n")
        (directory / "helper.py").write_text("x = 1\n")
    (model / "1").symlink_to(end)
    draft = Draft("m").with_source(model)
    assert {"1/model.py", "1/helper.py"} <= {*draft.tree} and "1" not in draft.tree


def test_a_version_of_the_base_that_is_a_link_has_links_to_its_files(tmp_path: Path) -> None:
    model = tmp_path / "m"
    (model / "v-1").mkdir(parents=True)
    (model / "v-1" / "model.py").write_text("pass\n")
    (model / "1").symlink_to("v-1")
    (model / "2").symlink_to("nowhere")
    files = BaseDirectory.read(model).files()
    assert sorted(files) == ["1/model.py", "v-1/model.py"] and files["1/model.py"].link == str(model / "1" / "model.py")


def test_an_empty_source_is_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    source = Draft("m").with_source("").source
    assert source is not None and source.text() == ""


def test_the_files_of_the_working_directory_are_below_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "inner" / "a.py").write_text("")
    for directory, path in (("package", "."), ("package/inner", "..")):
        monkeypatch.chdir(tmp_path / directory)
        assert list(Draft("m").with_files([path]).tree) == ["1/package/inner/a.py"]


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for directory in ("a", "b"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "w.bin").write_text(directory)
    with pytest.raises(FileError, match=r"^two files are named 'w.bin', of which one would be lost: load"):
        Draft("m").with_files([tmp_path / "a" / "w.bin", tmp_path / "b" / "w.bin"])
    assert list(Draft("m").with_files([tmp_path / "a" / "w.bin"] * 2).tree) == ["1/w.bin"]
