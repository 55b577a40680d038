"""One playground input: its widgets, and the HTML next to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets
import numpy as np

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....core.process_bound import ProcessBound
from ....server.api.model_signature import shape_text
from .fields import side_by_side
from .input_files import InputFile, files_value, value_file
from .input_values import InputSpec, Mode, ValueProblem, as_sent, as_text, cast, python_value, random_value, typed_value
from .pictures import pictures_html
from .tensor_text import curve_html, json_note

#: More random values than this are neither shown nor edited one by one.
MOST_EDITED = 256
_MOST_LINES = 6
_PLACEHOLDER = {
    Mode.RANDOM: "",
    Mode.TYPED: "1, 2, 3 or [[1, 2], [3, 4]]",
    Mode.PYTHON: "an expression: images[:4]",
    Mode.FILE: "",
}
_KINDS = "pictures, .wav, .npy, .json, .csv, .txt"
_TEXT_PLACEHOLDER = "a text or ['a', 'b']"
#: What the placeholders have no room for.
_TOOLTIP = "one element for all, a row on each line, or a list; of texts an element on each line"


class InputRow(ProcessBound):
    """One input: its shape, the source of its value, and the fields for that. `box`: the widget for a frontend.

    A few random values are shown in the text field; editing them makes them typed. `number` distinguishes the inputs of
    a form, so that two of them do not get the same random values. `changed` is called after every change of the value.
    """

    _elsewhere = "pickle its `to_dict()`"

    def __init__(self, spec: InputSpec, number: int = 0) -> None:
        self.spec = spec
        self.changed: Callable[[], object] = lambda: None
        self._number = number
        self._batch, self._seed = 1, 0
        self._problem = False  # the note is the error of an action
        self._filling = False  # set while the row itself writes the text
        self._texts: dict[Mode, str] = {}
        self._dropped: list[InputFile] = []
        self._build()
        self.mode.observe(self._on_mode, names="value")
        self.text.observe(self._on_text, names="value")
        for field in self.sizes:
            field.observe(lambda change: self._refresh(), names="value")
        self.upload.observe(lambda change: self._chosen(), names="value")
        self._refresh()

    def _build(self) -> None:
        layout, name = widgets.Layout, self.spec.name
        self.label = widgets.HTML(label_html(self.spec), layout=layout(width="250px", margin="0 8px 0 0"))
        modes = [mode.value for mode in Mode]
        self.mode = widgets.Dropdown(
            options=modes, value=Mode.RANDOM.value, description=f"{name} is", layout=layout(width="92px")
        )
        self.sizes = [
            widgets.BoundedIntText(
                value=1,
                min=0,
                max=1 << 30,
                description=f"{name} size of dimension {index}",
                tooltip=f"dim {index}",
                layout=layout(width="72px"),
            )
            for index, dim in enumerate(self.spec.dims)
            if dim < 0
        ]
        self.sizes_box = widgets.HBox(
            [part for field in self.sizes for part in (widgets.HTML(dimension_html(field.tooltip)), field)],
            layout=layout(align_items="center"),
        )
        self.text = widgets.Textarea(
            rows=1,
            description=f"{name} value",
            tooltip=_TOOLTIP,
            layout=layout(flex="1 1 240px", width="auto", min_width="200px", height="auto"),
        )
        self.upload = widgets.FileUpload(
            multiple=True, description="Choose files", tooltip=f"Files for {name}", layout=layout(width="140px")
        )
        self.note = widgets.HTML()
        self.sent_box = widgets.Checkbox(
            value=not self.spec.optional,
            description="send",
            indent=False,
            tooltip=f"Send {name}, which is optional",
            layout=layout(width="64px"),
        )
        for field in (self.mode, *self.sizes, self.text):
            field.add_class("tl-quiet")
        ask = [self.sent_box] if self.spec.optional else []
        self.box = side_by_side(self.label, *ask, self.mode, self.sizes_box, self.upload, self.text, self.note)
        self.box.add_class("tl-input")
        self.box.add_class(f"tl-input-{self._number}")  # marks where a file was dropped (`formKeys.ts`)

    def to_dict(self) -> dict[str, Any]:
        """Return the input and the source of its value, as JSON values."""
        return self.spec.to_dict(self._mode, self.text.value, [file.name for file in self._files()], self.sent)

    @property
    def fields(self) -> list[Any]:
        """Return every field except the choice of files."""
        return [*([self.sent_box] if self.spec.optional else []), self.mode, *self.sizes, self.text]

    @property
    def sent(self) -> bool:
        """Whether a request carries the input."""
        return bool(self.sent_box.value)

    @property
    def random(self) -> bool:
        """Whether the value differs from request to request."""
        return self._mode is Mode.RANDOM

    @property
    def typed(self) -> bool:
        return self._mode is Mode.TYPED

    @property
    def _mode(self) -> Mode:
        return Mode(self.mode.value)

    def arrange(self, batch: int, seed: int) -> None:
        """Apply the batch size and the seed of the form."""
        if (batch, seed) != (self._batch, self._seed):
            self._batch, self._seed = batch, seed
            self._refresh()

    def take_over(self, other: InputRow) -> None:
        """Copy the values of a row for an equal input of another form. Random values follow from this form's seed."""
        for field, known in zip(self.fields, other.fields, strict=True):
            if field is not self.text or not other.random:
                field.value = known.value
        if other.mode.value == Mode.FILE.value:
            self.drop(other._files())

    def value(self, batch: int, namespace: Mapping[str, Any], request: int = 0) -> Any:
        """Return the value of this input for request number `request`. Raises ValueProblem."""
        shape = self._shape(batch)
        if self.random:
            return as_sent(self.spec, cast(self.spec, self._random(shape, request)))
        if self.typed:
            return as_sent(self.spec, typed_value(self.spec, self.text.value, shape))
        if self._mode is Mode.FILE:
            return as_sent(self.spec, files_value(self.spec, self._files(), shape))
        value = python_value(self.spec, self.text.value, namespace)
        file = value_file(self.spec, value)
        return value if file is None else as_sent(self.spec, files_value(self.spec, [file], shape))

    def rows(self, value: Any) -> int | None:
        """Return the batch size set by `value`, a value of this input; None if it sets none."""
        shape = tuple(getattr(value, "shape", ()))
        return shape[0] if self.spec.batching and self.spec.is_element(shape[1:]) and shape else None

    def _shape(self, batch: int) -> tuple[int, ...]:
        return self.spec.shape(batch, [field.value for field in self.sizes])

    def _random(self, shape: tuple[int, ...], request: int) -> Any:
        return random_value(self.spec, shape, np.random.default_rng([self._seed, self._number, request]))

    def _files(self) -> list[InputFile]:
        return self._dropped or [InputFile(file["name"], bytes(file["content"])) for file in self.upload.value]

    def drop(self, files: list[InputFile]) -> None:
        """Use files as if they had been chosen. They stay in the kernel: the field for files would send them back."""
        self._dropped = files
        self.mode.value = Mode.FILE.value
        self._refresh()

    def say(self, text: str) -> None:
        """Show the error of an action on the input."""
        self._problem = True
        self.note.value = f"<div class='tl-panel'><span class='tl-bad' role='alert'>{escape(text)}</span></div>"

    def clear_problem(self) -> None:
        """Remove the text shown by `say`."""
        if self._problem:
            self._refresh()

    def _chosen(self) -> None:
        self._dropped = []
        self._refresh()

    def _on_mode(self, change: Any) -> None:
        before, mode = Mode(change["old"]), Mode(change["new"])
        self._texts[before] = self.text.value
        if mode is not Mode.RANDOM:
            # random values are a start for typing
            start = self._texts[Mode.RANDOM] if before is Mode.RANDOM and mode is Mode.TYPED else ""
            self._write(self._texts.get(mode) or start)
        self._refresh()

    def _on_text(self, change: Any) -> None:
        if self._filling:
            return
        if self.random:
            self._texts[Mode.TYPED] = self.text.value
            self.mode.value = Mode.TYPED.value
        else:
            self._refresh()

    def _write(self, text: str) -> None:
        self._filling = True
        try:
            self.text.value = text
        finally:
            self._filling = False

    def _refresh(self) -> None:
        """Show the fields of the mode, and a preview of the value."""
        self._problem = False
        mode = self._mode
        text = mode is Mode.TYPED and self.spec.datatype is DataType.BYTES
        self.text.placeholder = _TEXT_PLACEHOLDER if text else _PLACEHOLDER[mode]
        self.upload.layout.display = "" if mode is Mode.FILE else "none"
        # an expression and a file bring their own shape
        own = mode in (Mode.PYTHON, Mode.FILE)
        self.sizes_box.layout.display = "none" if own or not self.sizes else ""
        note = self._random_note() if mode is Mode.RANDOM else ""
        if mode is Mode.FILE:
            note = files_note(self.spec, self._files(), self._shape(self._batch))
        elif mode is Mode.TYPED:
            note = typed_note(self.spec, self.text.value)
        self.text.layout.display = "none" if mode is Mode.FILE or (note and mode is Mode.RANDOM) else ""
        self.note.value = f"<div class='tl-panel'>{note}</div>" if note else ""
        self.text.rows = min(_MOST_LINES, self.text.value.count("\n") + 1)
        self.changed()

    def _random_note(self) -> str:
        """Write the values into the text field, or return a description if they are too many."""
        shape = self._shape(self._batch)
        count = math.prod(shape)
        if count <= MOST_EDITED:
            self._write(as_text(self._random(shape, 0)))
            return ""
        self._write("")
        return f"<span class='tl-dim'>{count:,} random values; up to {MOST_EDITED} can be edited here</span>"


