"""The buttons below a model's card: Playground, Export, Unload. Each is a call that a notebook can make as well."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from ...core.status import TritonError
from ...export.needed_models import needed_models
from ...export.report import ExportArchive, ExportConflict, ExportReport
from ...export.repository import export
from ..authoring.workspace import Workspace
from .playground import DescribeError, Playground
from .theme import STYLE

if TYPE_CHECKING:
    from ...server.api.model import Model

DEFAULT_DIRECTORY = "model_repository"


class CardActions:
    """The buttons of one card. Needs ipywidgets.

    Guarantees: callbacks may come on any thread; one runs at a time. `unloaded` is called after the model was unloaded.
    """

    def __init__(
        self, workspace: Workspace, model: Model, describe_error: DescribeError, unloaded: Callable[[], None]
    ) -> None:
        self._workspace = workspace
        self._model = model
        self._describe_error = describe_error
        self._unloaded = unloaded
        self._lock = threading.Lock()  # one callback at a time
        self.playground: Playground | None = None
        widgets: Any = importlib.import_module("ipywidgets")
        self._widgets = widgets
        width = widgets.Layout(width="124px")
        self.playground_button = widgets.Button(description="Playground", icon="play", layout=width)
        self.export_button = widgets.Button(description="Export…", icon="download", layout=width)
        self.unload_button = widgets.Button(description="Unload", icon="eject", layout=width)
        self.playground_button.on_click(self._locked(self.toggle_playground))
        self.export_button.on_click(self._locked(self.ask_export))
        self.unload_button.on_click(self._locked(self.unload))
        self._build_export(widgets)
        self.panel = widgets.VBox([], layout=widgets.Layout(margin="6px 0 0 0"))
        buttons = [self.playground_button, self.export_button, self.unload_button]
        self.widget = widgets.VBox(
            [widgets.HTML(STYLE, layout=widgets.Layout(display="none")), widgets.HBox(buttons), self.panel]
        )

    def _build_export(self, widgets: Any) -> None:
        self.directory = widgets.Text(
            value=DEFAULT_DIRECTORY, description="Repository", layout=widgets.Layout(width="420px")
        )
        self.write_button = widgets.Button(description="Write", button_style="primary")
        self.replace_button = widgets.Button(description="Replace, keep a backup", button_style="warning")
        self.replace_button.layout = widgets.Layout(width="190px", display="none")
        self.zip_button = widgets.Button(description="Zip", tooltip="pack what was written, beside the repository")
        self.zip_button.layout = widgets.Layout(width="80px", display="none")
        self.others = widgets.Checkbox(value=True, indent=False, layout=widgets.Layout(display="none", width="auto"))
        # an output, not a widget of HTML: only there does JupyterLab make links to files work
        self.export_result = widgets.Output()
        self._report: ExportReport | None = None
        self.write_button.on_click(self._locked(lambda: self.export(overwrite=False)))
        self.replace_button.on_click(self._locked(lambda: self.export(overwrite=True)))
        self.zip_button.on_click(self._locked(self.zip))
        self.directory.observe(lambda change: self._offer_replace(False), names="value")
        row = widgets.HBox([self.directory, self.write_button, self.replace_button, self.zip_button])
        self.export_panel = widgets.VBox([row, self.others, self.export_result])

    def toggle_playground(self) -> None:
        """Shows the playground below the card, or takes it away."""
        if self.playground is not None and self.playground.widget in self.panel.children:
            self.panel.children = ()
            return
        self.playground = self.playground or Playground(self._model, self._describe_error)
        self.panel.children = (self.playground.widget,)

    def ask_export(self) -> None:
        """Asks where to, and whether with the models it needs, below the card."""
        shown = self.export_panel in self.panel.children
        if not shown:
            names = [model.name for model in needed_models(self._model).loaded]
            self.others.description = f"with {', '.join(names)}, which it needs"
            self.others.layout.display = "" if names else "none"
        self.panel.children = () if shown else (self.export_panel,)

    def export(self, overwrite: bool) -> ExportReport | None:
        """Writes the repository; where something else is there, says what would change and asks first."""
        self._offer_replace(False)
        self._report, self.zip_button.layout.display = None, "none"
        directory, alone = self.directory.value.strip() or DEFAULT_DIRECTORY, not self.others.value
        try:
            report = export(self._model, directory, overwrite=overwrite, alone=alone)
        except ExportConflict as conflict:
            self._say(f"{conflict.plan.path} exists and differs. Replacing it would\n{conflict.plan}", "warn")
            self._offer_replace(True)
            return None
        except (OSError, TritonError) as error:
            self._say(str(error), "bad")
            return None
        self._report, self.zip_button.layout.display = report, ""
        self._show(report)
        return report

    def zip(self) -> None:
        """Packs what was written last, and shows the link."""
        assert self._report is not None
        try:
            archive = self._report.zip()
        except OSError as error:
            self._say(str(error), "bad")
            return
        self._show(self._report, archive)

    def unload(self) -> None:
        """Unloads the model. Run its cell again to load it."""
        self._workspace.unload(self._model.name)
        self.panel.children = ()
        for button in (self.playground_button, self.export_button, self.unload_button):
            button.disabled = True
        self._unloaded()

    def _offer_replace(self, offer: bool) -> None:
        self.replace_button.layout.display = "" if offer else "none"
        self.write_button.layout.display = "none" if offer else ""

    def _say(self, text: str, tone: str) -> None:
        html = f"{STYLE}<div class='tl-panel'><div class='tl-note tl-{tone}-note tl-text'>{escape(text)}</div></div>"
        self._output((text, html))

    def _show(self, *results: ExportReport | ExportArchive) -> None:
        self._output(*((str(result), result._repr_html_()) for result in results))

    def _output(self, *shown: tuple[str, str]) -> None:
        self.export_result.outputs = tuple(
            {"output_type": "display_data", "data": {"text/plain": text, "text/html": html}, "metadata": {}}
            for text, html in shown
        )

    def _locked(self, action: Callable[[], object]) -> Callable[[Any], None]:
        def call(button: Any) -> None:
            with self._lock:
                action()

        return call
