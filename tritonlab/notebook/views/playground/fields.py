"""Fields and buttons with the looks of the playground."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets


def label_looks(margin: str = "2px 12px 2px 0") -> dict[str, Any]:
    """Return the arguments that make a field's label as wide as its text; the style sheet sets the width of the field.
    They are for its constructor: a style or layout replaced later is a widget that is never closed."""
    return {"style": {"description_width": "initial"}, "layout": widgets.Layout(width="auto", margin=margin)}


def button(label: str, press: Callable[[], object], tip: str = "", width: str = "88px", **looks: Any) -> Any:
    """Return a button that calls `press`."""
    made = widgets.Button(description=label, tooltip=tip or None, layout=widgets.Layout(width=width), **looks)
    made.on_click(lambda _: press())
    return made


def quiet_choice(name: str, options: list[Any], width: str) -> Any:
    """Return a choice without a visible label."""
    made = widgets.Dropdown(
        description=name, options=options, layout=widgets.Layout(width=width, margin="2px 4px 2px 0")
    )
    made.add_class("tl-quiet")
    return made


def side_by_side(*parts: Any) -> Any:
    """Return fields and buttons side by side, in as many lines as they need."""
    return widgets.HBox(parts, layout=widgets.Layout(align_items="center", flex_flow="row wrap"))
