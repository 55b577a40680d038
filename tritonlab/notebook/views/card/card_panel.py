"""The panel that a button opens below a model's card."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from ....core.status import TritonError
from ..theme import STYLE
from ..widget import close_widget


class Content(Protocol):
    """Content that a card stores, as text and as HTML."""

    def text(self) -> str: ...

    def html(self) -> str: ...


class CardPanel:
    """The base of a panel; `widget`, of ipywidgets, is the panel in a browser. It is made once for each card."""

    widget: Any

    def opened(self) -> None:
        """Called each time before the button shows the panel."""

    @property
    def content(self) -> Content | None:
        """The content that the stored form of the card shows below its facts; None for nothing."""
        return None

    def close(self) -> None:
        """End the live form."""
        close_widget(self.widget)


class TaskPanel(CardPanel):
    """The base of a form whose button begins a task, with the progress and the result below it. It needs ipywidgets.

    Guarantee: one task runs at a time, on a thread of its own, so that the form can stop it.
    """

    def __init__(self, name: str, changed: Callable[[], object]) -> None:
        """name: of the thread. changed: called when there is a result."""
        self._name = name
        self._changed = changed
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        #: the last result
        self.result: Any = None
        widgets: Any = importlib.import_module("ipywidgets")
        self.progress = widgets.HTML("")
        self.output = widgets.Output()
        row = widgets.HBox(self._form(widgets), layout=widgets.Layout(flex_flow="wrap"))
        self.widget = widgets.VBox([row, self.progress, self.output])

    def _form(self, widgets: Any) -> list[Any]:
        """Return the fields and buttons."""
        raise NotImplementedError

    def _on_running(self, is_running: bool) -> None:
        """Called when a task begins and after it ends."""

    @property
    def content(self) -> Content | None:
        found: Content | None = self.result
        return found

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End the task with the findings so far."""
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the task."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _start(self, task: Callable[[], Any]) -> None:
        """Begin a task that returns a result, unless one runs."""
        if self.running:
            return
        self._stopping.clear()
        self._on_running(True)
        self._thread = threading.Thread(target=self._run, args=(task,), name=self._name, daemon=True)
        self._thread.start()

    def _run(self, task: Callable[[], Any]) -> None:
        try:
            self.result = task()
        except Exception as error:
            is_expected = isinstance(error, (TritonError, ImportError, OSError, ValueError))
            text = str(error) if is_expected else f"{type(error).__name__}: {error}"
            self._output(text, f"<div class='tl-note tl-bad-note tl-text'>{escape(text)}</div>")
            if not is_expected:
                raise  # the kernel's log gets the traceback
        else:
            self._output(self.result.text(), self.result.html())
            self._changed()
        finally:
            self.progress.value = ""
            self._on_running(False)

    def _show(self, doing: object) -> bool:
        """Show the current step; return whether to go on."""
        self.progress.value = f"<span class='tl-dim'>{escape(str(doing))}</span>"
        return not self._stopping.is_set()

    def _output(self, text: str, html: str) -> None:
        data = {"text/plain": text, "text/html": f"{STYLE}<div class='tl-panel'>{html}</div>"}
        self.output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
