"""Puts a model's card, and its buttons where they work, into the output of the running cell."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..authoring.workspace import Workspace
from .actions import CardActions
from .card import ModelCard
from .model_facts import model_facts

if TYPE_CHECKING:
    from ...server.api.model import Model


def show_card(shell: Any, workspace: Workspace, model: Model) -> None:
    """Displays the card of `model`.

    The card and the buttons are two outputs: a saved notebook keeps the card, while the buttons need a kernel.
    """
    display = importlib.import_module("IPython.display").display
    facts = model_facts(workspace, model)
    handle = display(ModelCard(facts), display_id=True)
    # a terminal has no kernel and would print the widgets' repr
    if getattr(shell, "kernel", None) is None or importlib.util.find_spec("ipywidgets") is None:
        return

    def unloaded() -> None:
        handle.update(ModelCard(replace(facts, state="UNLOADED", seconds=None, kept="", log=())))

    display(CardActions(workspace, model, workspace.describe_error, unloaded).widget)
