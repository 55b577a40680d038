"""The HTML beside one playground input: what it is, what was typed, and the value of its files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....server.api.model_signature import shape_text
from .array_facts import curve_html
from .input_files import InputFile, files_value
from .input_values import InputSpec, ValueProblem, as_sent
from .json_values import json_note
from .pictures import pictures_html

_KINDS = "pictures, .wav, .npy, .json, .csv, .txt"


def label_html(spec: InputSpec) -> str:
    """Return the name, datatype and shape of an input."""
    shape = escape(shape_text(spec.dims, spec.max_batch_size))
    return (
        f"<div class='tl-panel'><span class='tl-tensor'>{escape(spec.name)}</span>&ensp;"
        f"<span class='tl-type tl-dim'>{spec.datatype.name} {shape}</span></div>"
    )


def typed_note(spec: InputSpec, text: str) -> str:
    """Describe a typed document, or where it ceases to be one."""
    note = json_note(text) if spec.datatype is DataType.BYTES else ""
    tone = "tl-warn" if note.startswith("not JSON") else "tl-dim"
    return f"<span class='{tone}'>{escape(note)}</span>" if note else ""


def files_note(spec: InputSpec, files: Sequence[InputFile], shape: tuple[int, ...]) -> str:
    """Show the value of the files, or why they have none."""
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
    seen = pictures_html(tensor, escape(spec.name, quote=True)) or curve_html(spec.name, tensor)
    return f"<div>{note}</div>{seen}"
