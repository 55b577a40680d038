from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.repositories import DESCRIBED, write_repository
from tests.serving import eventually
from tritonlab.notebook.authoring.opened_repository import OpenedRepository
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views.card.opened_view import OpenedView


@pytest.fixture
def view(workspace: Workspace, tmp_path: Path) -> Iterator[OpenedView]:
    root = write_repository(tmp_path / "models")
    (root / "resnet" / "config.pbtxt").write_bytes(DESCRIBED)
    yield OpenedView(OpenedRepository.open(workspace, root))
    workspace.server.core.choose_backend("resnet", "real")  # the server is that of other tests, too


def test_a_model_without_its_backend_is_chosen_for_by_button(view: OpenedView) -> None:
    assert view.state["html"].count("data-choose=") == 1
    assert "data-choose='resnet'></div>" in view.state["html"]
    assert "data-choose" not in view.html()  # nothing is behind the buttons of a page
    view.on_message({"do": "choose", "model": "resnet", "choice": "stand-in"})
    eventually(lambda: "stand-in that invents its answers (zeros)" in view.state["html"])
    assert "data-choose='resnet' data-real></div>" in view.state["html"]
    assert "3 of 5" not in view.html() and "4 of 5 models READY" in view.html()


def test_what_is_not_a_choice_is_refused_below_its_row(view: OpenedView) -> None:
    view.choose("resnet", "borrow:nowhere")
    assert "borrows from" in view.state["html"] and "expected the gRPC address of a server" in view.state["html"]
    assert "FAILED" in view.state["html"]
    view.choose("resnet", "stand-in")
    assert "expected the gRPC address" not in view.state["html"]
