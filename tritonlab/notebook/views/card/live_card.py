"""The live card of a model with its buttons: it follows the model, and shows why a button failed.

Buttons have to work while a cell runs: Stop is for a load that occupies the kernel's main thread. `send` (`base.ts`)
then reaches a subshell's thread, which interrupts the main thread if that waits for this load, or ends the load.
Measured in JupyterLab 4.6 with ipykernel 7.4 on 2 busy cores, from the click to the card of the version that serves
again: 0.31 and 0.41 s; with an interrupt by JupyterLab's server instead, 0.17 and 0.23 s. That interrupt would hit any
code that runs by then, so it is used only for a kernel without subshells (`card.ts`).

Each button is a call that a notebook can make, too: `press` with its name, or the function in `_actions`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ....core.explained import Explained
from ....core.status import ModelError
from ....tool_table import find_panel, panels
from ...authoring.workspace import Workspace
from ..opener import open_playground
from ..record.view_panel import ViewPanel
from ..widget import LiveView, SlowDisplay, close_widget, in_kernel
from .card import REPLACED, card_body, card_text, still_html
from .card_panel import CardPanel, Content
from .hanging import kill_pressed
from .model_facts import MOVING, ModelFacts, current_facts
from .model_states import ModelStates

if TYPE_CHECKING:
    from ...authoring.written_model import LoadReport
    from ..playground.playground import Playground

#: The labels of the buttons, and their actions, by the state of the model.
_PLAYGROUND = ("playground", "Playground", "a form for sending requests")
_VIEW = ("view", "View", "what it does, live: its batches and why each closed, streams, metrics, memory, calls")
_UNLOAD = ("unload", "Unload", "take the model out of service")
_LOAD = ("load", "Load", "load the model as it was written last")
_STOP = ("stop", "Stop", "end the load; what served before goes on")
_KILL = ("kill", "Kill old process", "end now what serves no more; its requests fail")
_END = ("kill", "Kill hanging process", "end it now; its requests fail, and another process takes over")
_BUTTONS = {
    "LOADING": (_STOP,),
    "UNLOADING": (_LOAD,),
    "UNLOADED": (_LOAD,),
    "FAILED": (_LOAD,),
}

#: Seconds between two reports of the code that an old process executes.
_STACKS_EVERY = 2.0


class LiveCard(LiveView):
    """One card. Guarantees: a button returns at once, whatever the model does; one press is served at a time.

    `of_load`: whether the card's cell has loaded the model; then the card takes over the open form of the card before,
    and ends once another cell's load has replaced this load. `of_config`: whether the cell is a config.
    """

    MODULE = "card.js"

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        *,
        of_load: bool = False,
        of_config: bool = False,
    ) -> None:
        self.name = name
        self.facts: ModelFacts = current_facts(workspace, name)
        self._workspace = workspace
        self._drawing = threading.Lock()  # one refresh at a time
        self._pressing = threading.Lock()  # one action at a time
        self._states = ModelStates.for_server(workspace.server)
        self._of_config = of_config
        self._own = OwnLoad(workspace, name, of_config) if of_load else None
        self._opened = self._states.opened.get(name, "") if of_load else ""
        self._since = time.time()
        #: the facts of the stored forms, and since when they hold
        self._stored = self.facts, self._since
        #: the load and the state at which a button's failure was shown
        self._problem_at: tuple[LoadReport | None, str] | None = None
        self._looked, self._stacks = -_STACKS_EVERY, ""
        self._actions: dict[str, Callable[[], object]] = {
            **{panel: partial(self._toggle, panel) for panel in ("playground", "view", *panels())},
            "unload": lambda: workspace.unload(name, wait=False),
            "load": self._load,
            "stop": lambda: workspace.stop_loading(name),
            "kill": lambda: kill_pressed(workspace.server, name),
        }
        #: the panels that were opened, by name
        self._panels: dict[str, CardPanel] = {}
        #: the content below the buttons, and the box around all
        self._panel: Any = None
        self._whole: Any = None
        super().__init__(**self._drawn(), problem="", busy="")

    # -- the content

    @property
    def subject(self) -> Hashable:
        return LiveCard, id(self._workspace), self.name

    def text(self) -> str:
        facts, since = self._stored
        first, *rest = card_text(facts).split("\n")
        when = time.strftime("%H:%M:%S", time.localtime(since))
        seen = self._seen()
        return "\n".join([f"{first} · at {when}", *rest, *([seen.text()] if seen is not None else [])])

    def to_dict(self) -> dict[str, Any]:
        report = self._workspace.report(self.name)
        error = report.error if report is not None else None
        return {**self.facts.to_dict(), "error": error.to_dict() if isinstance(error, Explained) else None}

    def html(self) -> str:
        seen = self._seen()
        return still_html(*self._stored, self._of_config) + (seen.html() if seen is not None else "")

    def _seen(self) -> Content | None:
        """Return the visible content below the buttons, such as the form with an answer, or the view."""
        opened = self._opened
        if self._panel is None or not self._panel.children or not opened:
            return None
        if opened == "playground":
            form = self._states.playgrounds.get(self.name)
            return form if form is not None and form.result.value else None
        return self._panel_of(opened).content

    def _drawn(self) -> dict[str, Any]:
        facts = self.facts
        buttons = [*_buttons(facts.state), *([_KILL] if facts.draining else [_END] if facts.hanging else [])]
        return {
            "name": self.name,
            "state": facts.state,
            "html": card_body(facts),
            "buttons": [{"do": do, "label": label, "title": title} for do, label, title in buttons],
            "open": self._opened,
        }

    def refresh(self) -> bool:
        """Show the model's current state; return whether it is changing. Called by the store."""
        with self._drawing:
            if self.facts.state == REPLACED:
                return False
            if self._own is not None and (cell := self._own.replaced_by()):
                self._be_replaced(cell)
                return False
            before, facts = self.facts, current_facts(self._workspace, self.name, self.facts)
            if self._own is not None and facts.state in ("READY", "NOT READY"):
                facts = replace(facts, kept=facts.kept or self._own.failed_before())
            self.facts = facts = replace(facts, executing=self._executing() if facts.draining else "")
            if facts.state != before.state:
                self._since = time.time()
            self._store()
            self.update(**self._drawn(), **self._problem_now())
            self._fill_panel()
            if facts.lasting() != before.lasting() and facts.state != "LOADING":
                self.freeze()
        return facts.state in MOVING or bool(facts.hanging or self._workspace.server.draining(self.name))

    def _store(self) -> None:
        """Take the present facts for the stored forms, unless a model that this card's cell has loaded was unloaded
        later, by another cell or a button."""
        serves, ends = ("READY", "NOT READY"), ("UNLOADING", "UNLOADED")
        if self._own is None or self._stored[0].state not in serves or self.facts.state not in ends:
            self._stored = self.facts, self._since

    def _be_replaced(self, cell: str) -> None:
        """End: the model's current version belongs to another cell's card. The static form keeps its own moment."""
        self._states.leave(self.refresh)
        self.facts = replace(self.facts.lasting(), state=REPLACED, by=cell, kept="")
        self._since, self._opened = time.time(), ""
        self._store()
        self.update(**self._drawn(), problem="")
        self._fill_panel()

    def _problem_now(self) -> dict[str, str]:
        """Return the error of a button to draw as well, until the model serves after a later load or change."""
        if not self.state["problem"] or self.state["busy"]:
            return {}
        now = self._workspace.report(self.name), self.facts.state
        if self._problem_at is None:
            self._problem_at = now
        is_past = now != self._problem_at and self.facts.state == "READY" and not self.facts.kept
        return {"problem": ""} if is_past else {}

    def _executing(self) -> str:
        """Return the code that the old processes execute. They stop for each report, so it is rare."""
        if time.monotonic() - self._looked >= _STACKS_EVERY:
            self._looked = time.monotonic()
            found = [each["stacks"] for each in self._workspace.server.draining(self.name, stacks=True)]
            stacks = [f"{name}:\n{text}" for each in found for name, text in each.items()]
            self._stacks = self._workspace.shell.cite("\n".join(stacks))
        return self._stacks

    def show(self, around: Any = None) -> None:
        """Display the card, which then follows the model."""
        if not in_kernel() or self.widget is None:
            super().show()
            return
        widgets = importlib.import_module("ipywidgets")
        self._panel = widgets.VBox([], layout=widgets.Layout(margin="0", overflow="visible"))
        self._whole = widgets.VBox([self.widget, self._panel], layout=widgets.Layout(overflow="visible"))
        self._whole.add_class("tl-whole")
        self._fill_panel()
        super().show(around=self._whole)
        self._states.follow(self.refresh, self.name)
        with self._states.forming:
            self._states.cards.setdefault(self.name, []).append(self)

    # -- buttons

    def on_message(self, content: Mapping[str, Any]) -> None:
        """Handle a press on a new thread: this may be the kernel's main thread, and the model may take long."""
        threading.Thread(target=self.press, args=(content.get("do"),), name="card button", daemon=True).start()

    def press(self, do: str) -> None:
        """Run the action of the button of that name. An error is shown only in the card."""
        action = self._actions.get(do)
        if action is None or not (do == "stop" or self._pressing.acquire(blocking=False)):
            return
        self._problem_at = None
        self.update(busy=do, problem="")
        problem = ""
        try:
            action()
        except Exception as error:
            reason = error.reason if isinstance(error, ModelError) else ""
            shown = self._workspace.shell.describe_error(error)
            problem = shown or reason or str(error) or type(error).__name__
        finally:
            if do != "stop":
                self._pressing.release()
        self.update(busy="", problem=problem)
        self._states.poke(self.name)

    def _load(self) -> None:
        if self._workspace.draft(self.name).loadable:
            self._workspace.load(self.name)
        else:  # the model is from a repository, not from a cell
            self._workspace.server.load(self.name)

    def _toggle(self, panel: str) -> None:
        self._opened = "" if self._opened == panel else panel
        self._states.opened[self.name] = self._opened
        if self._opened and self._opened != "playground":
            self._panel_of(panel).opened()
        self._fill_panel()
        self.update(open=self._opened)
        self.freeze()

    def _fill_panel(self) -> None:
        """Show the open form below the buttons, while the model serves."""
        if self._panel is None:
            return
        children: tuple[Any, ...] = ()
        if self.facts.state in ("READY", "NOT READY", "LOADING") and (opened := self._opened):
            children = ((self.playground() if opened == "playground" else self._panel_of(opened)).widget,)
        if self._panel.children != children:
            self._panel.children = children

    def _panel_of(self, name: str) -> CardPanel:
        """Return the panel of that name, made at its first use."""
        with self._states.forming:  # the store's thread may need it at the same time
            if name not in self._panels:
                kind = ViewPanel if name == "view" else find_panel(panels()[name])
                self._panels[name] = kind(self._workspace.server.model(self.name), self.freeze)
            return self._panels[name]

    def playground(self) -> Playground:
        """Return the model's form, the same in all its cards."""
        with self._states.forming:
            known = self._states.playgrounds.get(self.name)
            if known is None:
                model = self._workspace.server.model(self.name)
                known = open_playground(self._workspace, model)
                known.answered = lambda: self._states.freeze_cards(self.name)
                self._states.playgrounds[self.name] = known
            return known

    def close(self) -> None:
        """End the live form, its buttons included."""
        self._states.leave(self.refresh)
        with self._states.forming:
            self._states.cards[self.name] = [each for each in self._states.cards.get(self.name, []) if each is not self]
        super().close()
        if self._panel is not None:
            self._panel.children = ()  # the playground in it also belongs to other cards
            for box in (self._whole, self._panel):
                close_widget(box)
        for panel in self._panels.values():
            panel.close()


