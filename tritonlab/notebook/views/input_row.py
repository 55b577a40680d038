"""The widgets of one playground input."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ...server.api.model_signature import shape_text
from .input_values import InputSpec, Mode, python_value, random_value, typed_value

_PLACEHOLDER = {
    Mode.RANDOM: "",
    Mode.TYPED: "one element for all, or a list: [[1, 2], [3, 4]]",
    Mode.PYTHON: "an expression of the notebook: images[:4]",
}


class InputRow:
    """One input: its shape, how its value is made, and the text for that. `box` is what a frontend shows."""

    def __init__(self, spec: InputSpec, widgets: Any) -> None:
        self.spec = spec
        layout = widgets.Layout
        self.label = widgets.HTML(_label(spec), layout=layout(width="250px", margin="0 8px 0 0"))
        self.mode = widgets.Dropdown(
            options=[mode.value for mode in Mode],
            value=Mode.RANDOM.value,
            layout=layout(width="92px"),
            tooltip="How the value is made",
        )
        self.sizes = [
            widgets.BoundedIntText(
                value=1, min=0, max=1 << 30, layout=layout(width="72px"), tooltip=f"Size of dimension {index}"
            )
            for index, dim in enumerate(spec.dims)
            if dim < 0
        ]
        self.sizes_box = widgets.HBox(self.sizes)
        self.text = widgets.Textarea(rows=1, layout=layout(flex="1 1 240px", width="auto", min_width="200px"))
        self.given = widgets.Checkbox(
            value=not spec.optional, description="send", indent=False, layout=layout(width="64px")
        )
        self.mode.observe(self._arrange, names="value")
        self._arrange()
        ask = [self.given] if spec.optional else []
        self.box = widgets.HBox(
            [self.label, *ask, self.mode, self.sizes_box, self.text],
            layout=layout(align_items="center", flex_flow="row wrap"),
        )

    def value(self, batch: int, namespace: Mapping[str, Any], random: np.random.Generator) -> Any:
        """What a request carries for this input. Raises ValueProblem."""
        shape = self.spec.shape(batch, [field.value for field in self.sizes])
        mode = Mode(self.mode.value)
        if mode is Mode.RANDOM:
            return random_value(self.spec, shape, random)
        if mode is Mode.TYPED:
            return typed_value(self.spec, self.text.value, shape)
        return python_value(self.spec, self.text.value, namespace)

    def _arrange(self, change: object = None) -> None:
        mode = Mode(self.mode.value)
        self.text.placeholder = _PLACEHOLDER[mode]
        self.text.layout.display = "none" if mode is Mode.RANDOM else ""
        # an expression brings its own shape
        self.sizes_box.layout.display = "none" if mode is Mode.PYTHON or not self.sizes else ""


def _label(spec: InputSpec) -> str:
    shape = escape(shape_text(spec.dims, spec.max_batch_size))
    return (
        f"<div class='tl-panel'><span class='tl-tensor'>{escape(spec.name)}</span>&ensp;"
        f"<span class='tl-type tl-dim'>{spec.datatype.name} {shape}</span></div>"
    )
