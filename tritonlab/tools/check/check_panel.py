"""The form of a check below a model's card: its duration, its current step, with Stop, and its result."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from ...core.status import TritonError
from ...notebook.views.card.card_panel import CardPanel
from ...notebook.views.theme import STYLE
from .check_result import CheckResult

_SECONDS = 30.0


class Checkable(Protocol):
    """The part of `Model` that a check needs."""

    name: str

    @property
    def check(self) -> Callable[..., Any]: ...


class CheckPanel(CardPanel):
    """The form; it needs ipywidgets. Guarantees: one check runs at a time, on a thread of its own, so Stop works."""

    def __init__(self, model: Checkable, changed: Callable[[], object] = lambda: None) -> None:
        """changed: called when there is a result."""
        self._model = model
        self._changed = changed
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        #: the result of the last check
        self.result: CheckResult | None = None
        widgets: Any = importlib.import_module("ipywidgets")
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
        self.progress = widgets.HTML("")
        self.output = widgets.Output()
        self.check_button.on_click(lambda button: self.start())
        self.stop_button.on_click(lambda button: self.stop())
        row = widgets.HBox(
            [self.seconds, self.check_button, self.stop_button, self.side_effects], layout=layout(flex_flow="wrap")
        )
        self.widget = widgets.VBox([row, self.progress, self.output])

    @property
    def content(self) -> CheckResult | None:
        return self.result

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin a check, unless one runs."""
        if self.running:
            return
        self._stopping.clear()
        self._offer_stop(True)
        self._thread = threading.Thread(target=self._run, name=f"check {self._model.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the check with the findings so far."""
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the check."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            result = self._model.check(
                float(self.seconds.value), side_effects=bool(self.side_effects.value), progress=self._show
            )
        except (TritonError, ImportError, OSError, ValueError) as error:
            self.side_effects.layout.display = ""
            self._output(str(error), f"<div class='tl-note tl-bad-note tl-text'>{escape(str(error))}</div>")
        else:
            self.result = result
            self._output(result.text(), result.html())
            self._changed()
        finally:
            self.progress.value = ""
            self._offer_stop(False)

    def _show(self, doing: object) -> bool:
        """Show the current step; return whether to go on."""
        self.progress.value = f"<span class='tl-dim'>{escape(str(doing))}</span>"
        return not self._stopping.is_set()

    def _offer_stop(self, running: bool) -> None:
        self.check_button.disabled = running
        self.stop_button.layout.display = "" if running else "none"

    def _output(self, text: str, html: str) -> None:
        data = {"text/plain": text, "text/html": f"{STYLE}<div class='tl-panel'>{html}</div>"}
        self.output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
