from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.notebook.repositories import contents, write_repository
from tritonlab.core.status import AlreadyExistsError
from tritonlab.notebook.authoring.errors import FileError
from tritonlab.notebook.authoring.imported_notebook import import_repository


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
    assert texts[0].startswith("# models") and "| `resnet` | backend tensorrt | stays in the repository |" in texts[0]
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
