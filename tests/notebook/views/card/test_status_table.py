"""The live table of `%triton status`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models import SILENT
from tritonlab.notebook.authoring import workspace as notebook
from tritonlab.notebook.views import widget
from tritonlab.notebook.views.card import status_table as module
from tritonlab.notebook.views.card.status_table import StatusRow, StatusTable, StatusView, status_table
from tritonlab.server.api.model import Model


class Server:
    def draining(self) -> list[Any]:
        return []


class Workspace:
    """A workspace of one model in a state of the test's choice."""

    server = Server()

    def __init__(self, state: str) -> None:
        self.state = state


class States:
    def __init__(self) -> None:
        self.followers: list[Any] = []

    def follow(self, look: Any, model: str = "") -> None:
        self.followers.append(look)

    def leave(self, look: Any) -> None:
        self.followers.remove(look)


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(widget, "_display", lambda bundle, **how: found.append(bundle["text/plain"]))
    monkeypatch.setattr(widget, "in_kernel", lambda: True)
    monkeypatch.setattr(widget, "show_widget", lambda live: None)
    monkeypatch.setattr(module, "in_kernel", lambda: True)
    monkeypatch.setattr(module.ModelStates, "for_server", lambda server: States())
    monkeypatch.setattr(module, "status_table", lambda of: StatusTable([StatusRow("m", "1", of.state)], of.state))
    return found


def test_the_stored_status_is_that_of_its_cell(displayed: list[str]) -> None:
    workspace: Any = Workspace("READY")
    view = StatusView(workspace)
    view.show()
    workspace.state = "LOADING"
    assert view.refresh()
    workspace.state = "UNLOADED"
    assert not view.refresh()
    assert len(displayed) == 1 and "READY" in displayed[0]
    assert "UNLOADED" in view.state["html"]  # the live table goes on


def test_a_model_that_ends_while_the_table_is_made_has_a_row(
    workspace: notebook.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    statistics = Model.statistics

    def late(model: Model) -> dict[str, Any]:
        workspace.unload("ended")
        return statistics(model)

    workspace.load("ended", SILENT)
    monkeypatch.setattr(Model, "statistics", late)
    (row,) = [row for row in status_table(workspace).rows if row.name == "ended"]
    assert row == StatusRow("ended", "1", "UNLOADED")


def test_a_status_that_has_ended_follows_no_models(displayed: list[str]) -> None:
    workspace: Any = Workspace("READY")
    view = StatusView(workspace)
    view.show()
    states: Any = view._states
    assert states.followers == [view.refresh]
    view.close()
    assert states.followers == []


def test_a_status_while_a_model_loads_is_stored_once_it_has_settled(displayed: list[str]) -> None:
    workspace: Any = Workspace("LOADING")
    view = StatusView(workspace)
    view.show()
    for state in ("LOADING", "READY", "LOADING", "UNLOADED"):
        workspace.state = state
        view.refresh()
    assert ["LOADING" in displayed[0], "READY" in displayed[-1], len(displayed)] == [True, True, 2]


def test_the_next_status_ends_the_wait_for_the_one_before(displayed: list[str]) -> None:
    workspace: Any = Workspace("LOADING")
    first, second = StatusView(workspace), StatusView(workspace)
    first.show()
    second.show()
    workspace.state = "READY"
    first.refresh()
    assert len(displayed) == 2
    second.refresh()
    assert "READY" in displayed[2]
