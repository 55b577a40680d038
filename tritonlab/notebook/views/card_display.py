"""Puts a model's card, and its buttons where they work, into the output of the running cell."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.instrument import Instrument
from ...core.status import TritonError
from ..authoring.workspace import Workspace
from .actions import CardActions
from .card import ModelCard
from .model_facts import model_facts

if TYPE_CHECKING:
    from ...ipc.stub_log import LogRecord
    from ...server.api.model import Model
    from ...server.api.server import Server


def show_card(shell: Any, workspace: Workspace, model: Model) -> None:
    """Displays the card of `model`.

    The card and the buttons are two outputs: a saved notebook keeps the card, while the buttons need a kernel.
    """
    display = importlib.import_module("IPython.display").display
    facts = model_facts(workspace, model)
    handle = display(ModelCard(facts), display_id=True)
    # a terminal has no kernel: it would print the card again, and the widgets' repr
    if getattr(shell, "kernel", None) is None:
        return
    LatestCards.of(workspace.server).show(model.name, lambda: handle.update(ModelCard(model_facts(workspace, model))))
    if importlib.util.find_spec("ipywidgets") is None:
        return

    def unloaded() -> None:
        handle.update(ModelCard(replace(facts, state="UNLOADED", seconds=None, kept="", log=())))

    display(CardActions(workspace, model, workspace.describe_error, unloaded).widget)


class LatestCards(Instrument):
    """Draws the latest card of a model again when there is a warning about what the model answers."""

    def __init__(self) -> None:
        self._cards: dict[str, Callable[[], None]] = {}

    @staticmethod
    def of(server: Server) -> LatestCards:
        """The server's own, made at the first use."""
        for one in server.instruments:
            if isinstance(one, LatestCards):
                return one
        cards = LatestCards()
        server.instruments.add(cards)
        return cards

    def show(self, model: str, draw: Callable[[], None]) -> None:
        """`draw` draws the card of `model` from now on."""
        self._cards[model] = draw

    def log(self, record: LogRecord) -> None:
        draw = self._cards.get(record.model)
        if draw is not None and record.unchecked:
            # on a thread of its own: the one that logs may hold what the card asks for
            threading.Thread(target=_draw, args=(draw,), name="card", daemon=True).start()


def _draw(draw: Callable[[], None]) -> None:
    with contextlib.suppress(TritonError):  # unloaded meanwhile
        draw()