def label_html(spec: InputSpec) -> str:
    """Return the name, datatype and shape of an input."""
    shape = escape(shape_text(spec.dims, spec.max_batch_size))
    return (
        f"<div class='tl-panel'><span class='tl-tensor'>{escape(spec.name)}</span>&ensp;"
        f"<span class='tl-type tl-dim'>{spec.datatype.name} {shape}</span></div>"
    )


def dimension_html(name: str) -> str:
    """Return the name in front of the field for the size of a dimension."""
    return f"<div class='tl-panel'><span class='tl-dim'>{escape(name)} =</span></div>"


def typed_note(spec: InputSpec, text: str) -> str:
    """Describe a typed document, or the place where it stops being valid, and lines that are elements."""
    note = json_note(text) if spec.datatype is DataType.BYTES else ""
    if spec.datatype is DataType.BYTES and not note and "\n" in text.strip():
        count = typed_value(spec, text, spec.shape(1, ())).size
        note = f"{count} elements, one on each line; '''…''' is one with several lines" if count > 1 else ""
    tone = "tl-warn" if note.startswith("not JSON") else "tl-dim"
    return f"<span class='{tone}'>{escape(note)}</span>" if note else ""


def files_note(spec: InputSpec, files: Sequence[InputFile], shape: tuple[int, ...]) -> str:
    """Show the value of the files, or why they cannot be read."""
    if not files:
        return f"<span class='tl-dim'>choose files or drop them here: {_KINDS}; each a row of the batch</span>"
    try:
        value = files_value(spec, files, shape)
    except ValueProblem as problem:
        return f"<span class='tl-bad'>{escape(str(problem))}</span>"
    sent = as_sent(spec, value)
    tensor = sent if isinstance(sent, Tensor) else Tensor.from_numpy(sent)
    names = ", ".join(file.name for file in files)
    note = f"{escape(names)}: {tensor.datatype.name} {list(tensor.shape)}"
    seen = pictures_html(tensor, escape(spec.name)) or curve_html(spec.name, tensor)
    return f"<div>{note}</div>{seen}"
