"""The export form below a card, its buttons clicked without a frontend."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models import SILENT
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.tools.deploy.export_panel import ExportPanel

X = b"def InferenceRequest(model_name): pass\n"


def html_of(panel: ExportPanel) -> str:
    return "".join(output["data"]["text/html"] for output in panel.result.outputs)


@pytest.fixture
def panel(workspace: Workspace) -> ExportPanel:
    return ExportPanel(workspace.load("m", SILENT))


def test_an_export_asks_before_it_replaces(panel: ExportPanel, tmp_path: Path) -> None:
    panel.opened()
    panel.directory.value = str(tmp_path / "models")
    panel.write_button.click()
    assert "config.pbtxt" in html_of(panel)
    model = tmp_path / "models" / "m" / "1" / "model.py"
    model.write_text("# edited elsewhere\n")
    panel.write_button.click()
    assert model.read_text() == "# edited elsewhere\n"
    assert "change 1/model.py" in html_of(panel)
    assert panel.replace_button.layout.display == ""
    panel.replace_button.click()
    assert model.read_text() == SILENT
    (backup,) = (tmp_path / "models.backup").iterdir()
    assert (backup / "1" / "model.py").read_text() == "# edited elsewhere\n"
    assert panel.replace_button.layout.display == "none"


def test_what_was_written_is_packed_on_request(
    panel: ExportPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert panel.zip_button.layout.display == "none"
    panel.write_button.click()
    assert f"{tmp_path}/model_repository/" in html_of(panel)
    assert panel.zip_button.layout.display == ""
    panel.zip_button.click()
    assert "<a href='model_repository-m.zip' download=" in html_of(panel)
    assert (tmp_path / "model_repository-m.zip").is_file()


def test_the_models_it_calls_are_offered(workspace: Workspace, tmp_path: Path) -> None:
    workspace.load("callee", SILENT)
    caller = workspace.load("m", SILENT + 'import x; x.InferenceRequest(model_name="callee")\n', files={"x.py": X})
    panel = ExportPanel(caller)
    panel.opened()
    assert (panel.others.layout.display, panel.others.description) == ("", "with callee, which it needs")
    panel.others.value = False
    panel.directory.value = str(tmp_path / "models")
    panel.write_button.click()
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["m"]
    assert "it needs the model &#x27;callee&#x27;" in html_of(panel)
    panel.others.value = True
    panel.write_button.click()
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["callee", "m"]


def test_an_export_that_cannot_be_written_says_why(panel: ExportPanel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    panel.directory.value = str(tmp_path / "file")
    panel.write_button.click()
    assert "tl-bad-note" in html_of(panel)
