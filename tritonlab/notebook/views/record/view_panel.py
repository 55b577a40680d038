"""The view panel, opened by a card's View button: one of the model's views, and a choice of the others."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ....server.api.model import Model
from ..card.card_panel import CardPanel
from ..opener import open_view
from .record_view import KINDS, RecordView


class ViewPanel(CardPanel):
    """One view of a model: at first the most useful one, streams for a decoupled model, the graph for an ensemble."""

    def __init__(self, model: Model, renewed: Callable[[], object] = lambda: None) -> None:
        """renewed: called when the view's static form would be renewed."""
        widgets = importlib.import_module("ipywidgets")
        self._model = model
        self._renewed = renewed
        self._views: dict[str, RecordView] = {}
        self.choice = widgets.Dropdown(
            options=[(kind.capitalize(), kind) for kind in KINDS],
            value=_first(model.config()),
            description="View",
            layout=widgets.Layout(width="130px"),
        )
        self.choice.add_class("tl-quiet")
        self.widget = widgets.VBox([self.choice, self.view.widget])
        self.widget.add_class("tl-form")
        self.choice.observe(lambda change: self._show(), names="value")

    @property
    def view(self) -> RecordView:
        """The current view."""
        kind = self.choice.value
        if kind not in self._views:
            view = self._views[kind] = open_view(self._model, kind)
            view.frozen = self._renewed
        return self._views[kind]

    @property
    def content(self) -> RecordView:
        return self.view

    def close(self) -> None:
        """End the live forms of all chosen views."""
        super().close()
        for view in self._views.values():
            view.close()

    def _show(self) -> None:
        self.widget.children = (self.choice, self.view.widget)
        self._renewed()


def _first(config: dict[str, Any]) -> str:
    if config.get("model_transaction_policy", {}).get("decoupled"):
        return "streams"
    return "graph" if config.get("ensemble_scheduling") else "timeline"
