"""The buttons below the card, clicked without a frontend."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views.actions import CardActions

SOURCE = "class TritonPythonModel:\n    def execute(self, requests):\n        return [None for _ in requests]\n"


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
    assert "config.pbtxt" in actions.export_result.value
    model = tmp_path / "models" / "m" / "1" / "model.py"
    model.write_text("# edited elsewhere\n")
    actions.write_button.click()
    assert model.read_text() == "# edited elsewhere\n"
    assert "change 1/model.py" in actions.export_result.value
    assert actions.replace_button.layout.display == ""
    actions.replace_button.click()
    assert model.read_text() == SOURCE
    (backup,) = (tmp_path / "models.backup").iterdir()
    assert (backup / "1" / "model.py").read_text() == "# edited elsewhere\n"
    assert actions.replace_button.layout.display == "none"


def test_an_export_that_cannot_be_written_says_why(actions: CardActions, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    actions.directory.value = str(tmp_path / "file")
    actions.write_button.click()
    assert "tl-bad-note" in actions.export_result.value


def test_unload_ends_the_buttons(actions: CardActions, workspace: Workspace) -> None:
    actions.unload_button.click()
    assert workspace.server.model("m").state == "UNAVAILABLE"
    assert actions.playground_button.disabled
    assert actions.told == ["unloaded"]  # type: ignore[attr-defined]
