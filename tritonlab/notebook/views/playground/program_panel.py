"""The `Copy as` panel: the request of a form as a program, to copy or to save."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import ipywidgets as widgets

from ....core.short_number import size_text
from ....core.status import TritonError
from ....exchanges.snippets import KINDS, Snippet
from ....figures.stored_picture import data_address
from .fields import button, quiet_choice

_NONE = "Copy as …"
_MOST_LINES = 24
#: The most bytes of a file that goes to the browser.
_MOST_BYTES = 5_000_000


class ProgramPanel:
    """A choice of programs, and the text of the chosen one. `make` writes it, or raises ValueError or TritonError."""

    def __init__(self, make: Callable[[str], Snippet]) -> None:
        self._make = make
        self.choice = quiet_choice("Copy as", [_NONE, *KINDS], "170px")
        self.text = widgets.Textarea(
            description="The request as a program", layout=widgets.Layout(width="100%", height="auto")
        )
        self.text.add_class("tl-quiet")
        self.text.add_class("tl-snippet")
        # the browser handles its click: only the browser has a clipboard (`formKeys.ts`)
        self.copy_button = button("Copy", lambda: None)
        self.copy_button.add_class("tl-copy")
        self.note = widgets.HTML()
        self.box = widgets.VBox([self.text, widgets.HBox([self.copy_button, self.note])])
        self.box.layout.display = "none"
        self.choice.observe(lambda change: self.show(), names="value")

    def show(self) -> None:
        """Write the chosen program again."""
        kind = self.choice.value
        self.box.layout.display = "none" if kind == _NONE else ""
        if kind == _NONE:
            return
        try:
            snippet = self._make(kind)
        except (ValueError, TritonError) as problem:
            self._write("", f"<div class='tl-note tl-bad-note' role='alert'>{escape(str(problem))}</div>")
            return
        files = [(snippet.name, snippet.text.encode()), *snippet.files.items()]
        self._write(snippet.text, "".join(_link(*file) for file in files))

    def clear_problem(self) -> None:
        """Write the program again if it could not be written before."""
        if self.choice.value != _NONE and not self.text.value:
            self.show()

    def _write(self, text: str, note: str) -> None:
        self.text.value = text
        self.text.rows = min(_MOST_LINES, text.count("\n") + 1)
        self.text.layout.display = self.copy_button.layout.display = "" if text else "none"
        self.note.value = f"<div class='tl-panel'>{note}</div>"


def _link(name: str, data: bytes) -> str:
    if len(data) > _MOST_BYTES:
        size = size_text(len(data))
        return f"<span class='tl-dim'>{escape(name)} has {size}: copy_as(…).save(DIR) writes it</span>&ensp;"
    address = data_address("application/octet-stream", data)
    return f"<a class='tl-file' download='{escape(name)}' href='{address}'>{escape(name)}</a>&ensp;"
