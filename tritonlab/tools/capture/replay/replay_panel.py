"""The form of a replay below a model's card: the capture, the pace, and what becomes of each change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ....notebook.views.card.card_panel import TaskPanel
from ....server.api.model import Model
from .replay_verdict import ReplayVerdict
from .replaying import replay

#: The choices of the pace, with their values of `speed`.
_PACES = (("at the recorded pace", 1.0), ("as fast as it goes", None))


class ReplayPanel(TaskPanel):
    """The form; it needs ipywidgets."""

    def __init__(self, model: Model, changed: Callable[[], object] = lambda: None) -> None:
        """changed: called when there is a result."""
        self._model = model
        super().__init__(f"replay {model.name}", changed)
        self.widget.children = (*self.widget.children, self.groups)

    def _form(self, widgets: Any) -> list[Any]:
        layout = widgets.Layout
        self.file = widgets.Text(
            placeholder="day.arrow",
            tooltip="a file of tritonlab.capture, or of tritonlab tap",
            description="Capture",
            layout=layout(width="420px", max_width="100%"),
        )
        self.pace = widgets.Dropdown(options=list(_PACES), layout=layout(width="180px"))
        self.noise = widgets.Checkbox(
            value=False, indent=False, description="learn its noise: all requests twice", layout=layout(width="auto")
        )
        self.replay_button = widgets.Button(description="Replay", button_style="primary", layout=layout(width="90px"))
        self.stop_button = widgets.Button(
            description="Stop", tooltip="end it with what was found", layout=layout(width="80px", display="none")
        )
        #: the changes, each with its buttons
        self.groups = widgets.VBox([])
        self.replay_button.on_click(lambda button: self.start())
        self.stop_button.on_click(lambda button: self.stop())
        return [self.file, self.pace, self.noise, self.replay_button, self.stop_button]

    def start(self) -> None:
        """Begin a replay, unless one runs."""
        self._start(self._replay)

    def _replay(self) -> ReplayVerdict:
        name = self.file.value.strip()
        if not name:
            raise ValueError("name the file of a capture: %triton capture FILE makes one")
        self.groups.children = ()
        against = self._model if self.noise.value else None
        found = replay(
            self._model, Path(name).expanduser(), against=against, speed=self.pace.value, progress=self._show
        )
        self.groups.children = found.panel().children[1:]
        return found

    def _on_running(self, is_running: bool) -> None:
        self.replay_button.disabled = is_running
        self.stop_button.layout.display = "" if is_running else "none"
