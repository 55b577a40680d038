"""The keys of a form: Ctrl+Enter sends, and JupyterLab's own keys stay out of its fields."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..widget import module_text


def form_keys(fields: Callable[[], Sequence[Any]], send: Callable[[], object], drop: Drop, view: str) -> Any:
    """Return an invisible widget to put into a form, a box of class `tl-form`. `fields`: its widgets for text and
    numbers, each with a description of its own. `send` is called at Ctrl+Enter, once the field with the focus holds the
    value that a person sees. `view` names its static form, as `LiveView.id` does.
    """
    keys = _keys_class()(view=view)
    keys.own_id = keys.model_id  # as in `LiveView.widget`

    def received(widget: Any, content: Any, buffers: Any) -> None:
        if content.get("kind") == "drop":
            drop(int(content["input"]), content["files"], [bytes(part) for part in buffers])
        if content.get("kind") != "send":
            return
        label = content.get("label")
        field = next((field for field in fields() if field.description == label), None) if label else None
        if field is not None:
            _write(field, content["value"])
        send()

    keys.on_msg(received)
    return keys


#: Takes the number of an input, what the browser reports of files dropped on it, and their contents.
Drop = Callable[[int, Sequence[Mapping[str, Any]], Sequence[bytes]], object]


@functools.cache
def _keys_class() -> Any:
    anywidget, traitlets = importlib.import_module("anywidget"), importlib.import_module("traitlets")
    texts = {name: traitlets.Unicode().tag(sync=True) for name in ("view", "own_id")}
    members = {"_esm": module_text("formKeys.js"), **texts}
    return type("FormKeys", (anywidget.AnyWidget,), members)


def _write(field: Any, text: str) -> None:
    """Set the value as if it came from the page: it is not sent back, where a newer one may already be."""
    if isinstance(field.value, str):
        field.set_state({"value": text})
        return
    with suppress(ValueError):  # a text that is not a number leaves the field its number, as leaving the field does
        field.set_state({"value": int(text)})
