"""The table of an opened repository: each model, its state, why it does not serve, and what to do."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from html import escape
from typing import Any

from ....core.quoting import magic_line
from ....core.status import ModelLoadError, TritonError
from ....figures.tables import cell
from ...authoring.model_cells import shown_path
from ...authoring.opened_repository import OpenedFacts, OpenedRepository
from ..widget import LiveView, SlowDisplay, in_kernel, running_cell
from .model_facts import TONES
from .model_states import ModelStates

#: The states that end without further action.
_MOVING = ("LOADING", "WAITING")
#: Inline, because a page may have no style sheet.
_LINE = "white-space:normal;overflow-wrap:anywhere;max-width:680px"
_HEAD = ("model", "kind", "state", "to edit it in this notebook")


class Repository(OpenedRepository):
    """The models of a repository by name, which the notebook's server serves in place."""

    #: the cell below which the table was shown while models loaded
    _shown_below = ""

    def refresh(self, names: Sequence[str] | None = None) -> None:
        """Load its models, with the table below the running cell if that takes longer than a moment: it shows the
        loading and the waiting models."""
        display = SlowDisplay(self._show)
        display.start()
        try:
            super().refresh(names)
        finally:
            view = display.end()
            self._shown_below = running_cell() if view is not None else ""
            if isinstance(view, OpenedView):
                view.refresh()  # the copy that is saved by a program that runs notebooks must be true at the cell's end

    def _show(self) -> OpenedView:
        view = OpenedView(self)
        view.show()
        return view

    def _ipython_display_(self) -> None:
        if not self._shown_below or self._shown_below != running_cell():
            OpenedView(self).show()

    def _repr_html_(self) -> str:
        return OpenedView(self).html()

    def __repr__(self) -> str:
        return repr(OpenedView(self))


class OpenedView(LiveView):
    """The live table. In JupyterLab each row has a button that brings the model into cells; the row of a model whose
    backend is missing has buttons to choose a substitute."""

    MODULE = "opened.js"

    def __init__(self, repository: OpenedRepository) -> None:
        self._repository = repository
        self._states = ModelStates.for_server(repository.workspace.server)
        self._rows = repository.facts()
        #: by a model's name, why its choice is not valid
        self._refused: dict[str, str] = {}
        #: how many choices were made: the buttons wait for the next number, even if the table does not change
        self._chosen = 0
        super().__init__(html=self._table(is_live=True), chosen=0)

    @property
    def subject(self) -> Hashable:
        return OpenedView, str(self._repository.path)

    def text(self) -> str:
        return self._repository.text()

    def to_dict(self) -> dict[str, Any]:
        return self._repository.to_dict()

    def html(self) -> str:
        return self._table(is_live=False)

    def show(self, around: Any = None) -> None:
        super().show(around)
        if in_kernel():
            self._repository.workspace.changed = self._states.poke
            self._states.follow(self.refresh)

    def close(self) -> None:
        self._states.leave(self.refresh)
        super().close()

    def refresh(self) -> bool:
        """Check the models; return whether one is changing. Called by the store."""
        before, self._rows = self._rows, self._repository.facts()
        if self._rows != before:
            self.update(html=self._table(is_live=True))
            self.freeze()
        return any(row.state in _MOVING for row in self._rows)

    def on_message(self, content: Mapping[str, Any]) -> None:
        if content.get("do") == "choose":  # on a thread of its own, because a load takes long
            chosen = str(content["model"]), str(content["choice"])
            threading.Thread(target=self.choose, args=chosen, name="choose button", daemon=True).start()
        self.refresh()

    def choose(self, name: str, choice: str) -> None:
        """Run the action of the buttons: serve the model with this choice of a backend."""
        self._refused.pop(name, None)
        try:
            self._repository[name].choose(choice)
        except ModelLoadError:
            pass  # the reason is in its row
        except TritonError as error:
            self._refused[name] = str(error)
        self._rows = self._repository.facts()
        self._chosen += 1
        self.update(html=self._table(is_live=True), chosen=self._chosen)
        self.freeze()

    def _table(self, *, is_live: bool) -> str:
        head = "".join(cell(title, kind="th") for title in _HEAD)
        body = "".join(_row(row, is_live, self._refused.get(row.name, "")) for row in self._rows)
        table = f"<table class='tl-tensors'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        heading = f"{shown_path(self._repository.path)}: {_counted(self._rows)}"
        path = f"<div class='tl-dim' title='{escape(str(self._repository.path))}'>{escape(heading)}</div>"
        return f"<div class='tl-panel'>{path}{table if self._rows else ''}</div>"


def _row(row: OpenedFacts, is_live: bool, refused: str) -> str:
    tone = TONES.get(row.state, "bad")
    cells = f"<td class='tl-tensor'>{escape(row.name)}</td><td>{escape(row.kind or 'unknown')}</td>"
    cells += f"<td class='tl-{tone}'>{escape(row.state)}</td><td>{_edit(row, is_live)}</td>"
    lines = [f"<div class='tl-dim' style='{_LINE}'>{escape(line)}</div>" for line in row.lines()]
    if refused:
        lines.append(f"<div class='tl-bad' style='{_LINE}'>{escape(refused)}</div>")
    if is_live and row.to_choose:
        real = " data-real" if row.answers else ""
        lines.append(f"<div class='tl-fields' data-choose='{escape(row.name)}'{real}></div>")
    notes = "".join(f"<tr><td></td><td colspan='3'>{line}</td></tr>" for line in lines)
    return f"<tr>{cells}</tr>{notes}"


def _edit(row: OpenedFacts, is_live: bool) -> str:
    if row.in_cells:
        return "<span class='tl-dim'>in cells</span>"
    if row.kind not in ("Python", "ensemble") or row.state in ("NOT OPENED", "CLOSED"):
        return ""
    command = f"<code>{escape(magic_line('%triton', 'edit', row.name))}</code>"
    # with our JupyterLab extension, the live table makes a button of it
    return f"<span data-cells='{escape(row.name)}'>{command}</span>" if is_live else command


def _counted(rows: Sequence[OpenedFacts]) -> str:
    if not rows:
        return "no models"
    count = Counter(row.state for row in rows)
    moving = "".join(f", {count[state]} {state.lower()}" for state in _MOVING if count[state])
    return f"{count['READY']} of {len(rows)} models READY{moving}"
