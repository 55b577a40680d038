from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from hypothesis import assume, example, given
from IPython.core.interactiveshell import InteractiveShell
from markdown_it import MarkdownIt

from tests.hostile import DIRECTORY_NAMES, nothing_runs, quick
from tests.notebook.repositories import contents, write_repository
from tritonlab.core.status import AlreadyExistsError
from tritonlab.notebook.authoring.cell_text import split_cell
from tritonlab.notebook.authoring.errors import FileError
from tritonlab.notebook.authoring.imported_notebook import import_repository
from tritonlab.repository.layout import is_model_directory
from tritonlab.repository.model_names import name_fault


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_repository(tmp_path / "models")


def test_a_repository_becomes_a_notebook(root: Path) -> None:
    before = contents(root)
    written = import_repository(root)
    assert written.path == root.with_name("models.ipynb")
    assert contents(root) == before
    notebook = nbformat.read(written.path, as_version=4)
    nbformat.validate(notebook)
    texts = [cell.source for cell in notebook.cells]
    assert texts[0].startswith("# `models`")
    assert "| `resnet` | backend `tensorrt` | stays in the repository |" in texts[0]
    assert "opened = tritonlab.open('models', models=['resnet'])" in texts[2]
    heads = [text.split("\n")[0] for text in texts if text.startswith("%%")]
    assert heads == [
        "%%triton_config pre",
        "%%triton_file pre helper.py",
        "%%triton_model pre --base models/pre",
        "%%triton_config post",
        "%%triton_model post --base models/post",
        "%%triton_config all --base models/all",
        "%%triton_config template",
        "%%triton_model template --base models/template",
    ]
    assert "Used from the repository: `1/latest`, `1/weights.txt`, `notes.md`." in "\n".join(texts)
    assert texts[-1] == "opened.export('models_exported', overwrite=True)"
    # Run All goes on after what cannot load
    failing = [cell.source.split()[1] for cell in notebook.cells if "raises-exception" in cell.metadata.get("tags", ())]
    assert failing == ["template", "template"]
    assert written.to_dict()["left"] == {"resnet": "it is of backend tensorrt"}


def test_equal_repositories_give_equal_notebooks(root: Path, tmp_path: Path) -> None:
    first = import_repository(root, tmp_path / "1.ipynb").path.read_bytes()
    assert import_repository(root, tmp_path / "2.ipynb").path.read_bytes() == first


def test_a_notebook_that_is_there_stays(root: Path) -> None:
    import_repository(root)
    with pytest.raises(AlreadyExistsError, match=r"models\.ipynb is there already: overwrite=True"):
        import_repository(root)
    import_repository(root, overwrite=True)
    with pytest.raises(FileError, match="there is no directory"):
        import_repository(root / "nowhere")


def test_the_notebook_runs_and_exports_the_same(root: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    written = import_repository(root)
    notebook = nbformat.read(written.path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert contents(tmp_path / "models_exported") == contents(root)


def test_names_stay_names_in_a_notebook(shell: InteractiveShell, tmp_path: Path) -> None:
    source = "# a model\n"

    @quick
    @given(DIRECTORY_NAMES, DIRECTORY_NAMES)
    @example("{RAN.append(1)}", "a")
    @example("a\nRAN.append(1)", "a")
    @example("it's", "a b")
    @example("`<b>|", "$x.y")
    def check(model: str, file: str) -> None:
        root = tmp_path / "models"
        shutil.rmtree(root, ignore_errors=True)
        version = root / model / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(source)
        (version / f"{file}.py").write_text("x = 1\n")
        assume(not is_model_directory(root))
        written = import_repository(root, overwrite=True)
        opened, cells = [], {}
        for cell in nbformat.read(written.path, as_version=4).cells:
            if cell.cell_type == "markdown":
                tags = re.findall("<([a-z0-9]+)", MarkdownIt().enable("table").render(cell.source))
                assert set(tags) <= {"h1", "h2", "p", "code", "table", "thead", "tbody", "tr", "th", "td"}
            elif cell.source.startswith("%%"):
                first, *more = cell.source.split("\n", 1)
                with nothing_runs():
                    line, body = split_cell("\n".join([shell.var_expand(first), *more]), shell.var_expand)
                magic, *words = shlex.split(line)
                cells[magic, *words] = body
            elif "tritonlab.open" in cell.source:
                fake = SimpleNamespace(open=lambda path, models: opened.append((path, models)))
                with nothing_runs():
                    exec(cell.source, {"tritonlab": fake})
        if model.startswith("."):  # it is hidden
            return
        assert opened == [("models", [*written.left])]
        if written.left:
            assert [*written.left] == [model] and not cells and name_fault(model) in written.left[model]
        else:
            assert not name_fault(model)
            assert cells.pop(("%%triton_model", model, "--base", f"models/{model}")) == source.strip()
            assert list(cells) in ([], [("%%triton_file", model, f"{file}.py")])

    check()


def test_no_cell_has_the_text_of_a_file_outside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("# secret")
    (root / "pre" / "1" / "helper.py").unlink()
    (root / "pre" / "1" / "helper.py").symlink_to(tmp_path / "key")
    (root / "post" / "1" / "model.py").unlink()
    (root / "post" / "1" / "model.py").symlink_to(tmp_path / "key")
    (root / "template" / "config.pbtxt").unlink()
    (root / "template" / "config.pbtxt").symlink_to(tmp_path / "key")
    written = import_repository(root)
    assert "secret" not in written.path.read_text() and "1/model.py of 'post' is a link" in written.left["post"]


@pytest.mark.parametrize(("end", "text"), [("v-1", "v-1"), ("../../elsewhere", "{}/elsewhere")])
def test_a_version_that_is_a_link_stays_in_the_repository(tmp_path: Path, end: str, text: str) -> None:
    model = tmp_path / "models" / "m"
    for directory in (model / "v-1", tmp_path / "elsewhere"):
        directory.mkdir(parents=True)
        (directory / "model.py").write_text("pass\n")
    (model / "config.pbtxt").write_text('backend: "python"\n')
    (model / "1").symlink_to(end)
    written = import_repository(tmp_path / "models")
    leads_to = text.format(tmp_path)
    assert f"1 of 'm' is a link to {leads_to!r}: edit the file to which it leads" in written.left["m"]
