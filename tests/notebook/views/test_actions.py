"""The buttons below the card, clicked without a frontend."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views.actions import CardActions

SOURCE = "class TritonPythonModel:\n    def execute(self, requests):\n        return [None for _ in requests]\n"
X = b"def InferenceRequest(model_name): pass\n"


def shown(actions: CardActions) -> str:
    return "".join(output["data"]["text/html"] for output in actions.export_result.outputs)


@pytest.fixture
def actions(workspace: Workspace) -> CardActions:
    told: list[str] = []
    actions = CardActions(workspace, workspace.load("m", SOURCE), lambda error: "", lambda: told.append("unloaded"))
    actions.told = told  # type: ignore[attr-defined]
    return actions


def test_the_playground_comes_and_goes(actions: CardActions) -> None:
    actions.playground_button.click()
    assert actions.playground is not None
    assert actions.panel.children == (actions.playground.widget,)
    actions.playground_button.click()
    assert actions.panel.children == ()


def test_an_export_asks_before_it_replaces(actions: CardActions, tmp_path: Path) -> None:
    actions.export_button.click()
    actions.directory.value = str(tmp_path / "models")
    actions.write_button.click()
    assert "config.pbtxt" in shown(actions)
    model = tmp_path / "models" / "m" / "1" / "model.py"
    model.write_text("# edited elsewhere\n")
    actions.write_button.click()
    assert model.read_text() == "# edited elsewhere\n"
    assert "change 1/model.py" in shown(actions)
    assert actions.replace_button.layout.display == ""
    actions.replace_button.click()
    assert model.read_text() == SOURCE
    (backup,) = (tmp_path / "models.backup").iterdir()
    assert (backup / "1" / "model.py").read_text() == "# edited elsewhere\n"
    assert actions.replace_button.layout.display == "none"


def test_what_was_written_is_packed_on_request(
    actions: CardActions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert actions.zip_button.layout.display == "none"
    actions.write_button.click()
    assert f"{tmp_path}/model_repository/" in shown(actions)
    assert actions.zip_button.layout.display == ""
    actions.zip_button.click()
    assert "<a href='model_repository-m.zip' download=" in shown(actions)
    assert (tmp_path / "model_repository-m.zip").is_file()


def test_the_models_it_calls_are_offered(workspace: Workspace, tmp_path: Path) -> None:
    workspace.load("callee", SOURCE)
    caller = workspace.load("m", SOURCE + 'import x; x.InferenceRequest(model_name="callee")\n', files={"x.py": X})
    actions = CardActions(workspace, caller, lambda error: "", lambda: None)
    actions.ask_export()
    assert (actions.others.layout.display, actions.others.description) == ("", "with callee, which it needs")
    actions.others.value = False
    actions.directory.value = str(tmp_path / "models")
    actions.write_button.click()
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["m"]
    assert "it needs the model &#x27;callee&#x27;" in shown(actions)
    actions.others.value = True
    actions.write_button.click()
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["callee", "m"]


def test_an_export_that_cannot_be_written_says_why(actions: CardActions, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    actions.directory.value = str(tmp_path / "file")
    actions.write_button.click()
    assert "tl-bad-note" in shown(actions)


def test_unload_ends_the_buttons(actions: CardActions, workspace: Workspace) -> None:
    actions.unload_button.click()
    assert workspace.server.model("m").state == "UNAVAILABLE"
    assert actions.playground_button.disabled
    assert actions.told == ["unloaded"]  # type: ignore[attr-defined]
