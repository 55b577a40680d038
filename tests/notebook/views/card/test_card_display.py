"""When the card of a load is shown, and what it says when the cell ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models import SILENT, initializes
from tritonlab.core.status import ModelLoadError
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views import widget
from tritonlab.notebook.views.card import live_card
from tritonlab.notebook.views.card.card_display import LoadingCard
from tritonlab.notebook.views.card.model_states import ModelStates

SLOW = SILENT + "\n    def initialize(self, args):\n        import time\n        time.sleep(1.5)\n"


@pytest.fixture
def texts(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the first line of every static form that was displayed, as in a kernel."""
    found: list[str] = []

    def display(bundle: dict[str, Any], **how: Any) -> None:
        if bundle["text/plain"]:
            found.append(" ".join(bundle["text/plain"].split("\n")[0].split()[:2]))

    monkeypatch.setattr(widget, "_display", display)
    for module in (widget, live_card):
        monkeypatch.setattr(module, "in_kernel", lambda: True)
    yield found
    states = ModelStates.for_server(workspace.server)
    for card in states.cards.pop("m", []):
        card.close()


def test_a_quick_load_shows_its_card_when_it_has_ended(workspace: Workspace, texts: list[str]) -> None:
    with LoadingCard(workspace, "m"):
        workspace.load("m", SILENT)
    assert texts[-1] == "m READY"


def test_what_is_kept_of_a_slow_load_is_true_when_the_cell_ends(workspace: Workspace, texts: list[str]) -> None:
    with LoadingCard(workspace, "m"):
        workspace.load("m", SLOW)
    assert (texts[0], texts[-1]) == ("m LOADING", "m READY")


def test_a_slow_load_that_fails_says_so_when_the_cell_ends(workspace: Workspace, texts: list[str]) -> None:
    with pytest.raises(ModelLoadError), LoadingCard(workspace, "m"):
        workspace.load("m", SLOW + "        1 / 0\n")
    assert (texts[0], texts[-1]) == ("m LOADING", "m FAILED")


def test_a_quick_load_that_fails_leaves_it_to_the_error(workspace: Workspace, texts: list[str]) -> None:
    with pytest.raises(ModelLoadError), LoadingCard(workspace, "m"):
        workspace.load("m", initializes("1 / 0"))
    assert texts == [] or texts[-1] == "m FAILED"  # a busy machine takes its time to fail


def test_quiet_is_quiet(workspace: Workspace, texts: list[str]) -> None:
    with LoadingCard(workspace, "m", quiet=True):
        workspace.load("m", SLOW)
    assert texts == []