@functools.cache
def _buttons(state: str) -> Sequence[tuple[str, str, str]]:
    """Return the buttons for a state: their names, labels and tooltips."""
    if state in ("READY", "NOT READY"):
        tools = [(panel.name, panel.label, panel.tooltip) for panel in panels().values()]
        return [_PLAYGROUND, _VIEW, *tools, _UNLOAD]
    return _BUTTONS.get(state, ())


def card_of(workspace: Workspace, name: str) -> LiveCard:
    """Return the card of a model for a cell."""
    workspace.changed = ModelStates.for_server(workspace.server).poke
    return LiveCard(workspace, name)


@contextmanager
def loading_card(workspace: Workspace, name: str, *, quiet: bool = False, of_config: bool = False) -> Iterator[None]:
    """Show the card of a model that loads meanwhile: `with loading_card(workspace, name): workspace.load(name, …)`.

    A quick load shows it at its end, a slow load earlier, with the output, the time and Stop. A failed load shows it if
    it was slow, or if an earlier version keeps serving: the error has the rest. `quiet`: whether to show no card.
    `of_config`: whether the cell is a config.
    """

    def show() -> LiveCard:
        card = LiveCard(workspace, name, of_load=True, of_config=of_config)
        card.show()
        return card

    workspace.changed = ModelStates.for_server(workspace.server).poke
    display = SlowDisplay(lambda: show() if workspace.loading(name) is not None else None)
    if not quiet:
        display.start()
    has_failed = True
    try:
        yield
        has_failed = False
    finally:
        view, report = display.end(), workspace.report(name)
        still_serves = report is not None and report.error is not None and report.ready_at
        if isinstance(view, LiveCard):
            # it follows the model, but the copy that is saved by a program that runs notebooks must be true at the
            # cell's end
            view.refresh()
        elif still_serves if has_failed else not quiet:
            show()


