"""The card follows its model, and its buttons act, without a frontend."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from comm import get_comm_manager

from tests.models import SILENT, initializes
from tests.serving import eventually
from tritonlab.core.status import ModelLoadError
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.workspace import NoShell, Workspace
from tritonlab.notebook.shell.comm_calls import overview
from tritonlab.notebook.views import widget
from tritonlab.notebook.views.card import hanging, live_card
from tritonlab.notebook.views.card.live_card import LiveCard, loading_card
from tritonlab.notebook.views.card.model_states import ModelStates
from tritonlab.notebook.views.card.status_table import StatusView
from tritonlab.notebook.views.record.graph import Graph
from tritonlab.notebook.views.record.streams import Streams
from tritonlab.notebook.views.record.timeline import Timeline
from tritonlab.notebook.views.record.view_panel import ViewPanel

BROKEN = initializes("print('about to fail')\n1 / 0")
SLOW = "import time\n" + initializes('print("fetching weights", flush=True)\ntime.sleep(600)')
HUNG = SILENT.replace("return [None for", "import time; time.sleep(600); return [None for")


@pytest.fixture
def bundles(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what is displayed, as in a kernel."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "_display", lambda bundle, **how: found.append(bundle))
    monkeypatch.setattr(widget, "in_kernel", lambda: True)
    monkeypatch.setattr(live_card, "in_kernel", lambda: True)
    return found


@pytest.fixture
def states(workspace: Workspace, bundles: list[dict[str, Any]]) -> Iterator[ModelStates]:
    """Return the server's store, which follows nothing after the test."""
    states = ModelStates.for_server(workspace.server)
    workspace.changed = states.poke
    yield states
    for cards in states.cards.values():
        for card in cards:
            states.leave(card.refresh)
    states.playgrounds.clear()
    states.opened.clear()
    states.cards.clear()


@pytest.fixture
def card(workspace: Workspace, states: ModelStates) -> LiveCard:
    workspace.load("m", SILENT)
    card = LiveCard(workspace, "m")
    card.show()
    return card


def reaches(card: LiveCard, state: str) -> None:
    eventually(lambda: card.state["state"] == state)


def buttons(card: LiveCard) -> list[str]:
    return [button["do"] for button in card.state["buttons"]]


def viewing(card: LiveCard) -> ViewPanel:
    panel = card._panel_of("view")
    assert isinstance(panel, ViewPanel)
    return panel


def test_it_follows_what_anybody_does(card: LiveCard, workspace: Workspace, bundles: list[dict[str, Any]]) -> None:
    assert card.state["state"] == "READY"
    assert buttons(card) == ["playground", "view", "check", "export", "replay", "push", "unload"]
    workspace.server.unload("m")
    reaches(card, "UNLOADED")
    assert buttons(card) == ["load"]
    eventually(lambda: "was UNLOADED at " in bundles[-1]["text/html"])
    workspace.load("m")
    reaches(card, "READY")
    eventually(lambda: "was READY at " in bundles[-1]["text/html"])
    with pytest.raises(ModelLoadError):
        workspace.load("m", BROKEN)
    eventually(lambda: "keeps serving" in card.state["html"])
    assert "about to fail" in card.state["html"]
    workspace.write_config("m", "max_batch_size: 4")
    workspace.load("m", SILENT)
    eventually(lambda: "requests of up to 4 rows" in card.state["html"] and "keeps" not in card.state["html"])


def test_the_stored_card_of_a_load_keeps_its_own_moment(
    workspace: Workspace, states: ModelStates, bundles: list[dict[str, Any]]
) -> None:
    with live_card.loading_card(workspace, "m"):
        workspace.load("m", SILENT)
    (card,) = states.cards["m"]
    workspace.server.unload("m")
    reaches(card, "UNLOADED")
    card.freeze()
    assert "was READY at " in bundles[-1]["text/html"] and "m  READY  " in bundles[-1]["text/plain"]
    assert card.to_dict()["state"] == "UNLOADED"


def test_its_view_opens_below_it_and_closes(card: LiveCard) -> None:
    card.press("view")
    panel = viewing(card)
    assert isinstance(panel.view, Timeline) and card._panel.children == (panel.widget,)
    panel.choice.value = "graph"
    assert isinstance(panel.view, Graph) and panel.widget.children[1] is panel.view.widget
    card.press("view")
    assert card._panel.children == () and card.state["problem"] == ""


def test_of_a_decoupled_model_the_streams_are_its_view(card: LiveCard, workspace: Workspace) -> None:
    workspace.write_config("m", "model_transaction_policy { decoupled: true }")
    workspace.load("m", SILENT)
    card.press("view")
    assert isinstance(viewing(card).view, Streams)


