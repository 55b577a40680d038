"""`%triton load_test`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....notebook.authoring.errors import OptionError
from ....notebook.shell.subcommand import Context
from ....server.api.request_maker import smallest_shapes
from .load_panel import LoadPanel


def load_test(
    context: Context,
    name: str,
    concurrency: str | None = None,
    request_rate: str | None = None,
    shape: Sequence[str] = (),
    csv: str | None = None,
    **options: Any,
) -> Any:
    """Run a load test and return its result. If no load is named, measure one client, and return the form that shows
    the result: its Start button needs a browser.
    """
    model = context.model(name)
    if concurrency is not None:
        options["concurrency"] = _numbers(concurrency)
    if request_rate is not None:
        options["request_rate"] = _numbers(request_rate)
    if shape:
        options["shapes"] = dict(_shape(text) for text in shape)
    if not options:
        options["shapes"] = smallest_shapes(model.config())
        if not csv and not context.json:
            panel = LoadPanel(model)
            panel.measure(**options)
            return panel
    result = model.load_test(**options, progress=not context.json)
    if csv:
        result.to_csv(csv)
    return result


def _shape(text: str) -> tuple[str, list[int]]:
    name, colon, dims = text.rpartition(":")
    if not colon or not all(word.strip().isdecimal() for word in dims.split(",")):
        raise OptionError(f"'{text}' is not a shape: write NAME:3,64", fix="write NAME:3,64")
    return name, [int(word) for word in dims.split(",")]


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise OptionError(f"'{text}' is not a list of numbers: write 1,2,8", fix="write 1,2,8") from None
