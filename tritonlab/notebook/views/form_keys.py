"""This module gives a form its keys: Ctrl+Enter sends, and JupyterLab's own keys stay out of its fields."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .widget import module_text


def form_keys(fields: Sequence[Any], send: Callable[[], object], view: str) -> Any:
    """Returns an invisible widget to be put into a form, a box of class `tl-form`. `fields`: its widgets that text or
    numbers are written into, each with a description of its own. `send` is called at Ctrl+Enter, once the field that
    has the focus holds the value that a person sees. `view` names its static form, as `LiveView.id` does.
    """
    keys = _keys_class()(view=view)
    by_label = {field.description: field for field in fields}

    def heard(widget: Any, content: Any, buffers: Any) -> None:
        if content.get("kind") != "send":
            return
        field = by_label.get(content.get("label"))
        if field is not None:
            _write(field, content["value"])
        send()

    keys.on_msg(heard)
    return keys


@functools.cache
def _keys_class() -> Any:
    anywidget, traitlets = importlib.import_module("anywidget"), importlib.import_module("traitlets")
    members = {"_esm": module_text("form_keys.js"), "view": traitlets.Unicode().tag(sync=True)}
    return type("FormKeys", (anywidget.AnyWidget,), members)


def _write(field: Any, text: str) -> None:
    if isinstance(field.value, str):
        field.value = text
        return
    with suppress(ValueError):  # a text that is no number leaves the field its number, as leaving the field does
        field.value = int(text)
