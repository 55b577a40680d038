"""The form of a check below a model's card: its duration, its current step, with Stop, and its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.status import TritonError
from ...notebook.model import Model
from ...notebook.views.card.card_panel import TaskPanel

_SECONDS = 30.0


class CheckPanel(TaskPanel):
    """The form; it needs ipywidgets."""

    def __init__(self, model: Model, changed: Callable[[], object] = lambda: None) -> None:
        """changed: called when there is a result."""
        self._model = model
        super().__init__(f"check {model.name}", changed)

    def _form(self, widgets: Any) -> list[Any]:
        layout = widgets.Layout
        self.seconds = widgets.BoundedFloatText(
            value=_SECONDS, min=1, max=3600, description="Seconds", layout=layout(width="160px")
        )
        self.side_effects = widgets.Checkbox(
            value=False,
            indent=False,
            description="although it talks to others",
            layout=layout(width="auto", display="none"),
        )
        self.check_button = widgets.Button(description="Check", button_style="primary", layout=layout(width="90px"))
        self.stop_button = widgets.Button(
            description="Stop", tooltip="end it with what was found", layout=layout(width="80px", display="none")
        )
        self.check_button.on_click(lambda button: self.start())
        self.stop_button.on_click(lambda button: self.stop())
        return [self.seconds, self.check_button, self.stop_button, self.side_effects]

    def start(self) -> None:
        """Begin a check, unless one runs."""
        self._start(self._check)

    def _check(self) -> Any:
        seconds, side_effects = float(self.seconds.value), bool(self.side_effects.value)
        try:
            return self._model.check(seconds, side_effects=side_effects, progress=self._show)
        except (TritonError, ImportError, OSError, ValueError):
            self.side_effects.layout.display = ""
            raise

    def _on_running(self, is_running: bool) -> None:
        self.check_button.disabled = is_running
        self.stop_button.layout.display = "" if is_running else "none"