def test_a_death_is_on_it(card: LiveCard, workspace: Workspace) -> None:
    (instance,) = workspace.server.model("m").serving_version().instances
    assert instance.stub is not None
    instance.stub.process.kill()
    eventually(lambda: workspace.server.model("m").instances()[0]["restarts"] == 1)
    reaches(card, "READY")


def test_unload_and_load_are_buttons(card: LiveCard, workspace: Workspace) -> None:
    card.press("unload")
    reaches(card, "UNLOADED")
    card.press("load")
    reaches(card, "READY")
    assert workspace.server.model("m").ready() and card.state["problem"] == ""


def test_a_button_that_fails_says_why_in_the_card(card: LiveCard, workspace: Workspace) -> None:
    card.press("unload")
    workspace._written("m").draft = workspace.draft("m").with_source(BROKEN)
    card.press("load")
    assert "division by zero" in card.state["problem"] and card.state["busy"] == ""
    reaches(card, "FAILED")
    assert buttons(card) == ["load"]
    card.press("no such button")


def test_an_old_version_that_ends_at_once_is_no_warning(
    card: LiveCard, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every reload ends one; a note of it would be gone before it is read."""
    ending = {"model": "m", "version": 1, "since": time.time(), "ends_in": 60, "awaits": "", "pids": [], "stacks": {}}
    monkeypatch.setattr(workspace.server, "draining", lambda name="", stacks=False: [ending])
    table = StatusView(workspace)
    assert card.refresh() and table.refresh()  # they look again
    assert "out of service" not in card.state["html"] + table.state["html"] + repr(overview(workspace)["draining"])
    assert "kill" not in buttons(card)
    ending["since"] -= 1.5
    assert card.refresh() and table.refresh()
    for text in (card.state["html"], table.state["html"], repr(overview(workspace)["draining"])):
        assert "version 1, out of service since" in text
    assert "kill" in buttons(card)


def test_an_unload_of_a_hung_model_does_not_hold_anybody_up(card: LiveCard, workspace: Workspace) -> None:
    model = workspace.load("m", HUNG)
    model.infer(inputs={})
    eventually(lambda: workspace.server.requests())
    card.press("unload")
    reaches(card, "UNLOADING")
    eventually(lambda: buttons(card) == ["load", "kill"])
    assert "waits for 1 unanswered request of" in card.state["html"]
    eventually(lambda: "line 3, in execute" in card.state["html"])
    card.press("kill")
    reaches(card, "UNLOADED")
    eventually(lambda: buttons(card) == ["load"] and not workspace.server.draining("m"))


def test_a_hung_model_that_serves_is_reported_and_killed(
    card: LiveCard, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging, "USUAL", 0.1)
    model = workspace.load("m", HUNG)
    answers = model.infer(inputs={}, raise_on_error=False)
    eventually(lambda: workspace.server.requests() and workspace.server.requests()[0]["waited"] > 0.1)
    ModelStates.for_server(workspace.server).requests_wait("m", "the watchdog's report", 0)
    eventually(lambda: buttons(card)[-1] == "kill")
    assert "1 request has been in flight for " in card.state["html"] and card.state["state"] == "READY"
    assert "in flight" not in card.html()  # a stored card can end nothing
    (row,) = overview(workspace)["draining"]
    assert row["name"] == "m" and "%triton kill m ends it" in row["text"]
    workspace.server.cancel(workspace.server.requests()[0]["serial"])
    (request,) = overview(workspace)["requests"]
    assert request["state"] == "executing, cancel requested"
    assert request["ends"].startswith("Python code cannot be cancelled: it goes on until it looks at")
    card.press("kill")
    assert next(answers).error is not None
    eventually(lambda: "kill" not in buttons(card) and card.state["state"] == "READY")
    pid = model.instances()[0]["pid"]
    card.press("kill")  # nothing hangs any more, so what serves is left alone
    assert model.instances()[0]["pid"] == pid


def test_a_load_is_seen_and_stopped(card: LiveCard, workspace: Workspace) -> None:
    failures: list[BaseException] = []

    def load() -> None:
        try:
            workspace.load("m", "import os\nos.umask(os.umask(0))\nimport psutil\n" + SLOW)
        except ModelLoadError as error:
            failures.append(error)

    loader = threading.Thread(target=load)
    loader.start()
    reaches(card, "LOADING")
    eventually(lambda: "fetching weights" in card.state["html"])
    assert buttons(card) == ["stop"] and "tl-clock" in card.state["html"]
    assert "imports again: &#x27;psutil&#x27;, because model.py, line 2 comes first" in card.state["html"]
    assert "The version loaded before serves meanwhile." in card.state["html"]
    card.press("stop")
    loader.join(60)
    assert failures
    reaches(card, "READY")


def test_the_form_and_its_answers_outlive_the_cell(card: LiveCard, workspace: Workspace) -> None:
    card.press("playground")
    form = card.playground()
    assert card._panel.children == (form.widget,) and card.state["open"] == "playground"
    workspace.load("m", SILENT + "\n# changed\n")
    again = LiveCard(workspace, "m", of_load=True)
    again.show()
    assert again._panel.children == (form.widget,) and again.state["open"] == "playground"
    other = LiveCard(workspace, "m")  # of %triton status
    other.show()
    assert other._panel.children == ()
    again.press("playground")
    assert again._panel.children == ()
    for each in (again, other):
        ModelStates.for_server(workspace.server).leave(each.refresh)


def test_a_form_for_other_inputs_keeps_what_both_have(card: LiveCard, workspace: Workspace) -> None:
    def options(*inputs: str, batch: int = 8) -> ConfigOptions:
        return ConfigOptions(inputs=inputs, max_batch_size=batch)

    workspace.load("m", SILENT, options=options("A:FP32[2]", "B:FP32[1]"))
    card.press("playground")
    form = card.playground()
    form.inputs["A"].mode.value, form.inputs["A"].text.value = "Typed", "1, 2"
    form.form.batch.value, form.form.request_id.value, form.result.value = 12, "mine", "the last answer"
    workspace.load("m", SILENT, options=options("A:FP32[2]", "C:FP32[1]", batch=4))
    eventually(lambda: list(form.inputs) == ["A", "C"])
    assert form.form.box in form.widget.children and card._panel.children == (form.widget,)
    assert (form.inputs["A"].mode.value, form.inputs["A"].text.value) == ("Typed", "1, 2")
    assert (form.form.request_id.value, form.result.value) == ("mine", "the last answer")
    assert form.form.batch.value <= 8


def words(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html)


def test_what_is_open_is_in_the_stored_card(
    card: LiveCard, workspace: Workspace, bundles: list[dict[str, Any]]
) -> None:
    card.press("playground")
    assert "Playground" not in bundles[-1]["text/html"]  # an empty form tells nothing
    card.playground().send()
    assert "Playground of m: " in bundles[-1]["text/html"] and "Playground of m: " in bundles[-1]["text/plain"]
    assert words(card.playground().result.value) in words(bundles[-1]["text/html"])  # there with styles of its own
    card.press("view")
    assert "Playground of" not in bundles[-1]["text/html"] and "Timeline of m: " in bundles[-1]["text/html"]
    before = bundles[-1]["text/plain"]
    list(workspace.server.model("m").infer(inputs={}, raise_on_error=False))
    viewing(card).view.renew()
    assert "Timeline of m: " in bundles[-1]["text/plain"] and bundles[-1]["text/plain"] != before
    card.press("view")
    assert "Timeline" not in bundles[-1]["text/html"]


def test_old_cards_end(card: LiveCard, workspace: Workspace) -> None:
    cards = [LiveCard(workspace, "m") for _ in range(9)]
    for each in cards:
        each.show()
    states = ModelStates.for_server(workspace.server)
    assert states.cards["m"] == cards[-8:]
    assert card.refresh not in states._followers and cards[-1].refresh in states._followers
    for each in cards:
        each.close()


def test_a_card_that_has_ended_leaves_no_widget(card: LiveCard, workspace: Workspace) -> None:
    """ipywidgets keeps every widget that nobody closes, and each edit of a cell shows a card."""

    def kept() -> set[str]:
        # each has a comm; ipywidgets' own list of widgets may change while it is read, as other threads close some
        return set(get_comm_manager().comms)

    before = kept()
    ended = LiveCard(workspace, "m")
    ended.show()
    for panel in ("export", "check", "view"):
        ended.press(panel)
    assert kept() > before
    ended.close()
    assert kept() == before
    assert ended not in ModelStates.for_server(workspace.server).cards["m"]


def test_the_export_form_comes_and_goes(card: LiveCard) -> None:
    card.press("export")
    assert card._panel.children == (card._panel_of("export").widget,)
    card.press("export")
    assert card._panel.children == ()


class OneCell(NoShell):
    """A shell in which a cell runs."""

    def __init__(self, cell: str) -> None:
        self._cell = cell

    def running_cell(self) -> str:
        return self._cell


def load_in(workspace: Workspace, cell: str, source: str | None = SILENT, **options: Any) -> LiveCard:
    """Load the model as a cell does, and return its card, whether the load was good or not."""
    workspace.show_in(OneCell(cell))
    with contextlib.suppress(ModelLoadError):
        workspace.load("m", source, **options)
    card = LiveCard(workspace, "m", of_load=True)
    workspace.show_in(NoShell())
    card.show()
    return card


def settle(*cards: LiveCard) -> list[str]:
    for card in cards:
        card.refresh()
    return [card.state["state"] for card in cards]


@pytest.mark.usefixtures("states")
def test_a_card_is_of_the_load_of_its_cell(workspace: Workspace, bundles: list[dict[str, Any]]) -> None:
    failed = load_in(workspace, "In[3]", BROKEN)
    assert failed.state["state"] == "FAILED"
    good = load_in(workspace, "In[4]")
    assert settle(failed, good) == ["REPLACED", "READY"]
    assert "REPLACED by In[4]" in failed.state["html"] and "division by zero" in failed.state["html"]
    assert buttons(failed) == [] and "READY" not in failed.state["html"]
    assert failed.refresh not in ModelStates.for_server(workspace.server)._followers
    stored = [bundle["text/plain"] for bundle in bundles if bundle.get("text/plain")]
    assert not any("REPLACED" in text for text in stored)  # its own moment is kept
    workspace.load("m")  # by a button
    assert settle(good) == ["READY"]
    again_failed = load_in(workspace, "In[5]", BROKEN)
    assert settle(good, again_failed) == ["READY", "READY"]
    assert "keeps serving" in good.state["html"] and "keeps serving" in again_failed.state["html"]
    another = load_in(workspace, "In[6]")
    assert settle(failed, good, again_failed, another) == ["REPLACED", "REPLACED", "REPLACED", "READY"]
    assert "by In[4]" in failed.state["html"] and "by In[6]" in good.state["html"]


@pytest.mark.usefixtures("states")
def test_a_config_of_another_cell_changes_the_card_of_the_source(workspace: Workspace) -> None:
    card = load_in(workspace, "In[3]")
    card.press("playground")
    workspace.write_config("m", "max_batch_size: 4")
    of_config = load_in(workspace, "In[4]", None)
    assert settle(card, of_config) == ["READY", "READY"]
    assert "requests of up to 4 rows" in card.state["html"]


@pytest.mark.usefixtures("states")
def test_a_failed_card_says_that_a_button_has_loaded_the_model_later(workspace: Workspace) -> None:
    card = load_in(workspace, "In[3]", BROKEN)
    workspace._written("m").draft = workspace.draft("m").with_source(SILENT)
    card.press("load")
    assert settle(card) == ["READY"]
    assert "The load of this cell failed; what serves was loaded later, at " in card.state["html"]


def test_the_reason_of_a_failed_button_goes_when_the_model_is_loaded(card: LiveCard, workspace: Workspace) -> None:
    card.press("unload")
    workspace._written("m").draft = workspace.draft("m").with_source(BROKEN)
    card.press("load")
    card.refresh()
    assert "division by zero" in card.state["problem"]
    workspace.load("m", SILENT)
    card.refresh()
    assert (card.state["state"], card.state["problem"]) == ("READY", "")


SLOW_TO_START = "import time\n" + initializes("time.sleep(1.5)")


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
    with loading_card(workspace, "m"):
        workspace.load("m", SILENT)
    assert texts[-1] == "m READY"


def test_what_is_kept_of_a_slow_load_is_true_when_the_cell_ends(workspace: Workspace, texts: list[str]) -> None:
    with loading_card(workspace, "m"):
        workspace.load("m", SLOW_TO_START)
    assert (texts[0], texts[-1]) == ("m LOADING", "m READY")


def test_a_slow_load_that_fails_says_so_when_the_cell_ends(workspace: Workspace, texts: list[str]) -> None:
    with pytest.raises(ModelLoadError), loading_card(workspace, "m"):
        workspace.load("m", SLOW_TO_START + "        1 / 0\n")
    assert (texts[0], texts[-1]) == ("m LOADING", "m FAILED")


def test_a_quick_load_that_fails_leaves_it_to_the_error(workspace: Workspace, texts: list[str]) -> None:
    with pytest.raises(ModelLoadError), loading_card(workspace, "m"):
        workspace.load("m", initializes("1 / 0"))
    assert texts == [] or texts[-1] == "m FAILED"  # a busy machine takes its time to fail


def test_quiet_is_quiet(workspace: Workspace, texts: list[str]) -> None:
    with loading_card(workspace, "m", quiet=True):
        workspace.load("m", SLOW_TO_START)
    assert texts == []