class OwnLoad:
    """The last or running load of a model at the time when this is made: the load of the cell with the card.

    A load of another cell replaces a failed one at once. A good load lasts as long as its source (for the cell of a
    config, its config) serves; it is replaced when another one serves, or none. A button's load belongs to no cell and
    replaces nothing.
    """

    def __init__(self, workspace: Workspace, name: str, of_config: bool) -> None:
        self._workspace = workspace
        self._name = name
        self._of_config = of_config
        report = workspace.report(name)
        load = workspace.loading(name) or report
        self._cell = load.cell if load is not None else ""
        self._written = self._written_now()
        self._has_failed = report is not None and report.cell == self._cell and report.error is not None

    def replaced_by(self) -> str:
        """Return the cell whose load has replaced this load, "In[3]"; "" if it has not been replaced."""
        report, progress = self._look(), self._workspace.loading(self._name)
        if not self._cell:
            return ""
        if self._has_failed and progress is not None and self._is_other(progress.cell):
            return progress.cell
        if report is None or not self._is_other(report.cell):
            return ""
        keeps = report.error is not None and report.ready_at > 0
        goes_on = not self._has_failed and (keeps or self._written_now() is self._written)
        return "" if goes_on else report.cell

    def failed_before(self) -> str:
        """Return the sentence about the version that still serves, for a failed load's card; "" without a failure."""
        report = self._look()
        if not self._has_failed or report is None or report.error is not None:
            return ""
        since = time.strftime("%H:%M:%S", time.localtime(report.ready_at))
        return f"The load of this cell failed; what serves was loaded later, at {since}."

    def _look(self) -> LoadReport | None:
        report = self._workspace.report(self._name)
        if report is not None and report.cell == self._cell and report.error is not None:
            self._has_failed = True
        return report

    def _is_other(self, cell: str) -> bool:
        return cell not in ("", self._cell)

    def _written_now(self) -> object:
        draft = self._workspace.draft(self._name)
        return draft.cell_config if self._of_config else draft.source
