"""The export form below a model's card: the folder, the other models to include, and the result."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from html import escape
from typing import Any

from ...core.status import TritonError
from ...notebook.views.card.card_panel import CardPanel
from ...notebook.views.theme import STYLE
from ...server.api.model import Model
from ...server.api.needed_models import needed_models
from .export_options import ExportOptions
from .report import ExportArchive, ExportConflict, ExportReport
from .repository import export

DEFAULT_DIRECTORY = "model_repository"


class ExportPanel(CardPanel):
    """The export form; it needs ipywidgets. Guarantees: callbacks may come on any thread; one runs at a time."""

    def __init__(self, model: Model, renewed: Callable[[], object] = lambda: None) -> None:
        self._model = model
        self._lock = threading.Lock()  # one callback at a time
        self._report: ExportReport | None = None
        widgets: Any = importlib.import_module("ipywidgets")
        layout = widgets.Layout
        self.directory = widgets.Text(
            value=DEFAULT_DIRECTORY,
            description="Repository",
            layout=layout(width="420px", max_width="100%"),
            style={"description_width": "initial"},
        )
        self.write_button = widgets.Button(description="Write", button_style="primary")
        self.replace_button = widgets.Button(
            description="Replace, keep a backup",
            button_style="warning",
            layout=layout(width="190px", display="none"),
        )
        self.zip_button = widgets.Button(
            description="Zip",
            tooltip="pack what was written, beside the repository",
            layout=layout(width="80px", display="none"),
        )
        self.others = widgets.Checkbox(value=True, indent=False, layout=layout(display="none", width="auto"))
        # an output, not an HTML widget: only there JupyterLab makes links to files work
        self.result = widgets.Output()
        self.write_button.on_click(self._locked(lambda: self.export(overwrite=False)))
        self.replace_button.on_click(self._locked(lambda: self.export(overwrite=True)))
        self.zip_button.on_click(self._locked(self.zip))
        self.directory.observe(lambda change: self._offer_replace(False), names="value")
        row = widgets.HBox(
            [self.directory, self.write_button, self.replace_button, self.zip_button], layout=layout(flex_flow="wrap")
        )
        self.widget = widgets.VBox([row, self.others, self.result])

    def opened(self) -> None:
        """Offer the models that this model currently needs."""
        names = [model.name for model in needed_models(self._model).loaded]
        self.others.description = f"with {', '.join(names)}, which it needs"
        self.others.layout.display = "" if names else "none"

    def export(self, overwrite: bool) -> ExportReport | None:
        """Write the repository. If the folder has other content, show the changes and ask first."""
        self._offer_replace(False)
        self._report, self.zip_button.layout.display = None, "none"
        directory, alone = self.directory.value.strip() or DEFAULT_DIRECTORY, not self.others.value
        try:
            report = export([self._model], directory, ExportOptions(overwrite=overwrite, alone=alone))
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
        """Pack the last written repository, and show the link."""
        assert self._report is not None
        try:
            archive = self._report.zip()
        except OSError as error:
            self._say(str(error), "bad")
            return
        self._show(self._report, archive)

    def _offer_replace(self, offer: bool) -> None:
        self.replace_button.layout.display = "" if offer else "none"
        self.write_button.layout.display = "none" if offer else ""

    def _say(self, text: str, tone: str) -> None:
        html = f"{STYLE}<div class='tl-panel'><div class='tl-note tl-{tone}-note tl-text'>{escape(text)}</div></div>"
        self._output((text, html))

    def _show(self, *results: ExportReport | ExportArchive) -> None:
        self._output(*((str(result), result._repr_html_()) for result in results))

    def _output(self, *messages: tuple[str, str]) -> None:
        self.result.outputs = tuple(
            {"output_type": "display_data", "data": {"text/plain": text, "text/html": html}, "metadata": {}}
            for text, html in messages
        )

    def _locked(self, action: Callable[[], object]) -> Callable[[Any], None]:
        def call(button: Any) -> None:
            with self._lock:
                action()

        return call
