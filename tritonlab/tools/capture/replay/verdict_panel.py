"""The verdict of a replay with buttons: each keeps the example of a group."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from ....core.status import TritonError
from ....notebook.views.theme import STYLE
from .answer_changes import ChangeGroup

#: The groups that have buttons.
_GROUPS = 20


def verdict_panel(html: str, groups: Sequence[ChangeGroup]) -> Any:
    """Return the HTML of a verdict as a widget, with a row of buttons for each group. Raises ImportError without
    ipywidgets."""
    widgets: Any = importlib.import_module("ipywidgets")
    rows = [_row(widgets, group) for group in groups[:_GROUPS]]
    return widgets.VBox([widgets.HTML(f"{STYLE}{html}"), *rows])


def _row(widgets: Any, group: ChangeGroup) -> Any:
    layout = widgets.Layout
    result = widgets.HTML("")
    actions: dict[str, tuple[str, Callable[[], object]]] = {
        "Golden": ("keep the example with its answer before as a golden case", group.to_golden),
        "Failure": ("keep the example among the failures of the model", group.keep_failure),
        "pytest": ("write a test of the example to the working directory", lambda: group.to_pytest(".").name),
    }

    def button(label: str, tooltip: str, action: Callable[[], object]) -> Any:
        found = widgets.Button(description=label, tooltip=tooltip, layout=layout(width="80px"))

        def press(_: object) -> None:
            try:
                text = str(action()).partition("\n")[0]
            except (TritonError, OSError, ValueError) as error:
                text = str(error)
            result.value = escape(text)

        found.on_click(press)
        return found

    buttons = [button(label, *action) for label, action in actions.items()]
    head = widgets.HTML(escape(group.lines()[0]))
    return widgets.HBox([head, *buttons, result], layout=layout(flex_flow="wrap"))
