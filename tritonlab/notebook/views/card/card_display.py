"""The display of a model's card in the output of the running cell: at once, or while the model still loads."""

from __future__ import annotations

from types import TracebackType

from ...authoring.workspace import Workspace
from ..widget import SlowDisplay
from .live_card import LiveCard
from .model_states import ModelStates


def card_of(workspace: Workspace, name: str) -> LiveCard:
    """Return the card of a model, for a cell to show."""
    workspace.changed = ModelStates.for_server(workspace.server).poke
    return LiveCard(workspace, name, workspace.describe_error)


class LoadingCard:
    """The card of a model that is loading: `with LoadingCard(workspace, name): workspace.load(name, …)`.

    A quick load shows it at its end, a slow one earlier, with the output, the time and Stop. A failed load shows it if
    it was slow, or if an earlier version keeps serving: the error has the rest. `quiet`: no card. `of_config`: the
    cell is a config.
    """

    def __init__(self, workspace: Workspace, name: str, *, quiet: bool = False, of_config: bool = False) -> None:
        self._workspace = workspace
        self._name = name
        self._quiet = quiet
        self._of_config = of_config
        self._display = SlowDisplay(self._show_meanwhile)

    def __enter__(self) -> None:
        self._workspace.changed = ModelStates.for_server(self._workspace.server).poke
        if not self._quiet:
            self._display.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        view = self._display.end()
        report = self._workspace.report(self._name)
        still_serves = report is not None and report.error is not None and report.ready_at
        if isinstance(view, LiveCard):
            # it follows the model, but the copy that a program that runs notebooks saves must be true at the cell's end
            view.refresh()
        elif still_serves if error is not None else not self._quiet:
            self._show()

    def _show_meanwhile(self) -> LiveCard | None:
        return self._show() if self._workspace.loading(self._name) is not None else None

    def _show(self) -> LiveCard:
        describe = self._workspace.describe_error
        card = LiveCard(self._workspace, self._name, describe, of_load=True, of_config=self._of_config)
        card.show()
        return card
